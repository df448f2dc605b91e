"""The evaluator against an element-by-element one, the compiled search against the evaluator, the
solver against brute force.
"""

import heapq
import itertools
import math
import random

import dag_checker
import pytest
from penstock.scheduler.dag import Op, OpType, Problem, Readings, ScheduleError, Tensor, evaluate
from penstock.scheduler.dag.demand import make_plan
from penstock.scheduler.dag.evaluate import check_granularity
from penstock.scheduler.dag.meter import Meter, tile_grid
from penstock.scheduler.dag.solve import solve
from penstock.scheduler.dag.solve.groups import Pool
from penstock.scheduler.dag.solve.tiles import TileSearch, snake_order, traversal
from penstock.testing import dag_cases as cases


def tiny(seed: int, ops: int, native: int = 4, sizes=(2, 3, 4, 5, 7, 8)) -> Problem:
    """A random problem small enough to list its elements."""
    chance = random.Random(seed)
    tensors = [Tensor(chance.choice(sizes), chance.choice(sizes)) for _ in range(2)]
    made: list[Op] = []
    for _ in range(ops):
        x = chance.randrange(max(0, len(tensors) - 3), len(tensors))
        equal = [t for t, s in enumerate(tensors) if s == tensors[x]]
        rights = [t for t, s in enumerate(tensors) if s.height == tensors[x].width]
        draw = chance.random()
        if draw < 0.5:
            inputs = (x, *([chance.choice(equal)] if draw < 0.25 else []))
            kind = OpType.POINTWISE
            shape = tensors[x]
        else:
            if draw < 0.75 or not rights:
                tensors.append(Tensor(chance.choice(sizes), tensors[x].width))
                rights = [len(tensors) - 1]
            right = chance.choice(rights)
            inputs = (x, right)
            kind = OpType.MATMUL
            shape = Tensor(tensors[right].width, tensors[x].height)
        tensors.append(shape)
        made.append(Op(kind, inputs, len(tensors) - 1, float(chance.randrange(1, 30))))
    return Problem(
        tuple(tensors),
        tuple(made),
        float(chance.choice((24, 40, 64, 100))),
        float(chance.choice((1, 2, 4))),
        (native, native),
    )


def walked(problem: Problem, ops, granularity, order, resident, retain):
    """(latency, working set) of one subgraph, tile by tile and step by step; None if a rule forbids
    it.
    """
    try:
        return dag_checker.Walk(problem, Readings(), ops, granularity, resident, retain).run(order)
    except dag_checker.IllegalError:
        return None


def connected_sets(problem: Problem):
    pool = Pool(problem, Readings(pointwise_into_matmul="free"), TileSearch(problem, Readings()))
    everything = (1 << len(problem.ops)) - 1
    return [m for m in range(1, everything + 1) if len(list(pool.components(m))) == 1], pool


def plans(problem: Problem):
    masks, pool = connected_sets(problem)
    for mask in masks:
        try:
            yield mask, make_plan(problem, pool.members(mask), Readings())
        except ScheduleError:
            pass


@pytest.mark.parametrize("seed", range(40))
def test_evaluator_agrees_with_the_element_oracle(seed):
    problem = tiny(seed, 2 + seed % 4)
    chance = random.Random(seed)
    compared = 0
    for _, plan in plans(problem):
        for _ in range(6):
            deepest = min(4, max(plan.depths, default=1))
            granularity = (chance.randint(1, 4), chance.randint(1, 4), chance.randint(1, deepest))
            produced = [problem.ops[o].output for o in plan.ops]
            retain = tuple(chance.sample(produced, chance.randint(0, min(2, len(produced)))))
            resident = tuple(
                t for t in plan.inputs if problem.producer[t] is not None and chance.random() < 0.5
            )
            columns, rows = tile_grid(plan, granularity)
            order = tuple(chance.sample(range(columns * rows), columns * rows))
            order = chance.choice((order, order, None))
            expected = walked(problem, plan.ops, granularity, order, resident, retain)
            try:
                check_granularity(problem, plan, granularity, Readings(), "here")
            except ScheduleError:
                assert expected is None
                continue
            cost = Meter(problem, plan, Readings(), granularity, resident, retain).measure(order)
            assert expected is not None
            assert (cost.latency, cost.working_set) == pytest.approx(expected, rel=1e-9)
            compared += 1
    assert compared


