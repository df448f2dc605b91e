"""Waits between beats: units with a port to off-chip memory, and scratchpads."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ...machine.beat import ELEMENT_BITS
from ...machine.unitgraph import Channel, Unit
from .events import Events, Port, Served, done, first, last, rule
from .flows import UNKNOWN, Flow
from .lines import NONE, Moved, least, stored, walked


@rule("load")
def _load(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    (o,) = outs
    t = e.graph.t
    m = e.machine
    elements = _elements(e, u)
    bands = -(-kind.rows // t)
    wide = -(-kind.cols // t)
    walk = (*kind.shape, bands, wide)
    before = e.start
    walks = 1
    moved = walked(kind, elements, t, m.lanes) if kind.trigger != "address" else NONE
    wait = 0
    if ins:
        flow = e.flows[ins[0]]
        e.add(first(ins[0]), first(o), 2, u.id)
        e.add(done(ins[0]), done(o), 2, u.id)
        if flow.dims is None:
            e.set(o, UNKNOWN)
        else:
            e.set(o, Flow.of((*flow.dims, *walk)))
        if not flow.some:
            _port_of(e, u, NONE, e.start, o)
            return
        if kind.trigger == "address":
            moved = least(kind, elements, t, m.lanes)
        before = first(ins[0])
        walks = flow.count or 1
        wait = 1
        if e.flows[o].count and moved.chunks:
            tail = wait + moved.chunks - 1 + m.walk + 2
            e.add(last(ins[0]), last(o), tail, u.id, "memory latency")
    else:
        e.set(o, Flow.of((1, *walk)))
    if moved.first:
        e.add(before, first(o), wait + moved.first - 1 + m.walk + 2, u.id, "memory latency")
    total = Moved(moved.lines * walks, moved.chunks * walks, moved.first, moved.last)
    _port_of(e, u, total, before, o, wait)
    early = Moved(moved.lines - moved.last[0], moved.chunks - moved.last[1], 0, (0, 0))
    if not ins and early.chunks and e.flows[o].dims is not None:
        event = e.mark(o, bands * wide + 1)
        if event is not None:
            e.ports.append(Port(u.id, before, early, event, 2, True))


def _port_of(e: Events, u: Unit, moved: Moved, before: int, o: int, wait: int = 0) -> None:
    """A load's lines, and its own ring: a group is asked for again when it has been used."""
    m = e.machine
    after = last(o) if e.flows[o].some else done(o)
    late = 2 if e.flows[o].some else 3
    e.ports.append(Port(u.id, before, moved, after, late))
    if moved.chunks:
        rounds, more = divmod(moved.chunks - 1, m.groups)
        asked = max(rounds * (m.line + 1) + more, moved.chunks - 1)
        e.add(before, after, wait + asked + m.walk + late, u.id, "lines")


def _elements(e: Events, u: Unit) -> int:
    """Elements of a line of a unit's tensor."""
    name = u.kind.tensor
    bits = next((ELEMENT_BITS[x.dtype] for x in e.graph.tensors if x.name == name), 16)
    return 8 * e.machine.line_bytes // bits


