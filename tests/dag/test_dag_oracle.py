"""The compiled search against the evaluator, and against every granularity."""

import contextlib
import itertools
import random

import dag_trial
import pytest
from penstock.scheduler.dag import Problem, Readings, ScheduleError
from penstock.scheduler.dag.demand import make_plan
from penstock.scheduler.dag.meter import Meter, tile_grid
from penstock.scheduler.dag.solve.groups import Pool
from penstock.scheduler.dag.solve.tiles import TileSearch, traversal
from penstock.testing import dag_cases as cases


def tiny(seed: int, ops: int) -> Problem:
    return dag_trial.tiny(random.Random(seed), ops)


def plans(problem: Problem):
    """Plans of all connected sets of operations."""
    pool = Pool(problem, Readings(pointwise_into_matmul="free"), TileSearch(problem, Readings()))
    for mask in range(1, 1 << len(problem.ops)):
        if len(list(pool.components(mask))) == 1:
            with contextlib.suppress(ScheduleError):
                yield make_plan(problem, pool.members(mask), Readings())


@pytest.mark.parametrize("seed", range(4))
def test_compiled_closed_form_equals_the_evaluator(seed):
    """At any granularity, along the best snake and in raster order where there is none."""
    problem = tiny(seed, 2 + seed % 4)
    search = TileSearch(problem, Readings())
    raster = TileSearch(problem, Readings(), longest_order=0)
    for plan in plans(problem):
        widths, heights, depths = search.candidates(plan)
        for granularity in itertools.product(widths.tolist(), heights.tolist(), depths.tolist()):
            tiling = search.at(plan, granularity)
            meter = Meter(problem, plan, Readings(), granularity)
            if tiling is None:
                assert meter.measure().working_set > problem.capacity
                continue
            cost = meter.measure(traversal(tiling.route, *tile_grid(plan, granularity)))
            assert cost.working_set <= problem.capacity
            assert cost.latency == pytest.approx(tiling.latency, rel=1e-9)
            assert raster.at(plan, granularity).latency == pytest.approx(meter.measure().latency)


@pytest.mark.parametrize("seed", range(4))
def test_pruned_search_finds_the_least_over_all_granularities(seed):
    problem = tiny(seed + 100, 2 + seed % 4)
    search = TileSearch(problem, Readings())
    for plan in plans(problem):
        everything = itertools.product(*(c.tolist() for c in search.candidates(plan)))
        costs = [t.latency for g in everything if (t := search.at(plan, g)) is not None]
        best = search.best(plan)
        assert (best.latency if best else None) == (
            pytest.approx(min(costs), rel=1e-9) if costs else None
        )


@pytest.mark.parametrize("settings", [[], ["pointwise_into_matmul=free"]])
def test_compiled_closed_form_where_an_output_is_narrower_than_the_grid(settings):
    """Beyond the narrow output nothing of its operand is held, though one tile needs it whole."""
    readings = Readings.parse(settings)
    case = cases.problem(
        [([0], 1), ([1, 2], 3), ([1, 4], 5)],
        [1, 9, 15],
        [cases.PW, cases.MM, cases.MM],
        [(8, 16), (8, 16), (32, 8), (32, 16), (8, 8), (8, 16)],
        capacity=512,
        bandwidth=5,
        native=(8, 8),
    )
    plan = make_plan(case, (0, 1, 2), readings)
    tiling = TileSearch(case, readings).at(plan, (8, 8, 8))
    meter = Meter(case, plan, readings, (8, 8, 8))
    cost = meter.measure(traversal(tiling.route, *tile_grid(plan, (8, 8, 8))))
    assert tiling.latency == pytest.approx(cost.latency)
