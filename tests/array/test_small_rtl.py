"""Programs of every kind on the RTL of `array_small`: one build, an image each."""

import pytest
from penstock.runs import array, array_rtl
from penstock.workloads.operators import PARTS

PROGRAMS = (
    ("swiglu", {}),
    ("simple_moe", {}),
    ("moe", {"tile_rows": 0}),
    ("attention", {}),
    *(("operators", {"part": part}) for part in PARTS),
)
pytestmark = [pytest.mark.deep, pytest.mark.xdist_group("rtl-array-small")]


def test_one_build_runs_the_programs():
    """RTL and model of the placed graph agree, else the run raises; values are NumPy's."""
    placed = [array.place(name, "array_small", params) for name, params in PROGRAMS]
    records = array_rtl.run(placed)
    assert [r.values_ok for r in records] == [True] * len(PROGRAMS)
    for r in records:
        assert r.channels_observed == r.channels_total
        assert r.mismatches == 0
        assert r.compared["beats"] > 100