@pytest.mark.parametrize("seed", range(12))
def test_compiled_closed_form_equals_the_evaluator(seed):
    """At any granularity, along the best snake and in raster order where there is none."""
    problem = tiny(seed, 2 + seed % 4)
    search = TileSearch(problem, Readings())
    raster = TileSearch(problem, Readings(), longest_order=0)
    for _, plan in plans(problem):
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


@pytest.mark.parametrize("seed", range(12))
def test_pruned_search_finds_the_least_over_all_granularities(seed):
    problem = tiny(seed + 100, 2 + seed % 4, native=6, sizes=(3, 5, 6, 7, 9, 13))
    search = TileSearch(problem, Readings())
    for _, plan in plans(problem):
        everything = itertools.product(*(c.tolist() for c in search.candidates(plan)))
        costs = [t.latency for g in everything if (t := search.at(plan, g)) is not None]
        best = search.best(plan)
        assert (best.latency if best else None) == (
            pytest.approx(min(costs), rel=1e-9) if costs else None
        )


def orders(columns: int, rows: int):
    """All traversals of a small grid; raster and both plain snakes of a larger one."""
    if columns * rows <= 5:
        return list(itertools.permutations(range(columns * rows)))
    return [
        None,
        snake_order((0, 0, 0, columns - 1), columns, rows),
        snake_order((1, 0, 0, rows - 1), columns, rows),
    ]


def brute_force(problem: Problem):
    """Least latency over all sequences of connected subgraphs, granularities, retained sets and
    (small) traversals.
    """
    moves = []
    for mask, plan in plans(problem):
        produced = [t for t in plan.formed if problem.consumers[t]]
        received = [t for t in plan.inputs if problem.producer[t] is not None]
        for resident, retain in itertools.product(_subsets(received), _subsets(produced)):
            costs = []
            for g in itertools.product(
                *(
                    range(1, 1 + n)
                    for n in (
                        *problem.native,
                        min(problem.native_depth, max(plan.depths, default=1)),
                    )
                )
            ):
                try:
                    check_granularity(problem, plan, g, Readings(), "here")
                except ScheduleError:
                    continue
                meter = Meter(problem, plan, Readings(), g, resident, retain)
                if meter.step(0, 0, 0, {})[0].working_set > problem.capacity:
                    continue
                for order in orders(*tile_grid(plan, g)):
                    cost = meter.measure(order)
                    if cost.working_set <= problem.capacity:
                        costs.append(cost.latency)
            if costs:
                needs = frozenset(
                    t for t in plan.inputs if t not in resident and problem.producer[t] is not None
                )
                writes = frozenset(t for t in plan.outputs if t not in retain)
                moves.append(
                    (min(costs), mask, frozenset(resident), frozenset(retain), needs, writes)
                )
    goal = (1 << len(problem.ops)) - 1
    outputs = set(problem.graph_outputs)
    queue = [(0.0, 0, 0, frozenset(), frozenset())]
    seen: dict = {}
    for count in itertools.count(1):
        spent, _, covered, slow, kept = heapq.heappop(queue)
        if covered == goal and outputs <= slow:
            return spent
        if seen.get((covered, slow, kept), math.inf) <= spent:
            continue
        seen[covered, slow, kept] = spent
        for number, (cost, mask, resident, retain, needs, writes) in enumerate(moves):
            if resident == kept and needs <= slow:
                heapq.heappush(
                    queue,
                    (spent + cost, count * 10_000 + number, covered | mask, slow | writes, retain),
                )


def _subsets(tensors):
    return [s for n in range(len(tensors) + 1) for s in itertools.combinations(tensors, n)]


def check_optimal(seed: int, ops: int) -> None:
    problem = tiny(seed, ops, native=3, sizes=(2, 3, 4, 5))
    result = solve(problem, seconds=30)
    assert result.latency == pytest.approx(evaluate(problem, result.schedule).latency)
    best = brute_force(problem)
    assert result.latency == pytest.approx(best, rel=1e-9)
    assert result.bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_solver_is_optimal_on_small_problems(seed):
    check_optimal(seed, 2 + seed % 2)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(40))
def test_solver_is_optimal_on_more_small_problems(seed):
    check_optimal(1000 + seed, 3 + seed % 2)


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
