"""Scratchpads between sources and sinks, in one fabric."""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.beat import BufferRef, Scalar, Selector, Tile
from ..machine.config import Machine
from ..machine.kinds.copies import Broadcast
from ..machine.kinds.ends import Sink
from ..machine.kinds.routing import Partition
from ..machine.kinds.scratchpad import Scratchpad
from .stimulus import drive, ragged_stream, regular_stream
from .zoo import Zoo


def buffers(t: int = 2, dtype: str = "fp32") -> Zoo:
    """Scratchpads: one writer and reader, several of each, references copied."""
    z = Zoo("buffers", t)
    tile = Tile(t, dtype)
    _pad(z, tile, 8, 2, [1], [[False]])
    _pad(z, tile, 16, 1, [2], [[True]])
    _pad(z, tile, 16, 4, [1], [[True, False]])
    _pad(z, tile, 32, 2, [1, 2], [[True], [False, True]])
    _pad(z, tile, 16, 2, [1], [[True, False]], turns=[2, 1, 3])
    _copied_and_dropped(z, tile)
    _affine(z, tile)
    _listed(z, tile)
    for rank, level in ((1, 1), (2, 0), (0, 2)):
        _driven(z, tile, rank, level)
    return z


def spilled(machine: Machine) -> Zoo:
    """Scratchpads of few pages, whose buffers go off-chip: read in order, repeatedly, by two
    readers, in a listed order, and as a stream drives it.
    """
    z = Zoo("spilled", machine.t)
    z.machine = machine
    tile = Tile(machine.t, "fp32")
    _pad(z, tile, 2, 2, [1], [[True]], most=9)
    _pad(z, tile, 3, 1, [2], [[False, True]])
    _pad(z, tile, 1, 2, [1], [[True]], turns=[2, 1, 3], most=6)
    _listed(z, tile, pages=1)
    _driven(z, tile, 1, 1, pages=1)
    return z


def _scratchpad(
    pages: int, frames: int, ranks: Sequence[int], readers: Sequence[dict], **more
) -> Scratchpad:
    given = {
        "pages": pages,
        "frames": frames,
        "writers": [{"rank": r} for r in ranks],
        "limit": [pages] * len(ranks),
        "readers": list(readers),
        "repeat": [int(r["repeat_dim"]) for r in readers],
    }
    return Scratchpad(**(given | more))


def _pad(
    z: Zoo,
    tile: Tile,
    pages: int,
    frames: int,
    ranks: Sequence[int],
    repeats: Sequence[Sequence[bool]],
    turns: Sequence[int] = (),
    most: int = 3,
) -> None:
    """Writer w has rank ranks[w] and one reader per entry of repeats[w]; ``turns``: repeats of each
    buffer in turn, ``most``: parts of a dimension.
    """
    readers = [
        {"rank": rank, "repeat_dim": r} | ({"turns": list(turns)} if turns else {})
        for rank, rs in zip(ranks, repeats, strict=True)
        for r in rs
    ]
    ref = BufferRef(pages)
    u = z.unit(_scratchpad(pages, frames, ranks, readers, repeat=[1] * len(readers)))
    z.runtime[u] = lambda rng: {
        "limit": rng.integers(1, min(pages, 4) + 1, len(ranks)).tolist(),
        "repeat": [int(rng.integers(1, 4)) for _ in readers],
    }
    r = len(ranks)
    for w, (rank, rs) in enumerate(zip(ranks, repeats, strict=True)):
        z.source((u, w), tile, ragged_stream(tile, rank + 1, most, bare=0.2))
        if len(rs) > 1:
            b = z.unit(Broadcast(n=len(rs), scratchpad=u))
            z.join((u, w), b, ref)
        for k in range(len(rs)):
            z.join((b, k) if len(rs) > 1 else (u, w), (u, r), ref)
            z.sink((u, r), tile)
            r += 1


def _copied_and_dropped(z: Zoo, tile: Tile) -> None:
    """References that a broadcast copies, a partition routes, and sinks drop."""
    ref = BufferRef(8)
    u = z.unit(_scratchpad(8, 1, [1], [{"rank": 1, "repeat_dim": False}]))
    copies = z.unit(Broadcast(n=2, scratchpad=u))
    route = z.unit(Partition(n=2, rank=0, scratchpad=u))
    z.source(u, tile, regular_stream(tile, (7, 2)))
    z.join(u, copies, ref)
    z.join(copies, route, ref)
    z.source((route, 1), Selector(2), regular_stream(Selector(2), (7,), full=False))
    z.join(route, (u, 1), ref)
    for src in ((copies, 1), (route, 1)):
        z.join(src, z.unit(Sink(scratchpad=u)), ref)
    z.sink((u, 1), tile)


def _affine(z: Zoo, tile: Tile) -> None:
    """A reader that walks a loop nest over each buffer."""
    reader = {"rank": 2, "repeat_dim": True, "affine": 2}
    u = z.unit(_scratchpad(32, 2, [1], [reader], shape=[2, 2], stride=[0, 1]))
    z.runtime[u] = lambda rng: {
        "repeat": [int(rng.integers(1, 4))],
        "shape": [int(x) for x in rng.integers(1, 4, 2)],
        "stride": [int(x) for x in rng.integers(0, 2, 2)],
    }
    z.source(u, tile, regular_stream(tile, (3, 5)))
    z.join(u, (u, 1), BufferRef(32))
    z.sink((u, 1), tile)


def _listed(z: Zoo, tile: Tile, pages: int = 32) -> None:
    """A reader of a list: back and forth, tiles twice, across pages."""
    entries = [[4, 0], [0, 1], [2, 0], [2, 1], [3, 0], [1, 2]]
    reader = {"rank": 2, "repeat_dim": True, "listed": entries}
    u = z.unit(_scratchpad(pages, 2, [1], [reader]))
    z.runtime[u] = lambda rng: {"repeat": [int(rng.integers(1, 4))]}
    z.source(u, tile, regular_stream(tile, (3, 5)))
    z.join(u, (u, 1), BufferRef(pages))
    z.sink((u, 1), tile)


def _driven(z: Zoo, tile: Tile, rank: int, level: int, pages: int = 32) -> None:
    """A reader that a stream of ``level`` dimensions starts."""
    reader = {"rank": rank, "repeat_dim": False, "ref": level}
    u = z.unit(_scratchpad(pages, 2, [rank], [reader]))
    z.source(u, tile, ragged_stream(tile, rank + 2, 3, bare=0.2))
    z.join(u, (u, 1), BufferRef(pages))
    z.source((u, 2), Scalar(1), drive(rank, level))
    z.sink((u, 1), tile)
