"""The page on the array: its records meet the aims that it states.

Runs that hold the same are in tests/array/test_quality.py.
"""

from statistics import median

import array_report as report
import fuzz_report
import pytest
from made import fuzz_array, tracks

SECONDS = ((45, 0.5), (120, 10.0), (320, 60.0))
"""Units up to which a mapping takes at most so much CPU time."""


@pytest.mark.parametrize(("memory", "most"), [("pipe", 1.05), ("ideal", 1.10)])
def test_long_programs_take_hardly_longer_than_on_their_own_fabrics(memory, most):
    shares = report.judged()[memory]
    assert len(shares) >= 5
    assert median(shares) <= most


@pytest.mark.parametrize("case", report.mappings())
def test_a_mapping_is_fast_and_near_the_least(case):
    row = report.mappings()[case]
    assert row["longest"] <= 1.1
    assert row["cost"] <= 1.15 * row["longer_cost"]
    assert row["cpu_s"] <= next(s for n, s in SECONDS if row["units"] <= n)


@pytest.mark.parametrize("plane", tracks.PLANES)
def test_a_track_more_loses_no_program(plane):
    for case, (_, of) in report.by_program().items():
        fits = ["lacks" not in of[plane, n] for n in tracks.TRACKS]
        assert fits == sorted(fits), case
        assert fits[3], case


@pytest.mark.skipif(bool(fuzz_array.RECORD.missing()), reason="the campaigns are not on record")
def test_campaigns_on_the_array_find_nothing_and_refuse_few():
    rows = fuzz_report.ran_on_array()
    ran, refused, refusals = (
        sum(row["counts"].get(what, 0) for row in rows)
        for what in ("programs on RTL", "refused", "refusals")
    )
    assert not [f for row in rows for f in row["failures"]]
    assert ran >= 2000
    assert refusals >= 500
    assert refused <= 0.05 * (ran + refused)
    reasons = fuzz_report.reasons()
    assert all(x.startswith(("has no slot for", "tracks of the")) for x in reasons), reasons
