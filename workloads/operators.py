"""Small programs that together run every operator and function: ``part`` is "routing", "memory" or
"compute".
"""

import numpy as np

from ..frontend import (
    Accum,
    Broadcast,
    Bufferize,
    EagerMerge,
    Expand,
    Fifo,
    FlatMap,
    Flatten,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Partition,
    Promote,
    RandomOffChipLoad,
    RandomOffChipStore,
    Reassemble,
    Reshape,
    Scan,
    Sink,
    Source,
    Streamify,
    Zip,
    add,
    address,
    address_range,
    all_read,
    cast,
    div,
    exp,
    expert_addresses,
    last_tile_filter,
    matmul,
    maximum,
    mul,
    retile_col,
    retile_row,
    retile_streamify,
    row_append,
    row_max,
    row_offset,
    row_sum,
    scale,
    silu,
    sub,
)
from ..machine.errors import ProgramError
from .dealing import deal, turns


class _Sketch:
    """A graph and the elements of its sources, which alone depend on the seed."""

    def __init__(self, part, seed=0):
        self.g = Graph(f"operators_{part}")
        self.given = {}
        self.rng = np.random.default_rng([seed, 21])

    def tile(self, rows, cols):  # of numbers that bf16 holds
        return self.rng.integers(-64, 65, (rows, cols)).astype(np.float32) / 32

    def source(self, name, shape, elements, **kind):
        self.given[name] = elements
        return Source(graph=self.g, shape=shape, name=name, **kind)

    def tiles(self, name, shape, size, *counts, dtype="fp32"):
        """A stream of tiles; ``counts``: elements of each group of the innermost dimension (none: a
        single dimension).
        """
        elements = (
            [[self.tile(*size) for _ in range(n)] for n in counts]
            if counts
            else [self.tile(*size) for _ in range(shape[0])]
        )
        return self.source(name, shape, elements, tile=size, dtype=dtype)

    def numbers(self, name, values):
        return self.source(name, (len(values),), list(values), scalar=32)

    def ragged(self, name, most):
        return self.g.dynamic(name, ragged=True, most=most)


def _routing(s):
    """Rows of a tensor to none, one or several of three targets and back; merges as they arrive; a
    feedback loop; padding.
    """
    x = s.g.input("x", (10, 8), "bf16")
    y = s.g.output("y", (10, 8), "bf16")
    chosen = s.source(
        "chosen",
        (10,),
        [sorted(map(int, np.flatnonzero(s.rng.integers(0, 2, 3)))) for _ in range(10)],
        selector=3,
    )
    route = Partition(
        Flatten(LinearOffChipLoad(x, tile=(1, 8)), lo=0, hi=2), chosen, rank=0, outputs=3
    )
    parts = [Map(cast(route[i], "fp32"), fn=scale(float(i + 1))) for i in range(3)]
    total = Accum(Reassemble(parts, Fifo(chosen, depth=10), rank=0), fn=add(), rank=1)
    total = Broadcast(total, n=2)
    LinearOffChipStore(cast(total[0], "bf16"), y)
    for stream in EagerMerge([Map(p, fn=row_sum()) for p in parts]):
        Sink(stream)
    padded, flags = Reshape(total[1], dim=0, chunk=4, pad=0)
    Sink(Accum(padded, fn=retile_row(), rank=1))
    Sink(flags)
    a = s.numbers("a", s.rng.integers(0, 9, 4))
    b = s.numbers("b", s.rng.integers(0, 9, 4))
    Sink(Promote(Zip(a, b), level=0))

    to, close = deal(s.g, 6, 2)
    s.given |= turns(6, 2)
    dealt = Partition(s.tiles("work", (6,), (4, 4)), to, rank=0, outputs=2)
    close([dealt[0], Map(dealt[1], fn=exp())])


