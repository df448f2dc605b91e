"""The lower bound under readings that allow more, each against a schedule written by hand."""

import pytest
from penstock.scheduler.dag import Readings, evaluate
from penstock.scheduler.dag.bound import lower_bound
from penstock.testing.dag_cases import PW, problem, schedule

TILE = (16, 16, 1)
SIZE = 16 * 16


def two_readers():
    """Two operations that read one tensor: memory bounds the first, compute the second."""
    return problem(
        [([0], 1), ([0], 2)],
        [1, 1000],
        [PW, PW],
        [(16, 16)] * 3,
        capacity=1000,
        bandwidth=1,
        native=(16, 16),
    )


def test_bound_of_a_loaded_tensor_that_stays():
    """The second operation loads it while it computes, and leaves it for the first: free."""
    case = two_readers()
    readings = Readings.parse(["retainable=loaded-too"])
    order = schedule(([1], TILE, [0]), ([0], TILE))
    latency = evaluate(case, order, readings, check_latencies=False).latency
    assert latency == 1000 + SIZE
    assert lower_bound(case, readings) == pytest.approx(latency)


def test_bound_of_a_tensor_that_is_loaded_twice():
    """By default only what is produced stays, so the first operation loads it once more."""
    assert lower_bound(two_readers()) == pytest.approx(1000 + 2 * SIZE)
