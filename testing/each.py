"""One unit of every kind in one fabric, each at full rate."""

from __future__ import annotations

from collections.abc import Iterator

from ..machine.beat import BufferRef, Scalar, Selector, Tile, Tuple
from .offchip import memory
from .stimulus import banded, counts, plain_stream, regular_stream
from .zoo import Zoo


def each(t: int = 2, dtype: str = "fp32") -> Zoo:
    """One unit of every kind, each with a stream that it can pass at full rate; those whose
    interval is a parameter have one of two cycles.
    """
    z = memory(t, dtype, 1)
    z.name = "each"
    tile = Tile(t, dtype)
    for part in (_shapes, _compute, _routes):
        for kind, params, ins, outs in part(tile):
            z.add(kind, params, ins, outs)
    _memories(z, tile)
    return z


def _shapes(tile: Tile) -> Iterator[tuple]:
    row = (tile, regular_stream(tile, (8,)))
    ref = BufferRef(16)
    # a sink has the last word in the run's length
    long = (ref, regular_stream(ref, (100,), full=False))
    plain = {"dim": 0, "chunk": 2, "pad": False, "pad_rows": 1, "pad_cols": 1}
    yield "broadcast", {"n": 2, "scratchpad": None}, [row], [tile] * 2
    yield "flatten", {"lo": 0, "hi": 1}, [long], [ref]
    yield "promote", {"level": 1, "outermost": False}, [row], [tile]
    yield "reshape", plain, [row], [tile]
    yield "repeat", {"count": 2}, [row], [tile]
    yield "zip", {}, [row] * 2, [Tuple((tile, tile))]
    yield "split", {"n": 1}, [row], [tile]
    yield "merge", {"n": 1}, [row], [tile]


def _compute(tile: Tile) -> Iterator[tuple]:
    t = tile.t
    wide = Tile(t, "fp32")
    row = (wide, regular_stream(wide, (8,)))
    div = {"fn": "div", "arity": 2, "lanes": t * t // 2, "tuple_in": False}
    yield "map", div, [row] * 2, [wide]
    yield "row_reduce", {"fn": "add"}, [row], [wide]
    packed = (tile, banded(tile, 3, 1, 2, valid=(1, 2)))
    yield "row_pack", {"depth": 2, "level": 2, "bands": 0, "cols": 2 * t}, [packed], [tile]
    full = (tile, banded(tile, 3, 1, 1, valid=(t, t + 1)))
    yield "row_unpack", {"depth": 2, "mask": True, "rows": t}, [full], [tile]
    above = (tile, banded(tile, 2, 1, 1, valid=(0, t)))
    yield "row_append", {}, [above, (tile, banded(tile, 2, 1, 1, valid=(1, 2)))], [tile]
    operands = [(tile, regular_stream(tile, (8,)))] * 2
    yield "matmul", {"rows_per_cycle": t // 2, "transposed": False}, operands, [wide]
    sums = {"fn": "add", "reduce": 0b10, "depth": 8, "lanes": t * t // 2}
    sums |= {"init_rows": 0, "init_cols": 0}
    yield "accum", sums, [(wide, regular_stream(wide, (2, 4)))], [wide]


def _routes(tile: Tile) -> Iterator[tuple]:
    word = Scalar(16)
    some = (tile, plain_stream(tile, None, 24))
    words = (word, plain_stream(word, None, 24))
    one = (Selector(1), plain_stream(Selector(1), 1, 24))
    yield "partition", {"n": 1, "rank": 0, "scratchpad": None}, [some, one], [tile]
    yield "reassemble", {"n": 1, "rank": 0}, [some, one], [tile]
    yield "eager_merge", {"n": 1, "rank": 0}, [some], [tile, Selector(1)]
    groups = (word, regular_stream(word, (1,), full=False))
    reference = (tile, regular_stream(tile, (8,)))
    yield "expand", {"level": 1, "scratchpad": None}, [groups, reference], [word]
    yield "signal", {"level": 0}, [words], [Scalar(1)]
    twos = (word, plain_stream(word, 2, 24))
    yield "generate", {"fn": "last", "stride": 0, "count": 0}, [twos], [Selector(2)]
    yield "address", {"stride": 4}, [words] * 2, [Scalar(32)]


def _memories(z: Zoo, tile: Tile) -> None:
    t = tile.t
    ref = BufferRef(16)
    y = z.tensor("scattered", t, 16 * t, tile.dtype, "output")
    u = z.offchip("random_store", y, t, t, "scattered", shift=4)
    z.source(u, Scalar(4), counts(Scalar(4), 2, 16))
    z.source((u, 1), tile, banded(tile, 2, 1, 1, valid=(t, t + 1)))
    z.sink(u, Scalar(1))
    params = {"pages": 16, "frames": 2, "writers": [{"rank": 1}], "limit": [16]}
    pad = z.unit("scratchpad", params, readers=[{"rank": 1, "repeat_dim": True}], repeat=[2])
    z.source(pad, tile, regular_stream(tile, (8,)))
    z.join(pad, (pad, 1), ref)
    z.sink((pad, 1), tile)
