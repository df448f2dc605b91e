"""The lower bound under readings that allow more, each against a schedule written by hand."""

import itertools

import dag_trial
import pytest
from penstock.scheduler.dag import Readings, ScheduleError, evaluate
from penstock.scheduler.dag.bound import lower_bound
from penstock.scheduler.dag.demand import make_plan
from penstock.scheduler.dag.generate import generate
from penstock.scheduler.dag.relaxed import least_latency
from penstock.scheduler.dag.solve.groups import fusible_neighbours
from penstock.scheduler.dag.solve.tiles import TileSearch
from penstock.testing.dag_cases import MM, PW, problem, schedule

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
    """The first operation loads the tensor once more: by default only what is produced stays."""
    assert lower_bound(two_readers()) == pytest.approx(1000 + 2 * SIZE)


def test_bound_of_a_tensor_that_two_operations_read():
    """The first of two steps loads it whole for the first one; the last step has it."""
    case = problem(
        [([0, 1], 2), ([2], 3), ([3, 4], 5), ([5, 0], 6)],
        [29, 2, 24, 4],
        [MM, PW, MM, PW],
        [(8, 8)] * 7,
        capacity=252,
        bandwidth=5,
        native=(8, 8),
    )
    both = schedule((range(4), (8, 8, 4)))
    latency = evaluate(case, both, check_latencies=False).latency
    assert latency == (29 + 2 + 12) + 3 * 32 / 5
    assert lower_bound(case) <= latency


def connected_sets(case, readings, most):
    """Connected sets of up to `most` operations, in topological order."""
    near = fusible_neighbours(case, readings)
    sets = {frozenset([op]) for op in range(len(case.ops))}
    for _ in range(most - 1):
        sets |= {
            members | {other}
            for members in sets
            for other in range(len(case.ops))
            if any(near[op] >> other & 1 for op in members)
        }
    return [tuple(sorted(members, key=case.rank.__getitem__)) for members in sets]


SETTINGS = ("matmul_cost=native-k", "pointwise_into_matmul=free", "consumed_outside=written")


@pytest.mark.parametrize("setting", ["", *SETTINGS])
@pytest.mark.parametrize("seed", [207, 211])
def test_the_least_cost_of_a_set_is_below_its_best_tiling(seed, setting):
    """Also with reductions of different depth in one set."""
    readings = Readings.parse([setting] if setting else [])
    kinds = ("random", "mlp", "attention", "residual")
    cases = [generate(kind, 6 + seed % 9, seed, scale=16) for kind in kinds]
    compared = 0
    for case in cases:
        tiles = TileSearch(case, readings)
        for ops in itertools.islice(connected_sets(case, readings, 4), 80):
            try:
                plan = make_plan(case, ops, readings)
            except ScheduleError:
                continue
            if (best := tiles.best(plan)) is not None:
                compared += 1
                least = least_latency(case, readings, plan, plan.outputs)
                assert least <= best.latency * (1 + 1e-9), ops
    assert compared > 50


@pytest.mark.parametrize(
    "number", [384, 1735, 1880], ids=["loads", "sizes above native", "two receivers"]
)
def test_problems_that_the_trial_found(number):
    """A bound above a schedule, and schedules that were not the best.

    Reductions in steps above the native depth; a tensor made twice, for two that receive it.
    """
    assert dag_trial.judge(number)["faults"] == []
