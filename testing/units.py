"""Every unit kind that holds no memory, between sources and sinks: cases as data, one fabric each.

A case is a kind, its parameters, (payload, stream) of each input, and the outputs' payloads; where
parameters differ from run to run, what draws them is the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..machine.beat import BufferRef, Payload, Scalar, Tile, Tuple
from ..machine.functions import FUNCTIONS
from ..machine.kinds.accum import Accum
from ..machine.kinds.compute import Map, Matmul, RowReduce
from ..machine.kinds.copies import Broadcast, Merge, Repeat, Split, Zip
from ..machine.kinds.rows import Permute, RowAppend, RowOffset, RowPack, RowUnpack
from ..machine.kinds.shape import Flatten, Promote, Reshape
from .stimulus import (
    Items,
    banded,
    counts,
    ragged,
    ragged_stream,
    regular_stream,
    row_tiles,
    upright,
    value,
)
from .zoo import Zoo

SOME = 0.3
FEW = 0.2
"""Shares of the groups that are empty."""


def _zoo(name: str, t: int, cases: Iterable[tuple]) -> Zoo:
    z = Zoo(name, t)
    for case in cases:
        z.add(*case)
    return z


def shapes(t: int = 2, dtype: str = "fp32") -> Zoo:
    """The units that only change stops, order or number of beats."""
    return _zoo("shapes", t, _shapes(Tile(t, dtype), BufferRef(8)))


def _shapes(tile: Tile, ref: BufferRef) -> Iterator[tuple]:
    some = [(tile, ragged_stream(tile, 2, 4, bare=SOME))]
    refs = [(ref, ragged_stream(ref, 2, 4, bare=SOME))]
    yield Broadcast(n=3), some, [tile] * 3
    for lo, hi, hold in ((0, 1, False), (1, 2, False), (0, 4, False), (0, 3, True), (1, 3, True)):
        stream = ragged_stream(tile, 4, 4 if hold else 2, bare=SOME if hold or hi == 4 else 0)
        yield Flatten(lo=lo, hi=hi, hold=hold), [(tile, stream)], [tile]
    for level in (0, 1, 2):
        yield Promote(level=level), refs, [ref]
    yield Promote(level=3, outermost=True), some, [tile]
    yield from _reshapes(tile)
    yield Repeat(count=2), some, [tile], lambda rng: {"count": int(rng.integers(1, 5))}
    yield Zip(), some + refs, [Tuple((tile, ref))]
    yield Split(n=3), [(tile, ragged_stream(tile, 2, 4))], [tile] * 3
    yield Merge(n=3), [(ref, _dealt(ref, k)) for k in range(3)], [ref]


def _reshapes(tile: Tile) -> Iterator[tuple]:
    def chunk(rng: np.random.Generator) -> dict:
        return {"chunk": int(rng.choice([1, 2, 3]))}

    def chunks(dim: int, pad: bool, cols: int, **more) -> Reshape:
        rows = 2 if dim else 1
        return Reshape(dim=dim, chunk=2, pad=pad, pad_rows=rows, pad_cols=cols, **more)

    for dim, pad, shape in (
        (0, False, (6,)),
        (0, True, (5,)),
        (1, False, (6, 2)),
        (2, True, (5, 2, 2)),
        (2, False, (6, 1, 2)),
    ):
        stream = regular_stream(tile, shape, full=False)
        yield chunks(dim, pad, 2 if dim else 1), [(tile, stream)], [tile], chunk
    for dim in (0, 2):
        stream = ragged_stream(tile, dim + 2, 2, bare=0 if dim else SOME)
        yield chunks(dim, True, 1, flags=dim), [(tile, stream)], [tile, Scalar(1)], chunk
    bare = [(tile, ragged_stream(tile, 4, 2, bare=SOME))]
    yield chunks(2, True, 1, bare=True, flags=2), bare, [tile, Scalar(1)]
    full = [(tile, regular_stream(tile, (5, 2, 2), full=False))]
    extent = [2 * tile.t - 1, tile.t + 1]
    yield chunks(2, True, 2, value=0x3FC00000, extent=extent), full, [tile], chunk


def _dealt(payload: Payload, k: int) -> Callable:
    """Every third beat of a stream."""

    def items(rng: np.random.Generator) -> Items:
        return [(value(rng, payload), s) for s in ragged(rng, 2, 4)[k::3]]

    return items


def arithmetic(t: int = 2, dtype: str = "fp32") -> Zoo:
    """Element-wise functions, matrix products and accumulators, at several widths; one function and
    every third of the others once more with deep pipelines.
    """
    cases = [*_maps(t), *_products(t, dtype), *_sums(t)]
    twins = [case for case in cases if not isinstance(case[0], Map)][::3]
    twins += [case for case in cases if getattr(case[0], "fn", None) == "silu"]
    cases += [(kind.but(deep=True), *rest) for kind, *rest in twins]
    return _zoo("arithmetic", t, cases)


def _maps(t: int) -> Iterator[tuple]:
    wide = Tile(t, "fp32")
    few = [(wide, ragged_stream(wide, 2, 4, bare=FEW))]
    full = [(wide, ragged_stream(wide, 2, 4, full=True))]

    for fn in sorted(FUNCTIONS):
        before = Tile(t, "bf16" if fn == "cast_fp32" else "fp32")
        after = Tile(t, "bf16" if fn == "cast_bf16" else "fp32")
        arity = FUNCTIONS[fn].arity
        stream = ragged_stream(before, 2, 4, bare=FEW)
        kind = Map(fn=fn, arity=arity, lanes=t if fn == "silu" else 1)
        yield kind, [(before, stream)] * arity, [after]
    for fn, parts, spread in (("sub", 1, "cols"), ("mul", 2, "rows"), ("div", t, "both")):
        yield Map(fn=fn, arity=2, lanes=t * t // parts, spread=spread), full * 2, [wide]
    for first, spread in (("cols", "rows"), ("rows", None), ("both", None)):
        kind = Map(fn="sub", arity=2, lanes=t * t, first=first, spread=spread)
        yield kind, few * 2, [wide]
    yield Map(fn="mul", arity=2, lanes=t, constant=0x3E000000), few, [wide]
    for fn in ("add", "max"):
        yield RowReduce(fn=fn), few, [wide]
    pair = Tuple((wide, wide))
    both = Map(fn="sub", arity=2, lanes=t * t, tuple_in=True)
    yield both, [(pair, ragged_stream(pair, 2, 4))], [wide]


def _products(t: int, dtype: str) -> Iterator[tuple]:
    tile = Tile(t, dtype)
    operands = [(tile, ragged_stream(tile, 2, 4))] * 2
    for transposed in (False, True):
        for rows_per_cycle in {t, 1}:
            product = Matmul(rows_per_cycle=rows_per_cycle, transposed=transposed)
            yield product, operands, [Tile(t, "fp32")]


def _sums(t: int) -> Iterator[tuple]:
    wide = Tile(t, "fp32")

    def sums(fn: str, reduce: int, lanes: int, scan: bool = False) -> Accum:
        return Accum(fn=fn, reduce=reduce, depth=8, lanes=lanes, scan=scan)

    def initial(rng: np.random.Generator) -> dict:
        rows = int(rng.choice([0, 1, 2 * t - 1]))
        return {"init_rows": rows, "init_cols": int(rng.integers(1, 2 * t + 1))}

    for reduce, lanes, shape in (
        (0b1, t * t, (4,)),
        (0b10, t * t, (3, 4)),
        (0b1010, t * t, (2, 2, 3, 2)),
        (0b11, t * t // 2, (2, 3)),
        (0b10, t, (2, 3)),
    ):
        stream = regular_stream(wide, shape)
        yield sums("add", reduce, lanes), [(wide, stream)], [wide]
    tiles = [(wide, row_tiles(wide, 3))]
    for fn, lanes in (("add", t), ("max", t * t)):
        yield sums(fn, 0b1100, lanes), tiles, [wide], initial
        yield sums(fn, 0b1100, lanes, scan=True), tiles, [wide]
    yield sums("sub", 0b1100, t).but(init=0x3FC00000), tiles, [wide], initial


def rows(t: int = 2, dtype: str = "fp32") -> Zoo:
    """Rows packed to tiles and streamed again, appended, and cut off."""
    z = Zoo("rows", t)
    tile = Tile(t, dtype)
    for cols in (1, 2):
        for case in _rows(tile, cols):
            z.add(*case)
        pack = z.unit(RowPack(depth=cols, along="cols", level=4, cols=cols * t))
        single = z.unit(RowUnpack(depth=cols, along="cols", mask=True, rows=2 * t))
        z.runtime[pack] = _packing(cols * t - 1)
        z.source(single, tile, upright(tile, 2, cols, 2))
        z.join(single, pack, tile)
        z.sink(pack, tile)
        for case in _joined(tile, cols):
            z.add(*case)
    return z


def _packing(cols: int) -> Callable[[np.random.Generator], dict]:
    """Run-time parameters of a `row_pack` of tiles of ``cols`` columns."""
    return lambda rng: {"bands": int(rng.choice([0, 2, 5])), "cols": cols}


def _rows(tile: Tile, cols: int) -> Iterator[tuple]:
    t = tile.t
    single = [(tile, banded(tile, 3, 1, cols, valid=(0, 2), bare=FEW, most=5))]
    high = [(tile, banded(tile, 2, 2, cols, valid=(0, 2 * t + 1), bare=FEW))]
    columns = [(tile, upright(tile, 2, cols, 2))]
    yield RowPack(depth=2, level=3, cols=cols * t), single, [tile], _packing(cols * t)
    for mask in (False, True):
        yield RowUnpack(depth=2, mask=mask, rows=2 * t), high, [tile]
        yield RowUnpack(depth=cols, mask=mask, rows=2 * t, along="cols"), columns, [tile]


def _joined(tile: Tile, cols: int) -> Iterator[tuple]:
    t = tile.t
    number = Scalar(8)
    for half, fn in ((0, "transpose"), (0, "pairs"), (1, "halves"), (2 * t, "halves")):
        tiles = banded(tile, 2, 2, 4 * cols, valid=(0, 2 * t), bare=FEW)
        yield Permute(fn=fn, half=half), [(tile, tiles)], [tile]
    tiles = banded(tile, 2, 2, cols, valid=(0, 2 * t), bare=FEW)
    row = banded(tile, 2, 1, cols, valid=(1, 2), bare=FEW)
    yield RowAppend(), [(tile, tiles), (tile, row)], [tile]
    tiles = banded(tile, 2, 2, cols, valid=(0, 2 * t + 1), bare=FEW)
    kept = counts(number, 2, 2 * t + 2, FEW)
    yield RowOffset(), [(tile, tiles), (number, kept)], [tile]
    for along, n in (("rows", number), ("cols", number), ("diagonal", Scalar(32))):
        kept = counts(n, 2, 2 * t + 2, FEW, 0 if n is number else -2 * t)
        yield RowOffset(along=along, fill=0xFF800000), [(tile, tiles), (n, kept)], [tile]
