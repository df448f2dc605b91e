"""The page on the array: what its records hold is what it promises."""

from statistics import median

import array_report as report
import pytest

SECONDS = ((45, 0.5), (120, 10.0), (320, 60.0))
"""Units up to which a mapping takes at most so much CPU time."""


@pytest.mark.parametrize(("memory", "most"), [("pipe", 1.05), ("ideal", 1.10)])
def test_long_programs_take_hardly_longer_than_on_their_own_fabrics(memory, most):
    shares = report.judged()[memory]
    assert len(shares) >= 5
    assert median(shares) <= most


def test_feedback_loops_add_no_more_than_a_cycle_a_hop_and_round():
    assert report.looped()
    for case, row in report.looped():
        assert row["there"] - row["own"] <= row["loop_hops"] * row["rounds"], case


@pytest.mark.parametrize("case", report.mappings())
def test_a_mapping_is_fast_and_near_the_least(case):
    row = report.mappings()[case]
    assert row["longest"] <= 1.1
    assert row["cost"] <= 1.15 * row["longer_cost"]
    assert row["cpu_s"] <= next(s for n, s in SECONDS if row["units"] <= n)
