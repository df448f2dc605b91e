"""Streams for the units that route, and a graph of them: the form of a stream depends on its
selectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..machine.beat import BufferRef, Payload, Scalar, Selector, Tile
from ..machine.kinds import Kind
from ..machine.kinds.compute import Map
from ..machine.kinds.copies import Broadcast, Expand
from ..machine.kinds.numbers import Address, Generate, Signal
from ..machine.kinds.routing import EagerMerge, Partition, Reassemble, TopK
from ..machine.kinds.shape import Flatten
from .stimulus import Items, sometimes_bare, value
from .zoo import Zoo

EMPTY = 0.25  # share of groups that are empty


def _stops(rng: np.random.Generator, rank: int, most: int = 3) -> list[tuple[bool, int]]:
    """(data, stop) of a ragged stream."""
    return [(bool(data), s) for data, s in sometimes_bare(rng, rank, EMPTY, most)]


def _fill(rng: np.random.Generator, payload: Payload, stops: Sequence[tuple[bool, int]]) -> list:
    return [(value(rng, payload) if data else None, s) for data, s in stops]


def _unit(rng: np.random.Generator, payload: Payload, rank: int, stop: int) -> list:
    """A unit of ``rank`` dimensions, some of them empty, whose last beat has ``stop``."""
    stops = _stops(rng, rank)
    return _fill(rng, payload, [*stops[:-1], (stops[-1][0], stop)])


def partition(rng: np.random.Generator, ins: Sequence[Payload], kind: Any) -> list[Items]:
    """Units and selectors, with none, one or several targets."""
    data = []
    selectors = []
    for wanted, q in _stops(rng, int(rng.integers(0, 3)), 6):
        selectors.append((value(rng, ins[1]) if wanted else None, q))
        data += _unit(rng, ins[0], kind.rank, kind.rank + q) if wanted else [(None, kind.rank + q)]
    return [data, selectors]


def reassemble(rng: np.random.Generator, ins: Sequence[Payload], kind: Any) -> list[Items]:
    """Elements that the selectors ask for at each input."""
    n = kind.n
    streams: list[list[tuple[int | None, int]]] = [[] for _ in ins]
    for wanted, q in _stops(rng, int(rng.integers(0, 3)), 6):
        hot = value(rng, ins[n]) if wanted else 0
        streams[n].append((hot if wanted else None, q))
        for k in range(n):
            if hot >> k & 1:
                streams[k] += _unit(rng, ins[k], kind.rank, kind.rank + int(rng.integers(0, 2)))
    return list(streams)


def eager_merge(rng: np.random.Generator, ins: Sequence[Payload], kind: Any) -> list[Items]:
    """Any number of units on every input."""
    return [
        [b for _ in range(rng.integers(0, 7)) for b in _unit(rng, x, kind.rank, kind.rank)]
        for x in ins
    ]


def expand(rng: np.random.Generator, ins: Sequence[Payload], kind: Any) -> list[Items]:
    """An element for each group of the reference; without data where the group has none."""
    reference = _fill(rng, ins[1], _stops(rng, kind.level + int(rng.integers(0, 2)), 4))
    data = []
    some = False
    for bits, s in reference:
        some |= bits is not None
        if s >= kind.level:
            data.append((value(rng, ins[0]) if some or rng.random() < 0.5 or s == 0 else None, s))
            some = False
    return [data, reference]


def signal(rng: np.random.Generator, ins: Sequence[Payload], kind: Any) -> list[Items]:
    return [_fill(rng, ins[0], _stops(rng, kind.level + 2))]


def generate(rng: np.random.Generator, ins: Sequence[Payload], kind: Any) -> list[Items]:
    """Counts from 0 to 4; one-hot selectors, and such without a bit."""
    stops = _stops(rng, 2, 4)
    streams = []
    for k, x in enumerate(ins):
        any_bits = kind.fn == "address" and k == 0
        streams.append([(_count(rng, x, any_bits) if data else None, s) for data, s in stops])
    return streams


def _count(rng: np.random.Generator, payload: Payload, any_bits: bool) -> int:
    if isinstance(payload, Tile):
        return value(rng, payload)
    if isinstance(payload, Selector):
        return 1 << int(rng.integers(0, payload.n)) if rng.random() < 0.9 else 0
    return value(rng, payload) if any_bits else int(rng.integers(0, 5))


def top_k(rng: np.random.Generator, ins: Sequence[Payload], kind: Any) -> list[Items]:
    """Rows, of one tile or of several."""
    row: list = []
    for some, s in _stops(rng, int(rng.integers(0, 3)), 5):
        more = int(rng.integers(0, 3)) if some and kind.rank else 0
        row += [(value(rng, ins[0]), 0) for _ in range(more)]
        row.append((value(rng, ins[0]) if some else None, s + kind.rank))
    return [row]


def alike(rng: np.random.Generator, ins: Sequence[Payload], kind: Any) -> list[Items]:
    """Streams of equal stops: those of any kind that is not listed."""
    stops = _stops(rng, 2, 4)
    return [_fill(rng, x, stops) for x in ins]


STREAMS: dict[str, Callable] = {
    f.__name__: f for f in (partition, reassemble, eager_merge, expand, signal, generate, top_k)
}
"""Kind -> the streams of its inputs: (generator, payloads of the inputs, kind) -> (payload
bits or None, stop) of each.
"""


def streams_of(kind: Kind, rng: np.random.Generator, ins: Sequence[Payload]) -> list[Items]:
    """Random legal streams for the inputs of a unit."""
    return STREAMS.get(kind.name, alike)(rng, ins, kind)


def cases(t: int, dtype: str) -> list[tuple[Kind, list[Payload], list[Payload]]]:
    """(kind, inputs, outputs), several of every kind."""
    tile = Tile(t, dtype)
    ref = BufferRef(8)
    wide = Scalar(32)
    out: list = []
    for n, rank, x in ((2, 0, tile), (3, 1, ref), (4, 2, tile), (9, 2, ref), (100, 1, wide)):
        out.append((Partition(n=n, rank=rank), [x, Selector(n)], [x] * n))
    for n, rank, x in ((2, 0, tile), (1, 1, ref), (3, 1, ref), (4, 2, tile), (9, 0, ref)):
        out.append((Reassemble(n=n, rank=rank), [x] * n + [Selector(n)], [x]))
        out.append((EagerMerge(n=n, rank=rank), [x] * n, [x, Selector(n)]))
    for level, x, y in ((0, tile, wide), (1, ref, tile), (2, tile, Selector(70))):
        out.append((Expand(level=level), [x, y], [x]))
    for level, x in ((0, wide), (1, tile), (2, ref), (3, tile)):
        out.append((Signal(level=level), [x], [Scalar(1)]))
    out.append((Generate(fn="address", stride=7), [wide, Scalar(8)], [wide]))
    out.append((Generate(fn="expert", count=3), [Selector(5)], [wide]))
    out.append((Generate(fn="expert", count=2), [Selector(90)], [wide]))
    out.append((Generate(fn="elements"), [Tile(t, "fp32")], [wide]))
    out.append((Generate(fn="last"), [Scalar(8)], [Selector(2)]))
    for n, k, rank in ((2, 1, 0), (5, 3, 2), (100, 8, 2)):
        row = Tile(t, "fp32")
        kind = TopK(n=n, k=k, rank=rank)
        out.append((kind, [row], [Selector(n), Selector(n), row]))
    out.append((Address(stride=5), [wide, Scalar(20)], [wide]))
    for fn, alone in (("min", False), ("max", True), ("less", False), ("equal", True)):
        inputs = [Scalar(2), Scalar(2)][: 2 - alone]
        out.append((Address(stride=1, fn=fn, alone=alone, constant=2), inputs, [wide]))
    place = Address(stride=1, fn="place", alone=True, divisor=3, constant=1)
    out.append((place, [wide], [wide]))
    hot = Address(stride=1, fn="hot", alone=True, targets=140)
    out.append((hot, [Scalar(8)], [Selector(140)]))
    for fn, scan in (("add", False), ("mul", True), ("max", False), ("min", False)):
        out.append((Signal(level=1, fn=fn, init=1, scan=scan), [Scalar(8)], [Scalar(8)]))
    out.append((Signal(level=2, fn="or"), [Selector(90)], [Selector(90)]))
    return out


def routing(t: int = 2, dtype: str = "fp32") -> Zoo:
    """Every kind that routes, at several ranks and widths, and a feedback loop."""
    z = Zoo("routing", t)
    for kind, ins, outs in cases(t, dtype):
        if len(outs) > 16:
            continue  # a test of the unit alone

        def items(k: int, kind=kind, ins=ins) -> Callable:
            return lambda rng: streams_of(kind, rng, ins)[k]

        u = z.add(kind, [(x, items(k)) for k, x in enumerate(ins)], outs)
        if "stride" in kind.params:
            z.runtime[u] = lambda rng: {"stride": int(rng.integers(0, 1 << 20))}
    _loop(z, 3, 14)
    return z


def loop(t: int = 2, regions: int = 3, requests: int = 14, depth: int = 2) -> Zoo:
    """A feedback loop alone."""
    z = Zoo("loop", t, depth)
    _loop(z, regions, requests)
    return z


def _loop(z: Zoo, regions: int, requests: int) -> None:
    """Work dealt to regions as they become free: a feedback loop from the units that see the end of
    the work to the selectors that deal it.

    The first requests go to the regions in turn, every other one to the region that was free first;
    the last `regions` reports leave the loop, so that it drains.
    """
    t = z.t
    tile = Tile(t, "fp32")
    hot = Selector(regions)
    after = max(requests - regions, 0)
    deal = z.unit(Reassemble(n=2, rank=0), "deal")
    z.source((deal, 0), hot, lambda rng: [(1 << k, 0) for k in range(min(regions, requests))])
    z.source(
        (deal, 2), Selector(2), lambda rng: [(1, 0)] * min(regions, requests) + [(2, 0)] * after
    )
    flat = z.unit(Flatten(lo=0, hi=1))
    z.join((deal, 0), (flat, 0), hot)
    work = z.unit(Partition(n=regions, rank=1), "work")
    z.source(
        (work, 0),
        tile,
        lambda rng: [
            b
            for _ in range(requests)
            for b in _fill(rng, tile, [(True, 0)] * int(rng.integers(0, 9)) + [(True, 1)])
        ],
    )
    z.join((flat, 0), (work, 1), hot)
    free = z.unit(EagerMerge(n=regions, rank=0), "free")
    for k in range(regions):
        region = z.unit(Map(fn="silu", arity=1, lanes=t * t // (1 + k % 2)), f"region{k}_")
        fork = z.unit(Broadcast(n=2))
        end = z.unit(Signal(level=1))
        z.join((work, k), (region, 0), tile)
        z.join((region, 0), (fork, 0), tile)
        z.sink((fork, 0), tile)
        z.join((fork, 1), (end, 0), tile)
        z.join((end, 0), (free, k), Scalar(1))
    z.sink((free, 0), Scalar(1))
    keep = z.unit(Partition(n=2, rank=0), "keep")
    z.join((free, 1), (keep, 0), hot)
    z.source(
        (keep, 1), Selector(2), lambda rng: [(1, 0)] * after + [(2, 0)] * min(regions, requests)
    )
    z.join((keep, 0), (deal, 1), hot)
    z.sink((keep, 1), hot)
