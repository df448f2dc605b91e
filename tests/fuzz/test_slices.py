"""A campaign in slices finds the same wherever the slices run."""

from concurrent.futures import ThreadPoolExecutor

from penstock.fuzz import slices, streams
from penstock.fuzz.campaign import Campaign


def sides(run, count):
    """Findings of a campaign in this process, and on an executor."""
    found = Campaign(), Campaign()
    run(found[0], count, 1)
    with ThreadPoolExecutor(1) as executor:
        run(found[1], count, 1, executor=executor)
    return found


def test_slices_side_by_side_find_what_they_find_one_by_one(monkeypatch):
    monkeypatch.setattr(slices, "SLICE", 4)
    here, there = sides(slices.run_slices, 8)
    assert here.counts == there.counts and here.counts["programs"] == 8
    assert here.coverage.hits == there.coverage.hits


def test_slices_of_streams_are_the_streams_of_one_piece(monkeypatch):
    monkeypatch.setattr(slices, "STREAM_SLICE", 2)
    here, there = sides(slices.run_stream_slices, 2 * streams.streams_of_a_point() + 1)
    whole = Campaign()
    streams.run_streams(whole, here.counts["streams"], 1, on="model")
    assert here.counts == there.counts == whole.counts
    assert here.coverage.hits == there.coverage.hits == whole.coverage.hits
