"""Random programs and single-unit streams on the RTL, every beat against the model's; planted bugs are found."""

import functools

import pytest

from penstock.fuzz import session
from penstock.fuzz.streams import run_streams

from planted import BUGS, planted, seed_for

QUICK = ("dropped stop", "lost beat under stall")


@pytest.mark.xdist_group("fuzz_rtl")
def test_a_batch_of_programs_is_equal_in_every_beat():
    s = session.Session()
    session.run_programs(s, 12, 21, on="rtl", batch=4, variants=3)
    assert not s.failures, "\n".join(f"{f.origin}: {f.message}" for f in s.failures)
    assert s.counts["programs on RTL"] == s.counts["programs"] == 12 and s.counts["beats compared on RTL"] == s.counts["beats on the model"] > 0


@pytest.mark.xdist_group("fuzz_rtl")
@pytest.mark.parametrize("bug", [b if b in QUICK else pytest.param(b, marks=pytest.mark.deep) for b in BUGS])
def test_a_planted_bug_is_found(bug):
    s = session.Session()
    session.run_programs(s, 1, seed_for(bug), on="rtl", batch=1, only=[BUGS[bug][3]], wrong=functools.partial(planted, bug))
    assert [f.backend for f in s.failures] == ["rtl"]


@pytest.mark.deep
@pytest.mark.xdist_group("fuzz_rtl")
def test_streams_are_equal_in_every_beat():
    s = session.Session()
    run_streams(s, 1500, 2, on="rtl")
    assert not s.failures and s.counts["streams on RTL"] >= 1500, "\n".join(f"{f.origin}: {f.message}" for f in s.failures)
