"""Operators that routing, references and run-time sizes make hard,
lowered and run on the model: values bit for bit, sinks beat for beat.
"""

from dataclasses import replace

import numpy as np
import penstock
import pytest
from penstock import model
from penstock.frontend import (
    Accum,
    Bufferize,
    EagerMerge,
    Expand,
    Fifo,
    FlatMap,
    Flatten,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Loop,
    LoweringError,
    Map,
    Partition,
    Promote,
    RandomOffChipLoad,
    RandomOffChipStore,
    Reassemble,
    Reshape,
    ScalarType,
    Scan,
    Sink,
    Source,
    Streamify,
    StreamType,
    Zip,
    add,
    address,
    address_range,
    all_read,
    analyse,
    cast,
    div,
    exp,
    last_tile_filter,
    lower,
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
    sub,
)
from penstock.frontend.program import Program
from penstock.machine.config import load
from penstock.machine.errors import RunError
from penstock.runs.boundary import source_beats
from penstock.runs.expected import expected
from penstock.workloads.dealing import deal, turns

SMALL = load("small_fpga")
CONFIG = replace(SMALL, machine=replace(SMALL.machine, dtype="fp32", pages=16))


class Case:
    """A program in the making, with the elements of its sources."""

    def __init__(self):
        self.g = Graph("case")
        self.given = {}
        self.rng = np.random.default_rng(0)

    def source(self, name, shape, elements, **kind):
        self.given[name] = elements
        return Source(graph=self.g, shape=shape, name=name, **kind)

    def tile(self, rows, cols):
        return self.rng.standard_normal((rows, cols)).astype(np.float32)

    def tiles(self, name, shape, size, *counts):
        """A stream of whole tiles; ``counts``: sizes of the groups of
        the innermost dimension (none: one group of ``shape``).
        """
        return self.source(
            name,
            shape,
            [[self.tile(*size) for _ in range(n)] for n in counts]
            if counts
            else [self.tile(*size) for _ in range(shape[0])],
            tile=size,
        )

    def run(self, on="model"):
        records = penstock.run(
            Program("case", {}, self.g, None, None, lambda seed: self.given), CONFIG, on=on
        )
        assert all(r.values_ok for r in records)
        return records


def ragged(c, name):
    return c.g.dynamic(name, ragged=True)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_products_of_tiles_of_run_time_size(transposed, fused):
    c = Case()
    a = Accum(c.tiles("x", (3, ragged(c, "K")), (1, 6), 5, 2, 9), fn=retile_row(), rank=1)
    size = (7, 6) if transposed else (6, 7)
    if fused:
        p = Accum(
            Expand(a, count=2), c.tiles("w", (3, 2), size, 2, 2, 2), fn=matmul(transposed), rank=1
        )
    else:
        p = Map(a, c.tiles("w", (3,), size), fn=matmul(transposed))
    Sink(Map(Map(p, fn=row_sum()), fn=exp()))
    Sink(FlatMap(p, fn=retile_streamify(mask=True), rank=1))
    c.run()


def packed(c, name, size, *counts, width=8):
    """Tiles of as many rows as each group has."""
    return Accum(c.tiles(name, (len(counts), size), (1, width), *counts), fn=retile_row(), rank=1)


def test_attention_over_keys_of_run_time_number():
    """q K^T and (q K^T) V, where each element has keys of its own
    number; q of static (one and three rows of physical tiles) and of
    run-time rows.
    """
    c = Case()
    n = c.g.dynamic("N", ragged=True, most=13)
    keys = (1, 5, 13, 4)
    k = packed(c, "k", n, *keys)
    v = packed(c, "v", n, *keys)
    for q in (
        c.tiles("q4", (4,), (4, 8)),
        c.tiles("q10", (4,), (10, 8)),
        packed(c, "qm", c.g.dynamic("M", ragged=True), 3, 9, 5, 1),
    ):
        scores = Map(q, k, fn=matmul(True))
        assert str(scores.stream.element.cols) == "N"
        Sink(Map(scores, v, fn=matmul()))
        assert (
            analyse(c.g, "paper").onchip.per_node[scores.name].subs({n.size: 13})
            == 16 * 8 * 4 + 13 * 8 * 4
        )
        Sink(scores)
    c.run()
    assert (
        penstock.run(
            Program("case", {}, c.g, None, None, lambda seed: c.given), CONFIG, timing="stepsim"
        )[0].cycles
        > 0
    )


SIDES = {"M": (3, 9, 5, 1), "K": (6, 1, 13, 4), "N": (12, 2, 1, 8)}


