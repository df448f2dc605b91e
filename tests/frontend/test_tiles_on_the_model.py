"""Tiles whose rows and columns are known at run time, cut, widened and retiled on the model: values
bit for bit, sinks beat for beat.
"""

import numpy as np
import penstock
import pytest
from on_the_model import CONFIG, SMALL, Case, widths
from penstock.frontend import *
from penstock.machine.errors import RunError
from penstock.runs.expected import expected


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


@pytest.mark.parametrize("first", [True, False])
def test_the_sum_of_a_bin_without_an_element(first):
    """The sum comes only if every bin is given an element that adds nothing (docs/programs.md)."""
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
