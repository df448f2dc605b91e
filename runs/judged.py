"""A run, and the NumPy meaning of its program, against the judge of nested lists.

The payload of a sink's beats is compared with the meaning's (:mod:`.boundary`), the meaning's
values here with the judge's; what is compared of a run itself is its lists and its tensors.
"""

from __future__ import annotations

import contextlib
from functools import partial

import numpy as np

from ..frontend.graph import Graph, Stream
from ..frontend.meaning.evaluator import Evaluator
from ..frontend.operators.boundary import Sink
from ..frontend.types import BufferType, ElementType, TileType, TupleType, inner_dims
from ..machine.beat import STOP_DONE
from ..machine.trace import ChannelTrace, Run
from ..machine.unitgraph import UnitGraph
from ..testing.judge import Judge
from ..testing.judged_tiles import UnjudgedError
from ..testing.lists import Buffer, alike, deep, difference, empty, tiled
from . import boundary


def judge_of(
    graph: Graph, units: UnitGraph, run: Run, tensors: dict[str, np.ndarray], given: dict
) -> Judge | None:
    """The judge of a program, with the order of arrivals of a run; None where it has no rule."""
    with contextlib.suppress(UnjudgedError):
        return Judge(graph, tensors, units.t, given, boundary.arrivals(units, run))


def differences(judge: Judge, units: UnitGraph, run: Run, meaning: Evaluator) -> list[str]:
    """A message for each tensor and sink of a run, and each stream of the NumPy meaning, that is
    not as the judge has it.
    """
    wrong = [
        f"tensor {name} of the {run.backend} differs from the judge's"
        for name, got in (run.outputs or {}).items()
        if name in judge.outputs and got.tobytes() != judge.outputs[name].tobytes()
    ]
    for (name, port), lists in judge.streams.items():
        s = judge.nodes[name][port]
        if found := _in_meaning(s, lists, meaning.streams[name, port]):
            wrong.append(f"stream {s.name} of the NumPy meaning: {found}")
    for unit in units.units:
        if unit.kind.name == "sink" and isinstance(node := judge.nodes.get(unit.node), Sink):
            (s,) = node.inputs
            trace = run.channels[units.inputs(unit.id)[0].id]
            element, place = boundary.member_of(unit, node)
            lists = deep(partial(_member, place), s.rank + 1, judge.streams[s.node.name, s.port])
            if found := _on_wire(s.rank, element, lists, trace, units.t):
                wrong.append(f"{node.name} of the {run.backend}: {found}")
    return wrong


def _member(place: list[int], x):
    """The member at a place of an element."""
    for k in place:
        x = x[k]
    return x


def _in_meaning(s: Stream, lists: list, items: list[tuple]) -> str | None:
    """Differences between the meaning's items of a stream and those of the judge's lists."""
    inner = 2 if _run_time(s.element) else 0
    beats = [
        (None if v is None or empty(v, s.element) else _value(v, s.element), stop + inner)
        for v, stop in items
    ]
    want = deep(lambda x: _whole(x, s.element), s.rank + 1, lists)
    return difference(want, beats, s.rank + 1 + inner, partial(_same, s.element))


def _on_wire(
    rank: int, element: ElementType, lists: list, trace: ChannelTrace, t: int
) -> str | None:
    """Differences between the beats of a channel and the judge's lists of physical tiles."""
    beats = [
        (True if data else None, int(stop))
        for stop, data in zip(trace.stop, trace.data, strict=True)
        if data or stop != STOP_DONE
    ]
    want = deep(lambda x: tiled(x, element, t), rank + 1, lists)
    return difference(want, beats, rank + 1 + inner_dims(element), lambda *_: True)


def _run_time(element: ElementType) -> bool:
    """True for an element that is a list of its own, which may be empty."""
    if isinstance(element, TupleType):
        return any(map(_run_time, element.members))
    return isinstance(element, TileType) and not element.static


def _whole(x, element: ElementType):
    """The judge's element in one piece, where it is a list of its own as one of rows."""
    if not _run_time(element):
        return x
    return [] if empty(x, element) else [[x]]


def _value(v, element: ElementType):
    """An element of the meaning; a buffer's are a list that is none of the stream's."""
    if isinstance(element, TupleType):
        return tuple(_value(*pair) for pair in zip(v, element.members, strict=True))
    return Buffer(v) if isinstance(element, BufferType) else v


def _same(element: ElementType, want, got) -> bool:
    if isinstance(element, TupleType):
        return all(map(_same, element.members, want, got))
    if isinstance(element, BufferType):
        rank = len(element.shape)
        beats = ((x, min(stop, rank)) for x, stop in got.content)
        return difference([want.content], beats, rank + 1, partial(_same, element.element)) is None
    return alike(want, got)