def operands(c, sized, transposed, groups=None, **sizes):
    """Two streams of tiles for a product: the sides in ``sized`` of
    run-time size, each with a list of sizes, the others as large as the
    first.
    """
    sizes = {**SIDES, **sizes}
    dims = {x: c.g.dynamic(x, ragged=True, most=20) if x in sized else sizes[x][0] for x in "MKN"}
    shape, own = (
        ((len(sizes["K"]),), iter)
        if groups is None
        else (
            (len(groups), ragged(c, "G")),
            lambda all_: iter([[all_.pop(0) for _ in range(n)] for n in groups]),
        )
    )
    out = []
    for name, sides in (("a", "MK"), ("b", "NK" if transposed else "KN")):
        tiles = [
            c.tile(*(sizes[x][i] if x in sized else dims[x] for x in sides))
            for i in range(len(sizes["K"]))
        ]
        out.append(c.source(name, shape, list(own(tiles)), tile=tuple(dims[x] for x in sides)))
    return out


@pytest.mark.parametrize("transposed", [False, True])
def test_products_with_sides_of_run_time_size(transposed):
    for sized in ("K", "N", "MK", "MN", "KN", "MKN"):
        c = Case()
        Sink(Map(*operands(c, sized, transposed), fn=matmul(transposed)))
        c.run()


@pytest.mark.parametrize("sized", ["MK", "MN", "KN"])
def test_flop_of_products_with_two_ragged_sides(sized):
    """The sum over the elements, not the product of the means."""
    for transposed in (False, True):
        c = Case()
        Sink(Map(*operands(c, sized, transposed), fn=matmul(transposed)))
        sides = [SIDES[x] if x in sized else SIDES[x][:1] * 4 for x in "MKN"]
        assert c.run()[0].flops == sum(2 * m * k * n for m, k, n in zip(*sides, strict=False))


@pytest.mark.parametrize("transposed", [False, True])
def test_sums_of_products_with_sides_of_run_time_size(transposed):
    """Groups of three, none, one and two products: an empty K adds
    nothing.
    """
    for sized in ("K", "MKN"):
        c = Case()
        sides = {"M": (3, 3, 3, 9, 5, 5), "K": (6, 0, 13, 4, 0, 7), "N": (12, 12, 9, 2, 2, 2)}
        Sink(
            Accum(
                *operands(c, sized, transposed, (3, 0, 1, 2), **sides),
                fn=matmul(transposed),
                rank=1,
            )
        )
        c.run()


def test_empty_sides_of_products():
    """An empty N or M makes an empty product, where the machine can
    tell it; other empty and unequal sides are told.
    """
    for transposed, m, k in ((True, 4, 8), (False, 4, 4)):
        c = Case()
        Sink(
            Map(
                *operands(c, "N", transposed, M=(m,), K=(k,) * 4, N=(5, 0, 3, 2)),
                fn=matmul(transposed),
            )
        )
        Sink(
            Map(
                *operands(
                    second := Case(), "MN", transposed, M=(5, 0, 3, 2), K=(k,) * 4, N=(1, 0, 5, 9)
                ),
                fn=matmul(transposed),
            )
        )
        c.run()
        second.run()
    for sized, transposed, sides, message in (
        (
            "K",
            False,
            {"M": (4,), "K": (3, 0, 1, 2), "N": (4,)},
            r"operands are empty \(K = 0\) where the product has 4 rows and 4 columns",
        ),
        (
            "N",
            True,
            {"M": (5,), "K": (4,) * 4, "N": (5, 0, 3, 2)},
            r"B is empty \(N = 0\) where A has 5 rows and 4 columns: .* one row of physical "
            r"tiles, of static size",
        ),
        (
            "MN",
            True,
            {"M": (5, 1, 3, 2), "K": (4,) * 4, "N": (5, 0, 3, 2)},
            r"B is empty \(N = 0\) where A has 1 rows",
        ),
        (
            "N",
            False,
            {"M": (4,), "K": (8,) * 4, "N": (5, 0, 3, 2)},
            r"B is empty \(N = 0\) where A has 4 rows and 8 columns: .* made of one tile",
        ),
    ):
        c = Case()
        Sink(Map(*operands(c, sized, transposed, **sides), fn=matmul(transposed)))
        with pytest.raises(RunError, match=message):
            evaluated(c)
    c = Case()
    Sink(
        Map(
            partly(c, "q", (5, 4), [(5, 4), (0, 4)]),
            packed(c, "k", c.g.dynamic("N", ragged=True), 3, 2, width=4),
            fn=matmul(True),
        )
    )
    with pytest.raises(
        RunError,
        match=(
            r"the product \{5, 2\}, of run-time size, has no valid row: such a tile reads as an "
            r"empty one"
        ),
    ):
        evaluated(c)
    c = Case()
    k = c.g.dynamic("K")
    other = c.g.dynamic("L")
    Sink(
        Map(
            c.source("a", (1,), [c.tile(4, 3)], tile=(4, k)),
            c.source("b", (1,), [c.tile(4, 4)], tile=(other, 4)),
            fn=matmul(),
        )
    )
    with pytest.raises(RunError, match="matmul: A has 3 columns, B has 4 rows"):
        evaluated(c)


def evaluated(c):
    """The NumPy meaning alone."""
    return expected(c.g, {}, CONFIG.machine.t, c.given)