@rule("store")
def _store(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    (i,) = ins
    m = e.machine
    e.add(done(i), e.end, 1, u.id)
    flow = e.flows[i]
    moved = NONE
    if flow.some and i in e.whole:
        t = e.graph.t
        each = -(-kind.rows // t) * -(-kind.cols // t)
        moved = stored(kind, (flow.count or 0) // each, _elements(e, u), t, m.lanes)
    e.ports.append(Port(u.id, first(i), moved, e.end, 0))
    if moved.chunks:
        e.add(first(i), e.end, moved.chunks + m.walk, u.id, "lines")
        if not kind.tensor_rows % kind.rows and not kind.tensor_cols % kind.cols:
            _stored(e, u, kind, i, t)


def _stored(e: Events, u: Unit, kind: Any, i: int, t: int) -> None:
    """A block's chunks are presented from the cycle after its last tile."""
    m = e.machine
    e.add(last(i), e.end, 1 + m.walk, u.id, "memory latency")
    per_block = _elements(e, u) // t
    if kind.rows % t or kind.cols % (per_block * t):
        return
    for beat, event in e.marks[i].items():
        chunks = -(-beat // per_block) * -(-t // m.lanes)
        e.add(event, e.end, chunks + m.walk, u.id, "lines")


@rule("random_store")
def _random_store(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    address, data = ins
    (o,) = outs
    e.set(o, Flow(e.flows[address].dims, None, e.flows[address].plain))
    for i in ins:
        e.add(done(i), e.end, 1, u.id)
        e.add(done(i), done(o), 2, u.id)
        e.add(first(address), first(o), 2, u.id)
    e.ports.append(Port(u.id, first(data), NONE, e.end, 0))


def write(e: Events, u: Unit, kind: Any, ins: list[Channel], outs: list[Channel]) -> None:
    """Section 4, rule 2: a buffer's reference follows its last tile."""
    for w, writer in enumerate(kind.writers):
        i = ins[w].id
        o = outs[w].id
        flow = e.flows[i]
        rank = writer["rank"]
        dims = flow.outer(rank)
        e.set(o, UNKNOWN if dims is None else Flow.of(dims))
        e.buffers[o] = flow.inner(rank)
        e.follow(i, o, 2, u.id, "buffers")
        if flow.some:
            e.add(first(i), first(o), flow.head(rank) + 1, u.id, "buffers")
            tiles = prod(flow.inner(rank) or (0,))
            if tiles and flow.count == tiles * (e.flows[o].count or 0):
                e.through(i, o, 2, u.id, "buffers", group=tiles)
            if len(kind.writers) > 1:
                after = last(o) if e.flows[o].count else done(o)
                e.served.append(Served((u.id, "write"), first(i), flow.count or 0, after, 2))


def read(e: Events, u: Unit, kind: Any, ins: list[Channel], outs: list[Channel]) -> None:
    """Section 4, rules 3, 4, 7 and 8."""
    writers = len(kind.writers)
    readers = len(kind.readers)
    drives = iter([c.id for c in ins[writers + readers :]])
    loops = iter(kind.shape)
    for r, reader in enumerate(kind.readers):
        i = ins[writers + r].id
        o = outs[writers + r].id
        flow = e.flows[i]
        tile = e.buffers.get(i)
        affine = reader.get("affine", 0)
        if affine:
            tile = tuple(next(loops) for _ in range(affine))
        drive = next(drives) if "ref" in reader else None
        rank = affine or reader["rank"]
        passes = flow.dims
        if drive is not None:
            passes = e.flows[drive].dims
        elif reader["repeat_dim"] and passes is not None:
            passes = (*passes, kind.repeat[r])
        if reader.get("turns") and drive is None:
            passes = None
        known = passes is not None and tile is not None
        e.set(o, Flow.of((*passes, *tile)) if known and passes and tile is not None else UNKNOWN)
        _reader(e, u, kind, (i, drive, o), rank, reader)


def _reader(
    e: Events,
    u: Unit,
    kind: Any,
    channels: tuple[int, int | None, int],
    rank: int,
    reader: Mapping[str, Any],
) -> None:
    i, drive, o = channels
    out = e.flows[o]
    e.add(first(i), first(o), 2, u.id, "buffers")
    e.add(done(i), done(o), 2, u.id, "buffers")
    if drive is not None:
        e.add(first(drive), first(o), 2, u.id, "buffers")
        e.add(done(drive), done(o), 2, u.id, "buffers")
    if not out.some:
        return
    e.add(first(i), first(o), 4, u.id, "buffers")
    e.add(last(o), done(o), 2, u.id, "buffers")
    level = rank
    if drive is not None:
        e.add(first(drive), first(o), 3, u.id, "buffers")
        level += reader["ref"]
        if e.flows[drive].some:
            e.add(last(drive), last(o), out.tail(rank) + 2, u.id, "buffers")
            _passes(e, u, drive, o, out.tail(rank), 3)
    elif reader["repeat_dim"]:
        level += 1
    if e.flows[i].some:
        e.add(last(i), last(o), out.tail(level) + 3, u.id, "buffers")
        _passes(e, u, i, o, out.tail(level), 4)
    if len(kind.readers) > 1:
        e.served.append(Served((u.id, "read"), first(i), out.count or 0, last(o), 4))
    _held(e, u, kind, i, o, out.tail(level))


def _passes(e: Events, u: Unit, i: int, o: int, tiles: int, cycles: int) -> None:
    """Each beat of a stream is read as so many tiles."""
    if e.flows[i].dims is not None and e.flows[o].dims is not None:
        if (e.flows[i].count or 0) * tiles == e.flows[o].count:
            e.through(i, o, cycles, u.id, "buffers", gives=tiles)


def _held(e: Events, u: Unit, kind: Any, i: int, o: int, reads: int) -> None:
    """Section 4, rule 2: a writer that holds as many buffers as it may waits until the first of
    them has been read.

    Of a writer whose references lead straight to the reader.
    """
    writers = len(kind.writers)
    src = e.graph.channels[i].src
    if src[0] != u.id or src[1] >= writers or e.flows[i].dims is None or e.flows[o].dims is None:
        return
    w = src[1]
    written = next(c.id for c in e.graph.inputs(u.id) if c.dst[1] == w)
    tiles = prod(e.buffers[i] or (1,))
    most = kind.limit[w] or kind.pages
    pages = -(-tiles // kind.frames)
    if writers == 1 and not kind.pages % pages:  # else one is begun in what is left
        most = min(most, kind.pages // pages)
    rounds = ((e.flows[i].count or 1) - 1) // max(most, 1)
    if rounds:
        each = tiles + reads
        wait = rounds * (each + 2) + each + 4
        e.add(first(written), last(o), wait, u.id, "buffers")
