"""Waits between beats: units that compute, copy, shape and route."""

from __future__ import annotations

from math import prod
from typing import Any

from ...machine.kinds import Kind
from ...machine.unitgraph import Unit
from .events import Events, done, first, last, rule
from .flows import UNKNOWN, Flow


def _known(e: Events, ins: list[int]) -> Flow:
    """Facts about streams of equal stops."""
    flows = [e.flows[i] for i in ins]
    return next((f for f in flows if f.some), flows[0])


def beat_for_beat(e: Events, u: Unit, kind: Kind, ins: list[int], outs: list[int]) -> None:
    """Beats of all inputs for a beat of each output."""
    flow = e.flows[ins[0]] if u.kind.name == "row_offset" else _known(e, ins)
    for o in outs:
        e.set(o, flow)
        if u.kind.name in ("broadcast", "hop") and ins[0] in e.buffers:
            e.buffers[o] = e.buffers[ins[0]]
        for i in ins:
            e.alike(i, o, 1, u.id)


@rule("map", "matmul", "row_reduce")
def _pipeline(e: Events, u: Unit, kind: Kind, ins: list[int], outs: list[int]) -> None:
    """Section 2."""
    latency, interval = kind.pipeline(e.graph.t)
    flow = _known(e, ins)
    (o,) = outs
    e.set(o, flow)
    for i in ins:
        e.alike(i, o, latency + 1, u.id)
        if interval > 1:
            _paced(e, u, i, o, interval, latency + 1)
        if flow.count:
            beats = flow.count * interval
            e.add(first(i), last(o), beats - interval + latency + 1, u.id, "work")
            e.add(first(i), done(o), beats + latency + 1, u.id, "work")


def _paced(e: Events, u: Unit, i: int, o: int, interval: int, cycles: int) -> None:
    """Beats are taken an interval apart."""
    for early, before in e.marks[i].items():
        for late, after in e.marks[o].items():
            if late < early:
                e.add(before, after, (early - late) * interval + cycles, u.id, "work")


@rule("row_append")
def _append(e: Events, u: Unit, kind: Kind, ins: list[int], outs: list[int]) -> None:
    (o,) = outs
    e.set(o, e.flows[ins[0]])
    e.alike(ins[0], o, 1, u.id)
    e.add(done(ins[1]), done(o), 1, u.id)