def test_reads_and_copies_by_reference():
    c = Case()
    r = c.source("r", (2, ragged(c, "D")), [[1, 2, 3], [4]], scalar=32)
    Sink(Expand(c.tiles("big", (2, 1), (6, 6), 1, 1), ref=r))
    Sink(Expand(c.tiles("small", (2, 1), (3, 3), 1, 1), ref=r))
    Sink(Expand(c.source("s", (2, 1), [[[0]], [[1]]], selector=2), ref=r))
    b = Bufferize(c.tiles("y", (2, ragged(c, "E")), (6, 3), 3, 1), rank=1)
    Sink(Streamify(b, ref=r))
    Sink(Streamify(b))
    c.run()


def test_affine_reads_running_sums_and_padding():
    c = Case()
    x = c.tiles("x", (2, 3), (8, 6), 3, 3)
    b = Bufferize(x, rank=1)
    Sink(Streamify(b, shape=(2, 2), stride=(1, 1)))
    Sink(Streamify(b, shape=(3,), stride=(0,), repeat=2))
    Sink(Scan(x, fn=add(), rank=1))
    Sink(Scan(c.tiles("m", (2, ragged(c, "E")), (6, 3), 3, 1), fn=maximum(), rank=1))
    padded, flags = Reshape(c.tiles("p", (5,), (1, 6)), dim=0, chunk=2, pad=0)
    Sink(Accum(padded, fn=retile_row(), rank=1))
    Sink(padded, name="padded")
    Sink(flags)
    c.run()


def test_a_buffer_read_as_a_matrix_in_other_tiles():
    c = Case()
    t = CONFIG.machine.t
    x = c.tiles("x", (2, 4), (2 * t, t), 4, 4)
    b = Bufferize(x, rank=1)
    stored = [(0, 0), (0, t), (2 * t, t), (2 * t, 0)]
    other = {"stored": stored, "tile": (t, 2 * t)}
    Sink(Streamify(b, **other, places=[(3 * t, 0), (t, 0), (t, 0)]))
    Sink(Streamify(b, **other, places=[(t * i, 0) for i in range(4)], repeat=2))
    c.run()


def test_operands_of_one_row_or_column():
    c = Case()
    x = c.tiles("x", (2,), (6, 10))
    cols = c.tiles("c", (2,), (6, 1))
    rows = c.tiles("r", (2,), (1, 10))
    one = c.tiles("o", (2,), (1, 1))
    for second, fn in ((cols, mul), (rows, sub), (one, div), (Map(x, fn=row_max()), sub)):
        Sink(Map(x, second, fn=fn()))
    n = Accum(c.tiles("d", (2, ragged(c, "K")), (1, 10), 6, 3), fn=retile_row(), rank=1)
    for second in (rows, one, Map(n, fn=row_sum())):
        Sink(Map(n, second, fn=mul()))
    c.run()


def widths(c, name, rows, sizes):
    """Tiles of ``rows`` (or of as many as ``sizes`` say) and of
    run-time width; ``sizes``: [rows, columns] of each, in nested lists
    for groups.
    """
    ranked = isinstance(sizes[0][0], list)
    tile = (
        rows or c.g.dynamic(f"{name}_rows", ragged=True, most=9),
        c.g.dynamic(f"{name}_cols", ragged=True, most=17),
    )
    return c.source(
        name,
        (len(sizes), ragged(c, f"{name}_group")) if ranked else (len(sizes),),
        [[c.tile(*v) for v in group] for group in sizes] if ranked else [c.tile(*v) for v in sizes],
        tile=tile,
    )


@pytest.mark.parametrize(
    "rows, sizes",
    [
        (1, [[1, 5], [1, 0], [1, 17]]),
        (4, [[4, 5], [4, 0], [4, 1], [4, 17], [4, 4]]),
        (4, [[[4, 5], [4, 0]], [[4, 0], [4, 3]], [[4, 0]], []]),
        (6, [[6, 5], [6, 17], [6, 1]]),
        (None, [[1, 5], [9, 17], [0, 0], [4, 1], [9, 0], [6, 4]]),
        (None, [[[5, 3]], [[0, 0], [9, 17]], [[3, 0], [2, 2], [8, 4], [5, 0]]]),
    ],
)
def test_a_softmax_over_columns_of_run_time_number(rows, sizes):
    c = Case()
    x = widths(c, "x", rows, sizes)
    e = Map(Map(x, Map(x, fn=row_max()), fn=sub()), fn=exp())
    out = Map(e, Map(e, fn=row_sum()), fn=div())
    Sink(out, name="out")
    assert lower(c.g, CONFIG, timing="stepsim").units
    c.run()
    _, ev = expected(c.g, {}, 4, c.given)
    tiles = [
        (want, got)
        for (want, _), (got, _) in zip(ev.streams["x", 0], ev.sinks["out"], strict=True)
        if want is not None and want.size
    ]
    assert tiles
    for x, got in tiles:
        power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        assert np.allclose(got, power / power.sum(1, keepdims=True), rtol=1e-5)


