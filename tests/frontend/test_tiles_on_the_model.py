"""Tiles whose rows and columns are known at run time, cut, widened and retiled on the model: values
bit for bit, sinks beat for beat.
"""

import numpy as np
import penstock
import pytest
from on_the_model import CONFIG, SMALL, Case, partly, ragged, widths
from penstock import model
from penstock.frontend import (
    Accum,
    FlatMap,
    Map,
    Partition,
    Promote,
    Sink,
    add,
    div,
    exp,
    lower,
    matmul,
    mul,
    retile_col,
    retile_row,
    retile_streamify,
    row_append,
    row_max,
    row_offset,
    row_sum,
    sub,
)
from penstock.frontend.program import Program
from penstock.machine.errors import RunError
from penstock.runs.boundary import source_beats
from penstock.runs.expected import expected


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


@pytest.mark.parametrize(
    "rows, sizes",
    [
        (1, [[1, 5], [1, 0], [1, 17]]),
        (4, [[4, 5], [4, 0], [4, 1], [4, 17], [4, 4]]),
        (4, [[[4, 5], [4, 0]], [[4, 0], [4, 3]], [[4, 0], [4, 2]], []]),
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
            widths(c, "groups", 9, [[[9, 5], [9, 0]], [[9, 0], [9, 1]], [[9, 13], [9, 0], [9, 2]]]),
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


def test_retiling_by_rows_and_columns():
    c = Case()
    wide = Accum(c.tiles("x", (2, 3), (4, 8), 3, 3), fn=retile_col(), rank=1)
    Sink(wide)
    Sink(FlatMap(wide, fn=retile_streamify("cols", 8)))
    Sink(FlatMap(c.tiles("y", (2,), (8, 4)), fn=retile_streamify("rows", 4), rank=1))
    Sink(Accum(c.tiles("z", (2, 3), (10, 8), 3, 3), fn=retile_col(), rank=1))
    c.run()


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


@pytest.mark.parametrize("first", [True, False])
def test_the_sum_of_a_bin_without_an_element(first):
    """It comes where every bin is given an element that adds nothing (docs/programs.md), and does
    not where none is.
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
