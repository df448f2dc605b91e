"""Paths that part and join again: a deadlock that is certain before the run.

A stream with several readers goes on only when all of them take it. Where two of the paths meet in an operator that takes an element of each, and one of them gives its
first only after ``n`` elements (an Accum or a Bufferize of n), the other has to hold these n: its channels and units, up to the operator. If they hold fewer, nothing moves any more.
So it is where one path tells of an element when it has all beats of it (a reference), and the other does not hold these beats.

Checked for streams of static shape, whatever the data; paths through operators whose first element depends on the data are left to the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from penstock.machine.errors import LoweringError
from penstock.machine.kinds import queue_entries
from penstock.machine.unitgraph import Channel

from .buffer_operators import Bufferize, Streamify
from .compute_operators import Accum
from .graph import Operator, Stream
from .lowering.base import Lowering, Port
from .routing_operators import EagerMerge, Partition, Reassemble
from .shape_operators import Expand
from .edge_operators import Loop
from .types import TileType, ceil_div

PASSES = {"machine": ("map", "flatten", "promote", "broadcast", "pace"), "published": ("map", "flatten", "promote", "broadcast")}
"""Unit kinds that give an element for each one that they take."""
JOINS = ("map", "zip", "map_accum", "expand", "row_append", "row_offset", "address")
"""Unit kinds that take an element of both inputs and hold none of them."""
UNTOLD = (Partition, Reassemble, EagerMerge, Loop)
"""Operators whose first element depends on the data."""


@dataclass(frozen=True)
class Short:
    """A path that joins an operator, and the beats of the parted stream that it holds before that operator takes the first."""

    join: str
    port: int
    beats: int


def check(low: Lowering) -> None:
    """Raise LoweringError where a program cannot run because one path is too short for the other."""
    leaving = {c.src: c for c in low.channels}
    for node in low.graph.nodes:
        for stream in node:
            readers = low.graph.consumers(stream)
            if len(readers) > 1 and all(d.value is not None for d in stream.shape):
                _check_stream(low, leaving, stream, readers)


def _check_stream(low: Lowering, leaving: dict[tuple[int, int], Channel], stream: Stream, readers: list[tuple[Operator, int]]) -> None:
    beats = _beats(low, stream)
    if beats is None:
        return
    shorts = [s for reader, i in readers for s in _shorts(low, leaving, low.ready[stream.node.name, stream.port, reader.name, i])]
    if not shorts:
        return
    for path in _paths([reader] for reader in readers):
        join, i = path[-1]
        need = _needed(path[:-1])
        whole = any((n.name, k) in low.wholes for n, k in path[:-1])
        for s in shorts:
            # elements before the last one come whole; of that one a beat may do, where nobody waits for all of it. One more stays at the fork.
            if s.join == join.name and s.port != i and (need > 1 or whole) and (need - 1) * beats + (beats if whole else 1) > s.beats + 1:
                first = max((n for n, _ in path[:-1]), key=lambda n: _needed([(n, 0)]))
                waits = f"the first element that {first.name} gives after {need}" if need > 1 else f"a whole element of {beats} beats"
                raise LoweringError(f"stream {stream.name} parts and joins again in {join.name}, which waits for {waits}; "
                                    f"the other way holds {s.beats // beats if beats > 1 and need > 1 else s.beats}",
                                    f"{join.label} at {join.line}" if join.line else join.label, "the shorter way holds what the longer one needs before its first element",
                                    f"let it run ahead: Fifo({stream.name}, depth={need}) on the way to input {s.port}, or Bufferize it")


def _beats(low: Lowering, stream: Stream) -> int | None:
    """Beats of one element."""
    element = stream.element
    if low.timing == "published" or not isinstance(element, TileType):
        return 1 if not hasattr(element, "members") else None
    if not element.static:
        return None
    return ceil_div(element.rows.value, low.t) * ceil_div(element.cols.value, low.t)


def _shorts(low: Lowering, leaving: dict[tuple[int, int], Channel], port: Port, held: int = 0) -> Iterator[Short]:
    """Where units that give one for one lead to, with what they hold."""
    c = leaving[port.unit, port.port]
    unit = low.units[c.dst[0]]
    held += c.depth or low.config.published.fifo_depth
    inputs, outputs = low.kinds[unit.kind].arity(unit.params)
    if inputs == 2 and unit.kind in JOINS:
        yield Short(unit.node, c.dst[1], held)
    elif inputs == 1 and unit.kind in PASSES[low.timing]:
        for i in range(outputs):
            yield from _shorts(low, leaving, Port(unit.id, i, port.payload), held + _inside(low, unit))


def _inside(low: Lowering, unit) -> int:
    """Beats that a unit holds, at most."""
    if low.timing == "published":
        return 0 if unit.kind == "map" else 1
    kind = low.kinds[unit.kind]
    latency = kind.latency(low.t, unit.params)
    return queue_entries(latency, kind.interval(low.t, unit.params)) + 1 if latency else 0


def _paths(starts) -> Iterator[list[tuple[Operator, int]]]:
    """Ways through the program as (operator, input), each to an operator of two inputs; an operator is entered once at each input."""
    left, seen = list(starts), set()
    while left:
        path = left.pop()
        node, i = path[-1]
        if (node, i) in seen:
            continue
        seen.add((node, i))
        if len(node.inputs) == 2 and len(path) > 1:
            yield path
        if not isinstance(node, UNTOLD):
            left += [[*path, reader] for stream in node for reader in node.graph.consumers(stream)]


def _needed(path: list[tuple[Operator, int]]) -> int:
    """Elements that a path takes at least before it gives its first."""
    n = 1
    for node, i in reversed(path):
        if isinstance(node, Accum | Bufferize):
            sizes = [d.value for d in node.inputs[i].shape[len(node.inputs[i].shape) - node.args["rank"] :]]
            n = n * prod(sizes) if None not in sizes else n
        elif isinstance(node, Expand) and not node.by_reference:
            n = ceil_div(n, node.args["count"])
        elif isinstance(node, Streamify) or len(node.inputs) == 2 and isinstance(node, Expand):
            n = 1
    return n