def test_sums_of_rows_without_a_column():
    c = Case()
    few, many = (
        widths(c, name, rows, [[rows, n] for n in (5, 0, 13, 0)])
        for name, rows in (("few", 3), ("many", 9))
    )
    for x in (few, many):
        for fn in (row_sum(), row_max()):
            Sink(Map(x, fn=fn), name=f"{x.name}_{fn.name}")
    Sink(
        Map(
            widths(c, "groups", 9, [[[9, 5], [9, 0]], [[9, 0]], [[9, 13], [9, 0], [9, 2]]]),
            fn=row_max(),
        )
    )
    c.run()
    _, ev = expected(c.g, {}, 4, c.given)
    assert all(
        (ev.sinks[f"{x.name}_{fn}"][1][0] == value).all()
        for x in (few, many)
        for fn, value in (("row_sum", 0), ("row_max", -np.inf))
    )


def test_operands_spread_over_columns_of_run_time_number():
    c = Case()
    for name, rows, sizes in (
        ("few", 3, [[3, 5], [3, 0], [3, 17]]),
        ("many", 9, [[9, 5], [9, 0], [9, 17]]),
        ("any", None, [[9, 5], [3, 0], [5, 17], [0, 3]]),
    ):
        x = widths(c, name, rows, sizes)
        n = len(sizes)
        row = c.source(
            f"{name}_row", (n,), [c.tile(1, k) for _, k in sizes], tile=(1, x.stream.element.cols)
        )
        one = c.tiles(f"{name}_one", (n,), (1, 1))
        for second in (row, one):
            Sink(Map(x, second, fn=mul()))
    full = [[9, 5], [9, 17]]
    Sink(Map(widths(c, "full", 9, full), c.tiles("column", (2,), (9, 1)), fn=sub()))
    c.run()


@pytest.mark.parametrize("rows", [3, 9])
def test_rows_of_run_time_width_are_appended_and_cut(rows):
    c = Case()
    sizes = [[rows - 1, 5], [0, 3], [2, 17], [rows - 2, 1]]
    x = widths(c, "x", rows, sizes)
    row = c.source("row", (4,), [c.tile(1, n) for _, n in sizes], tile=(1, x.stream.element.cols))
    longer = Map(x, row, fn=row_append())
    Sink(longer)
    Sink(Map(longer, c.source("n", (4,), [1, 0, 3, rows], scalar=8), fn=row_offset()))
    many = widths(c, "groups", rows, [[[0, 3], [0, 7]], [[0, 2]], []])
    Sink(Map(many, c.source("m", many.stream.shape, [[2, 0], [1], []], scalar=8), fn=row_offset()))
    thin = widths(c, "thin", rows, [[1, 3], [0, 0], [rows - 1, 2]])
    Sink(
        Map(
            thin,
            c.source(
                "under", (3,), [c.tile(1, n) for n in (3, 0, 2)], tile=(1, thin.stream.element.cols)
            ),
            fn=row_append(),
        )
    )
    c.run()


def test_an_empty_tile_is_not_cut():
    c = Case()
    Sink(
        Map(
            widths(c, "x", 3, [[3, 2], [0, 0]]),
            c.source("n", (2,), [1, 1], scalar=8),
            fn=row_offset(),
        )
    )
    with pytest.raises(
        RunError, match="cuts an empty tile, which has no beat for its count to meet"
    ):
        expected(c.g, {}, 4, c.given)


def test_a_column_of_several_bands_over_an_empty_tile_is_an_error():
    c = Case()
    Sink(Map(widths(c, "x", 9, [[9, 5], [9, 0]]), c.tiles("column", (2,), (9, 1)), fn=sub()))
    with pytest.raises(RunError, match="sub spreads a column of 9 rows over an empty tile"):
        expected(c.g, {}, 4, c.given)
    with pytest.raises(RunError, match=r"unit Map\.second_cols .* its inputs differ in stop level"):
        c.run()


def test_a_feedback_loop():
    c = Case()
    to, close = deal(c.g, 7, 3)
    c.given |= turns(7, 3)
    route = Partition(c.tiles("x", (7,), (4, 4)), to, rank=0, outputs=3)
    close([route[0], Map(route[1], fn=exp()), route[2]])
    c.run()


def test_retiling_by_rows_and_columns():
    c = Case()
    wide = Accum(c.tiles("x", (2, 3), (4, 8), 3, 3), fn=retile_col(), rank=1)
    Sink(wide)
    Sink(FlatMap(wide, fn=retile_streamify("cols", 8)))
    Sink(FlatMap(c.tiles("y", (2,), (8, 4)), fn=retile_streamify("rows", 4), rank=1))
    Sink(Accum(c.tiles("z", (2, 3), (10, 8), 3, 3), fn=retile_col(), rank=1))
    c.run()


def partly(c, name, size, valid, shape=None):
    """Tiles of ``size`` with valid parts of their own."""
    return c.source(name, shape or (len(valid),), [c.tile(*v) for v in valid], tile=size)