def _memory(s):
    """Loads started by a stream, random reads and writes, a read of what was written, buffers read
    again, by reference and in affine order, a cache that grows by a row.
    """
    w = s.g.input("w", (24, 8), "bf16")
    out = s.g.output("out", (24, 8), "bf16")
    n = [int(v) for v in s.rng.integers(1, 3, 2)]
    r = s.source("r", (2, s.ragged("D", 2)), [list(range(k)) for k in n], scalar=32)
    Sink(LinearOffChipLoad(w, tile=(8, 8), shape=(3,), stride=(1,), ref=r))
    Sink(Expand(s.tiles("x", (2, 1), (6, 6), 1, 1), ref=r))
    held = Bufferize(
        s.tiles("z", (2, s.ragged("E", 3)), (6, 3), *map(int, s.rng.integers(1, 4, 2))), rank=1
    )
    Sink(Streamify(held, ref=r))
    regular = Bufferize(s.tiles("u", (2, 3), (4, 4), 3, 3), rank=1)
    Sink(Streamify(regular))
    Sink(Streamify(regular, shape=(2, 2), stride=(1, 1), repeat=2))
    groups = s.source(
        "o",
        (2, 2, s.ragged("O", 2)),
        [
            [[s.tile(4, 4) for _ in range(int(s.rng.integers(0, 3)))] for _ in range(2)]
            for _ in range(2)
        ],
        tile=(4, 4),
    )
    Sink(Streamify(Bufferize(groups, rank=1), repeat=(1, 2)))
    Sink(Expand(s.tiles("v", (2,), (4, 8)), count=3))

    # two requests, each with its tiles of 4 rows in a cache of 3; a row goes below the valid ones
    # of the last tile, which is written back
    tiles = [int(v) for v in s.rng.integers(1, 4, 2)]
    valid = [int(v) for v in s.rng.integers(0, 4, 2)]
    request = s.numbers("request", [0, 1])
    count = s.numbers("tiles", tiles)
    loaded = RandomOffChipLoad(FlatMap(request, count, fn=address_range(3), rank=1), w, tile=(4, 8))
    last, others = Partition(
        loaded, FlatMap(count, fn=last_tile_filter(), rank=1), rank=0, outputs=2
    )
    grown = Map(
        Map(last, s.numbers("valid", valid), fn=row_offset()),
        s.tiles("row", (2,), (1, 8), dtype="bf16"),
        fn=row_append(),
    )
    stored = RandomOffChipStore(
        Map(request, s.numbers("last", [k - 1 for k in tiles]), fn=address(3)), grown, out
    )
    Sink(stored)
    Sink(
        LinearOffChipLoad(
            out,
            tile=(4, 8),
            shape=(6,),
            stride=(1,),
            ref=Accum(Promote(stored), fn=all_read(), rank=1),
        )
    )  # reads what was stored
    Sink(others)
    Sink(Accum(loaded, fn=all_read(), rank=1))
    Sink(
        FlatMap(
            s.source("expert", (3,), [int(v) for v in s.rng.integers(0, 4, 3)], selector=4),
            fn=expert_addresses(2),
            rank=1,
        )
    )


def _compute(s):
    """Element-wise and row-wise functions, products, running and whole sums, tiles cut, packed."""
    x = s.tiles("x", (2,), (6, 10))
    cols = s.tiles("c", (2,), (6, 1))
    rows = s.tiles("r", (2,), (1, 10))
    one = s.tiles("o", (2,), (1, 1))
    Sink(Map(Map(Map(x, cols, fn=mul()), rows, fn=sub()), Map(one, fn=exp()), fn=div()))
    Sink(Map(Map(x, x, fn=maximum()), Map(x, fn=row_max()), fn=sub()))
    Sink(cast(Map(Map(x, fn=silu()), x, fn=add()), "bf16"))
    packed = Accum(
        s.tiles("k", (3, s.ragged("K", 6)), (1, 6), *map(int, s.rng.integers(1, 7, 3))),
        fn=retile_row(),
        rank=1,
    )
    product = Map(cast(packed, "bf16"), s.tiles("w", (3,), (6, 7), dtype="bf16"), fn=matmul())
    Sink(Map(product, fn=row_sum()))
    Sink(FlatMap(product, fn=retile_streamify(mask=True), rank=1))
    a, b = (s.tiles(n, (2, 3), (4, 8), 3, 3, dtype="bf16") for n in "ab")
    Sink(Accum(a, b, fn=matmul(transposed=True), rank=1))
    cut = s.source(
        "cut", (3,), [s.tile(*map(int, s.rng.integers(0, (7, 11)))) for _ in range(3)], tile=(6, 10)
    )
    Sink(FlatMap(cut, fn=retile_streamify("cols", 1, mask=True), rank=1))
    Sink(FlatMap(cut, fn=retile_streamify("rows", 2), rank=1))
    Sink(FlatMap(cut, fn=retile_streamify("cols", 5), rank=1))
    Sink(
        Accum(
            s.tiles("narrow", (2, s.ragged("N", 4)), (4, 3), *map(int, s.rng.integers(1, 5, 2))),
            fn=retile_col(),
            rank=1,
        )
    )
    wide = s.tiles("parts", (2, 3), (4, 4), 3, 3)
    Sink(FlatMap(wide, fn=retile_streamify("cols", 1)))
    Sink(FlatMap(Accum(wide, fn=retile_col(), rank=1), fn=retile_streamify("cols", 4)))
    Sink(Scan(wide, fn=add(), rank=1))
    Sink(Accum(wide, fn=maximum(), rank=1))


PARTS = {"routing": _routing, "memory": _memory, "compute": _compute}


def _sketch(part, seed):
    if part not in PARTS:
        raise ProgramError(f"part must be one of {', '.join(PARTS)}, not {part!r}")
    s = _Sketch(part, seed)
    PARTS[part](s)
    return s


def program(part="routing"):
    return _sketch(part, 0).g


def streams(seed, part="routing"):
    return _sketch(part, seed).given
