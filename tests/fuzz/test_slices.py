"""A campaign in slices finds the same wherever the slices run."""

from concurrent.futures import ThreadPoolExecutor

from penstock.fuzz import slices
from penstock.fuzz.campaign import Campaign


def test_slices_side_by_side_find_what_they_find_one_by_one(monkeypatch):
    monkeypatch.setattr(slices, "SLICE", 4)
    here = Campaign()
    slices.run_slices(here, 8, 1)
    there = Campaign()
    with ThreadPoolExecutor(1) as executor:
        slices.run_slices(there, 8, 1, executor=executor)
    assert here.counts == there.counts and here.counts["programs"] == 8
    assert here.coverage.hits == there.coverage.hits