def test_tiles_cut_to_rows_and_columns_of_any_size():
    c = Case()
    low = partly(c, "low", (3, 10), [(3, 10), (2, 5), (0, 10), (1, 0), (3, 9)])
    high = partly(c, "high", (10, 6), [(10, 6), (3, 5), (9, 1), (0, 6), (5, 4)])
    tall = Accum(
        c.tiles("t", (4, ragged(c, "K")), (1, 3), 9, 2, 0, 4), fn=retile_row(), rank=1
    )  # of run-time height, one physical tile wide
    wide = Accum(
        c.tiles("w", (4, ragged(c, "J")), (3, 4), 3, 1, 0, 2), fn=retile_col(), rank=1
    )  # of run-time width, one physical tile high
    for x in (low, high, tall, wide):
        Sink(FlatMap(x, fn=retile_streamify("cols", 1, mask=True), rank=1))
    for x in (low, high):
        Sink(FlatMap(x, fn=retile_streamify("cols")))
        Sink(FlatMap(x, fn=retile_streamify("rows", 1), rank=1))
    for x, size in ((high, 2), (high, 3), (low, 5)):
        Sink(FlatMap(x, fn=retile_streamify("cols", size), rank=1))
        Sink(FlatMap(x, fn=retile_streamify("cols", size, mask=True), rank=1))
    for size in (2, 5):
        Sink(FlatMap(high, fn=retile_streamify("rows", size), rank=1))
        Sink(FlatMap(high, fn=retile_streamify("rows", size, mask=True), rank=1))
    Sink(FlatMap(c.tiles("v", (2,), (10, 16)), fn=retile_streamify("cols", 8), rank=1))
    c.run()


def test_tiles_of_any_width_side_by_side():
    c = Case()
    for k, (width, groups) in enumerate(((3, (2, 4, 1)), (5, (3, 3, 3)), (6, (2, 0, 3)))):
        x = c.tiles(
            f"x{k}", (3, ragged(c, f"D{k}") if len(set(groups)) > 1 else 3), (4, width), *groups
        )
        Sink(Accum(x, fn=retile_col(), rank=1))
        Sink(Map(x, fn=row_sum()))
    valid = [[c.tile(3, int(n)) for n in c.rng.integers(0, 6, 3)] for _ in range(4)]
    Sink(Accum(c.source("v", (4, 3), valid, tile=(3, 5)), fn=retile_col(), rank=1))
    Sink(
        Accum(
            Accum(
                c.source(
                    "w",
                    (1, 2, 2, ragged(c, "W")),
                    [[[[c.tile(2, 3) for _ in range(n)] for n in row] for row in ((1, 3), (2, 1))]],
                    tile=(2, 3),
                ),
                fn=retile_col(),
                rank=2,
            ),
            fn=retile_col(),
            rank=1,
        )
    )
    c.run()


def test_a_list_of_repeats_with_empty_buffers():
    c = Case()
    held = Bufferize(
        c.source(
            "x",
            (2, 3, ragged(c, "D")),
            [[[c.tile(4, 6) for _ in range(n)] for n in row] for row in ((0, 2, 0), (1, 0, 0))],
            tile=(4, 6),
        ),
        rank=1,
    )
    for repeat in ((1, 2, 1), (2, 1, 1), (1, 1, 3)):
        Sink(Streamify(held, repeat=repeat))
    c.run()


@pytest.mark.parametrize("what", ["rows", "columns", "products"])
def test_tiles_of_a_group_that_differ_in_size_are_a_fault(what):
    c = Case()
    if what == "columns":
        x = Accum(
            c.source(
                "x",
                (1, 2, ragged(c, "J")),
                [[[c.tile(3, 4) for _ in range(n)] for n in (2, 1)]],
                tile=(3, 4),
            ),
            fn=retile_col(),
            rank=1,
        )
    else:
        x = Accum(
            c.source(
                "x",
                (1, 2, ragged(c, "K")),
                [[[c.tile(1, 4) for _ in range(n)] for n in (9, 3)]],
                tile=(1, 4),
            ),
            fn=retile_row(),
            rank=1,
        )
    if what == "products":
        Sink(Accum(x, c.tiles("w", (1, 2), (4, 6), 2), fn=matmul(), rank=1))
    else:
        Sink(Accum(x, fn=add(), rank=1))
    units = lower(c.g, CONFIG)
    with pytest.raises(
        RunError,
        match=(
            r"unit Accum.*tiles that it reduces differ in their number of physical tiles, or .*, "
            r"in cycle \d+"
        ),
    ):
        model.run(units, CONFIG, sources=source_beats(c.g, units, c.given))


