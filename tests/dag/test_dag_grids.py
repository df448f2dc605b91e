"""Large grids: costed in closed form, equal to the walk from tile to tile."""

import random
import time

import pytest
from penstock.scheduler.dag import Readings, evaluate
from penstock.scheduler.dag.demand import make_plan
from penstock.scheduler.dag.meter import Meter
from penstock.scheduler.dag.solve.baselines import one_op_per_subgraph
from penstock.testing.dag_cases import MM, PW, problem

LARGEST = 1 << 24


def masked(width: int, height: int):
    """A MatMul and two pointwise tails, one of whose outputs is smaller than the grid."""
    return problem(
        [([0, 1], 2), ([2], 3), ([2, 4], 5), ([1, 6], 7)],
        [40, 3, 5, 20],
        [MM, PW, PW, MM],
        [
            (30, height),
            (width, 30),
            (width, height),
            (width, height),
            (width, height),
            (width, height),
            (11, width),
            (11, 30),
        ],
        capacity=10_000,
        native=(8, 8),
    )


def walk(meter: Meter, order=None) -> tuple[float, float, float]:
    steps = list(meter.steps(order))
    return (
        sum(s.latency for s in steps),
        sum(s.loaded for s in steps),
        max(s.working_set for s in steps),
    )


@pytest.mark.parametrize(
    "setting",
    [[], ["reuse=union"], ["sharing=union"], ["sharing=once-per-tensor"], ["split_k_lhs=resident"]],
)
@pytest.mark.parametrize("ops", [(0, 1), (0, 1, 2), (3,)])
@pytest.mark.parametrize("granularity", [(7, 3, 4), (5, 8, 30)])
def test_a_measured_subgraph_equals_its_walk(setting, ops, granularity):
    readings = Readings.parse(setting)
    case = masked(29, 19)
    meter = Meter(case, make_plan(case, ops, readings), readings, granularity)
    tiles = range(meter.rows * meter.columns)
    for order in (None, tuple(random.Random(7).sample(tiles, len(tiles)))):
        cost = meter.measure(order)
        got = cost.latency, cost.loaded, cost.working_set
        assert got == pytest.approx(walk(meter, order), rel=1e-12)


def test_the_largest_grid_is_costed_at_once():
    case = problem(
        [([0, 1], 2), ([2], 3)], [1000, 10], [MM, PW], [(LARGEST, LARGEST)] * 4, capacity=100_000
    )
    begin = time.process_time()
    schedule = one_op_per_subgraph(case, Readings())
    cost = evaluate(case, schedule)
    assert time.process_time() - begin < 0.5
    assert cost.subgraphs[1].tiles == (LARGEST // 128) ** 2
    assert cost.subgraphs[1].latency == pytest.approx(2 * LARGEST**2 / 10, rel=1e-12)