@rule("flatten", "promote", "pace", "reshape")
def _shape(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    """One beat for one beat, but for pads and Promote's beat that is held."""
    i = ins[0]
    o = outs[0]
    dims = e.flows[i].dims
    e.set(o, UNKNOWN if dims is None else _shaped(u.kind.name, kind, dims))
    e.alike(i, o, 1, u.id)
    if i in e.buffers:
        e.buffers[o] = e.buffers[i]
    if u.kind.name == "promote" and kind.outermost:
        e.add(first(i), first(o), 2, u.id)
        e.add(done(i), done(o), 2, u.id)
        if e.flows[i].some and e.flows[o].count:
            e.add(done(i), last(o), 1, u.id)
    if u.kind.name == "pace" and e.flows[i].some:
        between = ((e.flows[i].count or 1) - 1) * kind.every // 16
        if e.flows[o].count:
            e.add(first(i), last(o), between + 1, u.id, "beats")
    for more in outs[1:]:
        e.set(more, UNKNOWN)
        e.add(first(i), first(more), 1, u.id)
        e.add(done(i), done(more), 1, u.id)


def _shaped(name: str, kind: Any, dims: tuple[int, ...]) -> Flow:
    """Trips after a unit that moves stop levels."""
    n = len(dims)
    if name == "pace":
        return Flow.of(dims)
    if name == "promote":
        at = n - kind.level
        return Flow.of((*dims[:at], 1, *dims[at:])) if at >= 0 else UNKNOWN
    if name == "flatten":
        low = n - kind.lo
        high = n - kind.hi - 1
        if high < 0:
            return UNKNOWN
        return Flow.of((*dims[:high], prod(dims[high:low]), *dims[low:]))
    at = n - 1 - kind.dim
    if at < 0 or (dims[at] % kind.chunk and not kind.pad):
        return UNKNOWN
    if kind.pad and dims[at] % kind.chunk:
        return UNKNOWN
    return Flow.of((*dims[:at], dims[at] // kind.chunk, kind.chunk, *dims[at + 1 :]))


@rule("repeat")
def _repeat(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    dims = e.flows[ins[0]].dims
    e.set(outs[0], UNKNOWN if dims is None else Flow.of((*dims, kind.count)))
    e.buffers[outs[0]] = e.buffers.get(ins[0])
    e.follow(ins[0], outs[0], 1, u.id)
    if e.flows[ins[0]].some and e.flows[outs[0]].count:
        e.add(last(ins[0]), last(outs[0]), kind.count, u.id, "beats")
        e.through(ins[0], outs[0], 1, u.id, "beats", gives=kind.count)


@rule("expand")
def _expand(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    data, reference = ins
    (o,) = outs
    e.set(o, e.flows[reference])
    e.buffers[o] = e.buffers.get(data)
    e.alike(reference, o, 1, u.id)
    e.add(first(data), first(o), 1, u.id)
    e.add(done(data), done(o), 1, u.id)
    if e.flows[data].some and e.flows[o].some:
        copies = e.flows[reference].tail(kind.level)
        e.add(last(data), last(o), copies, u.id, "beats")
        if copies * (e.flows[data].count or 0) == e.flows[o].count:
            e.through(data, o, 1, u.id, "beats", gives=copies)


@rule("signal")
def _signal(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    flow = e.flows[ins[0]]
    level = 0 if kind.scan else kind.level
    dims = flow.outer(level)
    e.set(outs[0], UNKNOWN if dims is None else Flow.of(dims))
    e.follow(ins[0], outs[0], 1, u.id)
    if flow.some:
        e.add(first(ins[0]), first(outs[0]), flow.head(level), u.id, "beats")


@rule("generate")
def _generate(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    e.set(outs[0], UNKNOWN)
    made = e.flows[outs[0]].tail(1)
    for i in ins:
        e.follow(i, outs[0], 1, u.id)
        if e.flows[i].some and e.flows[outs[0]].some:
            e.add(last(i), last(outs[0]), made, u.id, "beats")


@rule("split")
def _split(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    (i,) = ins
    count = e.flows[i].count
    for turn, o in enumerate(outs):
        e.set(o, UNKNOWN)
        wait = 1 + (turn if count and e.flows[i].some and turn < count else 0)
        e.add(first(i), first(o), wait, u.id, "beats")
        e.add(done(i), done(o), 1, u.id)
        if count and (count - 1) % kind.n == turn and e.flows[o].count:
            e.add(last(i), last(o), 1, u.id)


@rule("merge")
def _merge(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    (o,) = outs
    e.set(o, UNKNOWN)
    e.add(first(ins[0]), first(o), 1, u.id)
    for i in ins:
        e.add(done(i), done(o), 1, u.id)
        _all_leave(e, u, i, o)


@rule("partition")
def _partition(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    for o in outs:
        e.set(o, UNKNOWN)
        e.buffers[o] = e.buffers.get(ins[0])
        for i in ins:
            e.add(first(i), first(o), 1, u.id)
            e.add(done(i), done(o), 1, u.id)


@rule("reassemble")
def _reassemble(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    *parts, selector = ins
    (o,) = outs
    e.set(o, UNKNOWN)
    e.add(first(selector), first(o), 1, u.id)
    e.add(done(selector), done(o), 1, u.id)
    if e.flows[selector].some and e.flows[o].count:
        e.add(last(selector), last(o), 1, u.id)
    for i in parts:
        e.add(done(i), e.end, 0, u.id)
        _all_leave(e, u, i, o)


def _all_leave(e: Events, u: Unit, i: int, o: int) -> None:
    """The last beat of one of several inputs is one of the output's."""
    if e.flows[i].count and e.flows[o].count:
        e.add(last(i), last(o), 1, u.id)


@rule("eager_merge")
def _eager(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    for o in outs:
        e.set(o, UNKNOWN)
        e.earliest.append((tuple(first(i) for i in ins), first(o), 1))
        for i in ins:
            e.add(done(i), done(o), 1, u.id)
            if u.kind.name == "eager_merge" and o == outs[0]:
                _all_leave(e, u, i, o)


@rule("row_pack", "row_unpack")
def _rows(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    flow = e.flows[ins[0]]
    e.set(outs[0], UNKNOWN)
    e.add(first(ins[0]), first(outs[0]), 1, u.id)
    e.add(done(ins[0]), done(outs[0]), 1, u.id)
    masked = u.kind.name == "row_unpack" and kind.mask
    if flow.some and e.flows[outs[0]].count and not masked:
        e.add(last(ins[0]), last(outs[0]), 1, u.id)
    if u.kind.name == "row_unpack" and flow.some:
        e.add(first(ins[0]), first(outs[0]), flow.head(1) + 1, u.id, "beats")


@rule("accum")
def _accum(e: Events, u: Unit, kind: Any, ins: list[int], outs: list[int]) -> None:
    """Section 3.1: a group's results leave after its last beat."""
    (i,) = ins
    (o,) = outs
    flow = e.flows[i]
    count = flow.count or 0
    interval = kind.interval(e.graph.t)
    top = kind.reduce.bit_length()
    kept = 1
    if kind.scan:
        e.set(o, flow)
    else:
        inner = flow.inner(top)
        if inner is None:
            e.set(o, UNKNOWN)
        else:
            left = [n for d, n in enumerate(reversed(inner)) if not kind.reduce >> d & 1]
            kept = prod(left)
            e.set(o, Flow.of((*(flow.outer(top) or ()), *reversed(left))))
    # Done, and a beat without data, leave from the cycle after they are taken.
    e.add(first(i), first(o), 2, u.id)
    e.add(done(i), done(o), 2, u.id)
    if not flow.some:
        return
    group = 1 if kind.scan else flow.head(top)
    e.add(first(i), first(o), group * interval + 1, u.id, "work")
    e.add(first(i), done(o), count * interval + 2, u.id, "work")
    results = e.flows[o].count
    if results:
        drain = 0 if kind.scan else kept - 1
        e.add(last(i), last(o), interval + 1 + drain, u.id)
        total = count * interval
        e.add(first(i), last(o), total + 1 + drain, u.id, "work")
        each = 1 if kind.scan else prod(flow.inner(top) or (1,))
        if results * each == count * kept:
            e.through(i, o, interval + 1, u.id, "work", group=each, gives=kept, interval=interval)
        if not kind.scan:
            e.add(last(o), done(o), 2, u.id)


@rule("source")
def _source(e: Events, u: Unit, kind: Kind, ins: list[int], outs: list[int]) -> None:
    (o,) = outs
    e.set(o, UNKNOWN)
    e.add(e.start, first(o), 1, u.id)
    when = e.releases.get(u.id)
    if when is None or not len(when):
        return
    e.add(e.start, first(o), int(when[0]) + 1, u.id, "release")
    n = len(when)
    latest = max(int(at) + n - 1 - k for k, at in enumerate(when))
    e.add(e.start, done(o), latest + 1, u.id, "release")
    if n > 1 and e.flows[o].count == n - 1:
        e.add(
            e.start,
            last(o),
            max(int(at) + n - 2 - k for k, at in enumerate(when[:-1])) + 1,
            u.id,
            "release",
        )


@rule("sink")
def _sink(e: Events, u: Unit, kind: Kind, ins: list[int], outs: list[int]) -> None:
    (i,) = ins
    e.add(done(i), e.end, 0, u.id)
    when = e.releases.get(u.id)
    count = e.flows[i].count
    if when is None or not count:
        return
    # A beat is taken from its release on, one a cycle; behind the last one stands Done.
    held = [int(at) + count - k for k, at in enumerate(when[:count])]
    if held:
        e.add(e.start, e.end, max(held), u.id, "release")