def test_routing_stores_and_sinks():
    c = Case()
    x = c.g.input("x", (10, 8))
    y = c.g.output("y", (10, 8))
    chosen = c.source(
        "chosen",
        (10,),
        [sorted({int(i) for i in c.rng.integers(0, 3, c.rng.integers(0, 3))}) for _ in range(10)],
        selector=3,
    )
    route = Partition(
        Flatten(LinearOffChipLoad(x, tile=(1, 8)), lo=0, hi=2), chosen, rank=0, outputs=3
    )
    parts = [Map(route[i], fn=scale(float(i + 1))) for i in range(3)]
    total = Accum(Reassemble(parts, chosen, rank=0), fn=add(), rank=1)
    LinearOffChipStore(total, y)
    for s in EagerMerge([Map(p, fn=row_sum()) for p in parts]):
        Sink(s)
    Sink(Accum(Reshape(total, dim=0, chunk=4, pad=0)[0], fn=retile_row(), rank=1))
    for s in (
        *Reshape(chosen, dim=0, chunk=4, pad=0),
        *Reshape(
            c.source("m", (2, ragged(c, "M")), [[1, 2, 3, 4], []], scalar=8), dim=0, chunk=3, pad=0
        ),
    ):
        Sink(s)
    a = c.source("a", (3,), [1, 2, 3], scalar=32)
    n = c.source("n", (3,), [2, 1, 4], scalar=32)
    for s in (
        FlatMap(a, n, fn=address_range(10), rank=1),
        FlatMap(n, fn=last_tile_filter(), rank=1),
        Map(a, n, fn=address(4)),
    ):
        Sink(s)
    c.run()


def refused(make) -> str:
    c = Case()
    Sink(make(c))
    with pytest.raises(LoweringError) as e:
        lower(c.g, CONFIG)
    return str(e.value)


def test_what_the_machine_cannot_do_is_refused():
    assert "takes 576 tiles of 4 x 4, a scratchpad holds 16 pages x 8 frames = 128" in refused(
        lambda c: Streamify(
            Bufferize(Source(graph=c.g, shape=(2, c.g.dynamic("N", most=9)), tile=(32, 32)), rank=1)
        )
    )
    assert (
        "its result takes 150 tiles of 4 x 4 of partial sums, an accumulator holds 64"
        in refused(
            lambda c: Accum(
                Expand(
                    Accum(
                        Source(graph=c.g, shape=(2, c.g.dynamic("N", most=100)), tile=(1, 4)),
                        fn=retile_row(),
                        rank=1,
                    ),
                    count=2,
                ),
                Source(graph=c.g, shape=(2, 2), tile=(4, 24)),
                fn=matmul(),
                rank=1,
            )
        )
    )
    assert "have full columns (a multiple of 4) side by side" in refused(
        lambda c: Accum(Source(graph=c.g, shape=(2, 3), tile=(8, 6)), fn=retile_col(), rank=1)
    )
    assert (
        "tiles of several bands (more than 4 rows) stand side by side in groups of static size"
        in refused(
            lambda c: Accum(
                Source(graph=c.g, shape=(2, c.g.dynamic("N")), tile=(8, 4)), fn=retile_col(), rank=1
            )
        )
    )
    assert "a row of 80 tiles tile {8, 4} fp32 takes 160 tiles of 4 x 4" in refused(
        lambda c: Accum(Source(graph=c.g, shape=(2, 80), tile=(8, 4)), fn=retile_col(), rank=1)
    )
    assert "references to buffers are counted on streams of their own" in refused(
        lambda c: Zip(
            Source(graph=c.g, shape=(2,), scalar=8),
            Bufferize(Source(graph=c.g, shape=(2, 3), tile=(4, 4)), rank=1),
        )
    )
    assert "this machine cuts rows of tiles of static width; columns of static tiles" in refused(
        lambda c: FlatMap(
            Source(graph=c.g, shape=(2,), tile=(c.g.dynamic("N"), 6)),
            fn=retile_streamify("cols", 3, mask=True),
        )
    )
    assert (
        "a tile of run-time size is cut by columns where it is one physical tile high or wide"
        in refused(
            lambda c: FlatMap(
                Accum(
                    Source(graph=c.g, shape=(2, 3), tile=(c.g.dynamic("N"), 8)), fn=add(), rank=1
                ),
                fn=retile_streamify("cols", mask=True),
            )
        )
    )
    assert "a band takes 65 tiles of 4 x 4, a row packer holds 64" in refused(
        lambda c: FlatMap(
            Source(graph=c.g, shape=(2,), tile=(4, 260)), fn=retile_streamify("rows", 2)
        )
    )
    assert (
        "operand B {60, N} takes 150 tiles of 4 x 4, a scratchpad holds 16 pages x 8 frames = 128"
        in refused(
            lambda c: Map(
                Source(graph=c.g, shape=(2,), tile=(4, 60)),
                Source(graph=c.g, shape=(2,), tile=(60, c.g.dynamic("N", most=40))),
                fn=matmul(),
            )
        )
    )


