"""A program's own streams at the edges of the fabric: beats that its sources offer and its sinks
must take, and the order in which units arrived.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import ml_dtypes

from ..frontend.graph import Graph, Operator
from ..frontend.meaning.elements import tokens
from ..frontend.types import (
    BufferType,
    ElementType,
    SelectorType,
    TileType,
    TupleType,
    inner_dims,
    leaves_of,
    members_of,
)
from ..machine.beat import FNV_OFFSET, FNV_PRIME, Payload, Selector, Tile, beat_number, leaves
from ..machine.errors import RunError
from ..machine.stimulus import whole_beats
from ..machine.trace import ChannelTrace, Run, SourceBeats
from ..machine.unitgraph import Unit, UnitGraph
from ..model import stepsim
from ..testing.beats import beats
from .arrival import against_the_rule


def _bits(payload: Payload, value, rows: int = 0, cols: int = 0) -> int:
    """Payload bits of one leaf (docs/timing.md section 6)."""
    if isinstance(payload, Tile):
        a = np.zeros((payload.t, payload.t), np.float32)
        a[:rows, :cols] = value
        raw = (
            a.astype(ml_dtypes.bfloat16).tobytes()
            if payload.dtype == "bf16"
            else a.astype("<f4").tobytes()
        )
        return (
            int.from_bytes(raw, "little")
            | rows << 8 * len(raw)
            | cols << (8 * len(raw) + payload.count_bits)
        )
    return sum(1 << i for i in value) if isinstance(payload, Selector) else int(value)


def _parts(element, t: int, value) -> list[list[tuple]] | None:
    """Rows of (value, valid rows, valid columns), one per physical tile of an element; None: an
    empty tile of run-time size.
    """
    if not isinstance(element, TileType):
        return [[(value, 0, 0)]]
    rows, cols = (
        value.shape[i] if d.value is None else d.value
        for i, d in enumerate((element.rows, element.cols))
    )
    if not rows or not cols:
        return None
    out = []
    for r in range(0, rows, t):
        out.append([])
        for c in range(0, cols, t):
            part = value[r : r + t, c : c + t]
            out[-1].append((part, part.shape[0], part.shape[1]))
    return out


def _members(element, value) -> list[tuple]:
    """(element type, value) of an element, or of each member of a tuple and of the tuples in it."""
    if not isinstance(element, TupleType):
        return [(element, value)]
    return [m for part in zip(element.members, value, strict=True) for m in _members(*part)]


def physical(items: Iterable[tuple], element, payload: Payload, t: int) -> SourceBeats:
    """The beats of a logical stream: each tile as its physical tiles, row-major, with the stops
    that these add.
    """
    inner = inner_dims(element)
    out = []
    bare = []
    for value, stop in items:
        members = [] if value is None else _members(element, value)
        parts = [p for m, v in members if (p := _parts(m, t, v)) is not None]
        if not parts or len(parts) < len(members):
            out.append((0, stop + inner))
            bare.append(len(out) - 1)
            continue
        grid = parts[0]
        for r, row in enumerate(grid):
            for c in range(len(row)):
                at = word = 0
                for leaf, p in zip(leaves(payload), parts, strict=True):
                    word |= _bits(leaf, *p[r][c]) << at
                    at += leaf.bits
                s = 0 if c < len(row) - 1 else 1 if r < len(grid) - 1 else stop + inner
                out.append((word, s if inner else stop))
    given = beats(payload, out)
    given.data[bare] = 0
    return given


def source_beats(graph: Graph, units: UnitGraph, given: dict) -> dict[int, SourceBeats]:
    """Beats of each source unit, from the elements that the program gives as nested lists."""
    out = {}
    for u in units.units:
        if u.kind.name == "source":
            node, elements = _given(graph, u.node, given)
            out[u.id] = physical(
                elements, node.outputs[0].element, units.outputs(u.id)[0].payload, units.t
            )
    return out


def source_tokens(graph: Graph, units: UnitGraph, given: dict) -> dict[int, stepsim.Tokens]:
    """Tokens of each stream from outside in the timing `stepsim`: a tile, number or selector each,
    no values.
    """

    def word(element, value):
        if isinstance(element, TileType):
            rows, cols = (
                value.shape[i] if d.value is None else d.value
                for i, d in enumerate((element.rows, element.cols))
            )
            return stepsim.tile_word(rows, cols, value.shape[0])
        return stepsim.selector_words(value) if isinstance(element, SelectorType) else value

    out = {}
    for u in units.units:
        if u.kind.name == "stream":
            node, elements = _given(graph, u.node, given)
            if any(v is None for v, _ in elements):
                raise RunError(
                    "has an empty dimension",
                    f"source {u.node}",
                    "a stream has no empty dimension in the published simulator",
                    "run it in the timing `machine`",
                )
            out[u.id] = stepsim.tokens((s, word(node.outputs[0].element, v)) for v, s in elements)
    return out


def _given(graph: Graph, name: str, given: dict) -> tuple:
    """A source and its elements with their stops."""
    (node,) = [n for n in graph.nodes if n.name == name]
    if name not in given:
        raise RunError(
            "no elements given",
            f"source {name}",
            remedy=(
                "give them as nested lists: streams(seed, **params) of the program returns "
                "{name: elements}"
            ),
        )
    return node, tokens(given[name], node.outputs[0], f"source {name}")


def _digests(payload: Payload, stream: SourceBeats) -> np.ndarray:
    """FNV-1a of each whole beat."""
    h = np.full(len(stream.stop), FNV_OFFSET, np.uint64)
    for word in whole_beats(payload, stream).T:
        h = (h ^ word.astype(np.uint64)) * np.uint64(FNV_PRIME)
    return h


def _sunk(graph: Graph, units: UnitGraph):
    """(Sink, its channel, what that carries, and its place in the Sink's elements) of a program: a
    tuple may come member by member (units NAME.m0, NAME.m1). References have no meaning outside the
    fabric.
    """
    nodes = {n.name: n for n in graph.nodes}
    for u in units.units:
        if u.kind.name == "sink" and type(nodes[u.node]).__name__ == "Sink":
            element, place = member_of(u, nodes[u.node])
            if not any(isinstance(m, BufferType) for m in leaves_of(element)):
                yield nodes[u.node], units.inputs(u.id)[0], element, place


def member_of(u: Unit, node: Operator) -> tuple[ElementType, list[int]]:
    """Element type that the unit of a Sink takes, and its place in the elements of the Sink."""
    element = node.inputs[0].element
    place = [int(x[1:]) for x in u.name[len(u.node) :].split(".")[1:]]
    for k in place:
        element = members_of(element)[k]
    return element, place


def _at(items: Iterable[tuple], place: list[int]) -> list[tuple]:
    """The members at a place of a stream's elements."""
    out = list(items)
    for k in place:
        out = [(None if v is None else v[k], s) for v, s in out]
    return out


def sinks(graph: Graph, units: UnitGraph) -> list[str]:
    """Names of the Sinks whose elements are compared."""
    return list(dict.fromkeys(node.name for node, *_ in _sunk(graph, units)))


def watched(graph: Graph, units: UnitGraph) -> bool:
    """True if a run needs its trace: for the order of arrival, or for the beats of sinks."""
    return any(u.kind.by_arrival for u in units.units) or any(True for _ in _sunk(graph, units))


def _only_empty(
    payload: Payload, stream: SourceBeats, digests: np.ndarray, differ: np.ndarray
) -> bool:
    """True if these beats differ only in how they say that a tile has no valid element: no rows, no
    columns, or neither.
    """
    for i in differ:
        word = beat_number(stream.payload[i])
        at = 0
        forms = [0]
        for leaf in leaves(payload):
            bits = word >> at & (1 << leaf.bits) - 1
            own = []
            if isinstance(leaf, Tile):
                n = leaf.count_bits
                k = leaf.bits - 2 * leaf.count_bits
                rows = bits >> k & (1 << n) - 1
                cols = bits >> k + n
                if not rows or not cols:
                    own = [
                        r << k | c << k + n
                        for r in range(leaf.t + 1)
                        for c in range(leaf.t + 1)
                        if not r or not c
                    ]
            forms = [f | x << at for f in forms for x in own or [bits]]
            at += leaf.bits
        stop = int(stream.stop[i])
        if int(digests[i]) not in {
            int(_digests(payload, beats(payload, [(f, stop), None]))[0]) for f in forms
        }:
            return False
    return True


def sinks_at_fault(
    graph: Graph, units: UnitGraph, run: Run, want: dict[str, list]
) -> dict[str, str]:
    """First beat, by name of each Sink, that differs from the NumPy meaning."""
    wrong = {}
    for node, channel, element, place in _sunk(graph, units):
        stream = physical(_at(want[node.name], place), element, channel.payload, units.t)
        got = run.channels[channel.id]
        n = min(len(got.stop), len(stream.stop))
        forms = (got.stop[:n] != stream.stop[:n]) | (got.data[:n] != stream.data[:n])
        if forms.any():
            at = int(np.argmax(forms))
            what = f"beat {at} is {_form(got, at)}, the reference {_form(stream, at)}"
        elif len(got.stop) != len(stream.stop):
            what = f"takes {len(got.stop)} beats, the reference {len(stream.stop)}"
        else:
            differ = np.flatnonzero(got.digest != _digests(channel.payload, stream))
            if _only_empty(channel.payload, stream, got.digest, differ):
                continue
            at = int(differ[0])
            word = beat_number(stream.payload[at])
            what = (
                f"the payload of beat {at} has the digest {int(got.digest[at]):#x}, the reference "
                f"is {word:#x} with the digest {int(_digests(channel.payload, stream)[at]):#x}"
            )
        wrong[node.name] = f"sink {node.name}: {what}"
    return wrong


def _form(stream: ChannelTrace | SourceBeats, at: int) -> str:
    """A beat without its payload."""
    return f"{'an element' if stream.data[at] else 'bare'} with stop {stream.stop[at]}"


def arrivals(units: UnitGraph, run: Run) -> dict[str, list[int]]:
    """Order of arrival by node: the inputs of each merging unit in the order in which it took their
    units, from the cycles in which it took their first beats.

    Raises
    ------
    RunError
        The order is not that of docs/timing.md section 3.2.
    """
    if wrong := against_the_rule(units, run):
        raise RunError(
            wrong,
            f"{run.backend} of {units.name}",
            "a free unit takes the earliest arrival, equal cycles by lowest index",
            "report this",
        )
    out: dict[str, list[int]] = {}
    for u in units.units:
        if not u.kind.by_arrival:
            continue
        firsts = []
        for port, c in enumerate(units.inputs(u.id)[: u.kind.n]):
            trace = run.channels[c.id]
            begins = True
            for take, stop, data in zip(trace.take, trace.stop, trace.data, strict=True):
                done = not data and stop == 15
                if begins and not done and take >= 0:
                    firsts.append((int(take), port))
                begins = stop >= u.kind.rank
        # where the members of tuples travel apart, the first unit decides and the others follow
        out.setdefault(u.node, [port for _, port in sorted(firsts)])
    return out