@pytest.mark.parametrize(
    "shape, stride, started",
    [
        ((16,), (1,), True),
        ((2, 8, 2), (0, 2, 1), True),
        ((2, 16), (0, 1), False),
        ((6,), (1,), False),
        ((2, 3, 2), (1, 4, 3), False),
    ],
)
def test_a_walk_goes_on_in_the_next_row_of_tiles(shape, stride, started):
    c = Case()
    ref = {"ref": c.source("r", (2, ragged(c, "N")), [[1, 1], [0]], selector=2)} if started else {}
    Sink(
        LinearOffChipLoad(c.g.input("w", (14, 15)), tile=(4, 4), shape=shape, stride=stride, **ref)
    )
    c.run()


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    "along, size, tile",
    [("rows", 4, (6, 8)), ("rows", 20, (13, 9)), ("cols", 3, (6, 8)), ("cols", 5, (13, 9))],
)
def test_tiles_are_cut_by_sizes_that_do_not_divide_them(along, size, tile, rank):
    c = Case()
    valid = [tile, (tile[0] - 3, tile[1]), (tile[0], tile[1] - 5), (0, tile[1]), (1, 1)]
    Sink(
        FlatMap(
            c.source("x", (5,), [c.tile(*v) for v in valid], tile=tile),
            fn=retile_streamify(along, size, mask=True),
            rank=rank,
        )
    )
    c.run()


@pytest.mark.parametrize("level", [0, 1, 2, None])
def test_a_new_dimension_around_an_empty_one_is_empty(level):
    c = Case()
    x = c.source(
        "x",
        (3, 2, ragged(c, "D")),
        [[[c.tile(6, 4) for _ in range(n)] for n in part] for part in ((2, 0), (0, 1), (0, 0))],
        tile=(6, 4),
    )
    new = Promote(x, level=level)
    assert new.stream.shape[-1 - (3 if level is None else level)].value == (
        None if level in (1,) else 1
    )
    Sink(new)
    c.run()


def test_pairs_of_pairs():
    c = Case()
    a, b, d = (
        c.source(n, (2, ragged(c, n.upper())), [[1, 2], [3]], scalar=k)
        for n, k in (("a", 8), ("b", 3), ("d", 32))
    )
    Sink(
        Zip(
            Zip(a, b), Zip(d, c.source("s", (2, ragged(c, "S")), [[[0, 1], []], [[2]]], selector=3))
        )
    )
    c.run()


def test_the_symbolic_figure_holds_the_largest_buffers():
    """Two of 32 tiles one after the other, and small ones: the
    requirement is that of the large ones, which fill whole pages.
    """
    c = Case()
    Sink(
        Streamify(
            Bufferize(c.tiles("x", (8, ragged(c, "D")), (4, 4), 32, 32, *[8] * 6), rank=1), repeat=2
        )
    )
    (r,) = penstock.run(
        Program("case", {}, c.g, None, None, lambda seed: c.given), CONFIG, onchip_rule="paper"
    )
    assert r.onchip_peak_bytes == 2 * 32 * 64 and r.onchip_bytes == r.onchip_peak_bytes + 64


def test_traffic_and_flop_are_counted_where_two_sizes_are_ragged():
    """Buffers of 1, 2 and 5 tiles, read 4 times, once and twice: 16
    tiles, not 3 x 8/3 x 7/3.
    """
    c = Case()
    held = Bufferize(c.tiles("x", (3, ragged(c, "D")), (4, 4), 1, 2, 5), rank=1)
    again = Streamify(
        held, ref=c.source("times", (3, ragged(c, "R")), [[0] * 4, [0], [0, 0]], scalar=8)
    )
    Sink(Accum(again, fn=add(), rank=2))
    w = LinearOffChipLoad(c.g.input("w", (4, 16)), tile=(4, 16), shape=(1,), stride=(1,), ref=again)
    Sink(Accum(w, fn=all_read(), rank=3))
    (r,) = c.run()
    assert (r.flops, r.offchip_bytes, r.dram_bytes) == (16 * 16, 16 * 4 * 64, 16 * 4 * 64)


@pytest.mark.parametrize("by", ["reference", "address"])
def test_a_read_after_the_acknowledgement_sees_what_was_stored(by):
    c = Case()
    y = c.g.output("y", (16, 8), "fp32")
    stored = RandomOffChipStore(
        c.source("at", (2, 4), [[3, 0, 2, 0], [1, 3, 6, 5]], scalar=8),
        c.tiles("x", (8,), (4, 4)),
        y,
    )
    whole = Accum(
        Flatten(Promote(stored), lo=0, hi=1), fn=all_read(), rank=1
    )  # one token when all are stored
    if by == "reference":
        Sink(LinearOffChipLoad(y, tile=(4, 4), ref=whole))
    else:
        places = FlatMap(
            Map(whole, c.source("zero", (1,), [0], scalar=8), fn=address(0)),
            c.source("n", (1,), [8], scalar=8),
            fn=address_range(8),
        )
        Sink(RandomOffChipLoad(places, y, tile=(4, 4)))
    c.run()


def test_tiles_off_chip_that_are_read_changed_and_written_in_a_loop():
    """A sum for each address: the next address waits for the
    acknowledgement of the one before.
    """
    c = Case()
    n = 6
    y = c.g.output("y", (8, 4), "fp32")
    acks = Loop(StreamType(ScalarType(1), (c.g.dynamic("A"),)), graph=c.g, name="acks")
    turn = c.source("turn", (n,), [0] + [1] * (n - 1), selector=2)
    gate = Flatten(
        Reassemble(c.source("first", (1,), [1], scalar=1), acks, turn, rank=0), lo=0, hi=1
    ).stream.assert_shape([n])
    at = Map(gate, c.source("at", (n,), [0, 1, 1, 0, 1, 1], scalar=8), fn=address(0))
    tiles = Map(RandomOffChipLoad(at, y, tile=(4, 4)), c.tiles("x", (n,), (4, 4)), fn=add())
    stored = Partition(
        RandomOffChipStore(Fifo(at, depth=2), tiles, y),
        c.source("keep", (n,), [0] * (n - 1) + [1], selector=2),
        rank=0,
        outputs=2,
    )
    acks.close(stored[0])
    Sink(stored[1])
    c.run()


@pytest.mark.parametrize(
    "name,params",
    [
        ("simple_moe", {}),
        ("moe", dict(tile_rows=16)),
        ("moe", dict(tile_rows=0)),
        ("moe", dict(tile_rows=16, regions=4)),
        ("moe", dict(tile_rows=0, regions=2)),
        ("attention", dict(parallel="coarse", most=8)),
        ("attention", dict(parallel="interleaved", most=8)),
        ("attention", dict(parallel="dynamic", most=8)),
        ("attention", dict(parallel="dynamic", most=8, softmax="stable")),
    ],
)
def test_workloads(name, params):
    (r,) = penstock.run(name, SMALL, params, seed=2)
    assert r.values_ok and r.max_rel_err < 2e-2


@pytest.mark.parametrize(
    "name, params",
    [
        ("simple_moe", {}),
        ("swiglu", dict(batch=16, dim=16, inter=32, tile_b=8, tile_inter=16)),
        ("moe", dict(tile_rows=16)),
        ("moe", dict(tile_rows=0)),
        ("moe", dict(tile_rows=4)),
        ("moe", dict(tile_rows=16, regions=4)),
        ("attention", dict(parallel="dynamic", most=8)),
        ("attention", dict(parallel="dynamic", most=8, softmax="stable")),
        ("attention", dict(parallel="interleaved", most=8)),
        ("attention", dict(parallel="coarse", most=8)),
    ],
)
def test_pages_in_use_stay_within_the_symbolic_figure(name, params):
    """Two of each buffer, by the text's equations (rule `paper`).

    The RTL's peak is the model's (tb/check.py).
    """
    for seed in (1, 2):
        (r,) = penstock.run(name, SMALL, params, seed=seed, onchip_rule="paper")
        assert 0 < r.onchip_peak_bytes <= r.onchip_bytes
    (fast,) = penstock.run(name, SMALL, params, seed=seed, values=False)
    assert (fast.cycles, fast.onchip_peak_bytes) == (r.cycles, r.onchip_peak_bytes)


@pytest.mark.parametrize("t", [2, 4, 8])
@pytest.mark.parametrize("rows", [(7, 5), (5, 7), (8, 5), (6, 6)])
def test_operands_of_partial_tiles(t, rows):
    """A tile of a static size takes all its physical tiles, whatever
    part of it lies in the tensor; outside the second operand zeros
    count.
    """
    config = load("small_fpga")
    config = replace(config, machine=replace(config.machine, t=t, rows_per_cycle=t, lanes={}))
    g = Graph("partial")
    xs = [
        cast(LinearOffChipLoad(g.input(name, (n, 6), "bf16"), tile=(4, 6)), "fp32")
        for name, n in zip("ab", rows, strict=False)
    ]
    LinearOffChipStore(cast(Map(*xs, fn=sub()), "bf16"), g.output("y", (rows[0], 6), "bf16"))
    (record,) = penstock.run(g, config)
    assert record.values_ok


@pytest.mark.parametrize("first", [True, False])
def test_the_sum_of_a_bin_without_an_element(first):
    """It comes where every bin is given an element that adds nothing
    (docs/programs.md), and does not where none is.
    """
    c = Case()
    n = c.g.dynamic("N")
    values = [np.full((1, 4), k, np.float32) for k in (3, 4)]
    bins = [1, 1]
    if first:
        values = [np.zeros((1, 4), np.float32), *values]
        bins = [[0, 1, 2], *bins]
    value = c.source("value", (n,), values, tile=(1, 4))
    bin_ = c.source("bin", (n,), bins, selector=3)
    for i, part in enumerate(Partition(value, bin_, rank=0, outputs=3)):
        Sink(Accum(Promote(part), fn=add(), rank=1), name=f"sum{i}")
    sums = {
        name: [v for v, _ in got if v is not None]
        for name, got in expected(c.g, {}, SMALL.machine.t, c.given)[1].sinks.items()
    }
    assert [len(sums[f"sum{i}"]) for i in range(3)] == ([1, 1, 1] if first else [0, 1, 0])
    assert np.array_equal(sums["sum1"][0], np.full((1, 4), 7)) and not (
        first and sums["sum0"][0].any()
    )
    (record,) = penstock.run(Program("bins", {}, c.g, _streams=lambda seed: c.given), SMALL)
    assert record.values_ok
