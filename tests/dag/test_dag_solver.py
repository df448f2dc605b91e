"""The solver on generated and public problems: always valid, never behind the simple schedules,
anytime.
"""

import dataclasses
import threading
import time

import pytest
from inputs import PROBLEMS
from penstock.machine.errors import PenstockError
from penstock.scheduler.dag import Problem, Readings, evaluate
from penstock.scheduler.dag.anchors import anchor_of
from penstock.scheduler.dag.bound import lower_bound
from penstock.scheduler.dag.generate import KINDS, generate
from penstock.scheduler.dag.problem import Op, OpType, Tensor
from penstock.scheduler.dag.readings import DEFAULT
from penstock.scheduler.dag.solve import solve
from penstock.scheduler.dag.solve.baselines import (
    chain_fusion,
    one_op_per_subgraph,
    power_of_two_latency,
)
from penstock.testing.dag_cases import EXAMPLES, WORKED


def check(problem: Problem, seconds: float, readings: Readings = DEFAULT) -> None:
    result = solve(problem, seconds=seconds, readings=readings)
    latency = evaluate(problem, result.schedule, readings).latency
    assert latency == pytest.approx(result.latency)
    assert latency >= result.bound * (1 - 1e-9)
    times = [p.latency for p in result.history]
    assert times == sorted(times, reverse=True)
    simple = [one_op_per_subgraph(problem, readings), chain_fusion(problem, readings)]
    yardsticks = [evaluate(problem, s, readings).latency for s in simple] + [
        power_of_two_latency(problem, result.schedule, readings)
    ]
    assert latency <= min(yardsticks) * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_generated_problem(kind):
    check(generate(kind, 12, 2), 2.0)


def test_generators_are_seeded_and_round_trip():
    for kind in KINDS:
        problem = generate(kind, 25, 7)
        assert problem == generate(kind, 25, 7) != generate(kind, 25, 8)
        assert len(problem.ops) >= 25
        assert Problem.from_json(problem.to_json()) == problem


@pytest.mark.parametrize("number", EXAMPLES)
def test_worked_examples_are_not_beaten_by_the_statement(number):
    stated = min(sum(latencies) for n, _, latencies in WORKED.values() if n == number)
    result = solve(EXAMPLES[number], seconds=5)
    assert result.latency <= stated * (1 + 1e-9)
    assert lower_bound(EXAMPLES[number]) <= result.latency * (1 + 1e-9)


def chains_with_shared_weights(
    chains: int,
    length: int,
    rows: int,
    inner: int,
    last: int,
    capacity: float,
    transposed: bool,
    cost: float = 1.0,
) -> Problem:
    """Equal chains x @ A @ B .. @ own, summed up, with A, B .. common to all; transposed: own @ ..

    B @ A @ x.
    """
    tensors = [Tensor(inner, inner)] * length
    ops: list[Op] = []

    def tensor(width: int, height: int) -> int:
        tensors.append(Tensor(height, width) if transposed else Tensor(width, height))
        return len(tensors) - 1

    def multiply(left: int, right: int, width: int) -> int:
        ops.append(
            Op(
                OpType.MATMUL,
                (right, left) if transposed else (left, right),
                tensor(width, rows),
                cost,
            )
        )
        return ops[-1].output

    total = None
    for _ in range(chains):
        product = tensor(inner, rows)
        for weight in range(length):
            product = multiply(product, weight, inner)
        product = multiply(product, tensor(last, inner), last)
        if total is not None:
            ops.append(Op(OpType.POINTWISE, (total, product), tensor(last, rows), cost / 100))
            product = ops[-1].output
        total = product
    return Problem(tuple(tensors), tuple(ops), capacity, 1.0, (8, 8), "chains")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("capacity", [310, 900])
def test_bound_of_chains_that_share_weights(capacity, transposed):
    """Weights too large for fast memory are read for every chain, or for as many at a time as leave
    room; the solver may not beat that.
    """
    problem = chains_with_shared_weights(4, 2, 8, 32, 8, capacity, transposed)
    assert lower_bound(problem) <= solve(problem, seconds=3).latency * (1 + 1e-9)


def test_bound_counts_shared_weights_for_every_chain():
    one, three = (
        lower_bound(chains_with_shared_weights(chains, 2, 8, 32, 8, 310, False))
        for chains in (1, 3)
    )
    assert three > 2.5 * one


RETAINED_INSIDE = {
    "widths": [256, 128, 128, 256, 256, 64, 64, 256, 256],
    "heights": [128, 256, 128, 256, 128, 256, 128, 256, 128],
    "inputs": [[0, 1], [0, 3], [4, 5], [4, 7]],
    "outputs": [[2], [4], [6], [8]],
    "base_costs": [6000, 6000, 6000, 0],
    "op_types": ["MatMul"] * 4,
    "fast_memory_capacity": 81_561,
    "slow_memory_bandwidth": 5,
    "native_granularity": [64, 128],
}
"""Op 1's product is an operand of op 3 and may stay for op 2, where a product made in slices may
stay.
"""


@pytest.mark.parametrize("settings", [[], ["inner_retention=allowed"]])
def test_bound_of_a_product_that_stays_from_within_a_chain(settings):
    problem = Problem.from_json(RETAINED_INSIDE)
    readings = Readings.parse(settings)
    assert lower_bound(problem, readings) <= solve(
        problem, seconds=5, readings=readings
    ).latency * (1 + 1e-9)


def feed_forward(layers: int) -> Problem:
    """Blocks of two MatMuls with an activation between them, and the block's input added to its
    output; nothing fits.
    """
    tensors = [Tensor(32, 32)]
    ops = []
    x = 0

    def add(kind: OpType, inputs: tuple[int, ...], width: int) -> int:
        tensors.append(Tensor(width, 32))
        ops.append(Op(kind, inputs, len(tensors) - 1, 1.0))
        return len(tensors) - 1

    for _ in range(layers):
        tensors += [Tensor(128, 32), Tensor(32, 128)]
        up = len(tensors) - 2
        down = len(tensors) - 1
        hidden = add(OpType.POINTWISE, (add(OpType.MATMUL, (x, up), 128),), 128)
        x = add(OpType.POINTWISE, (add(OpType.MATMUL, (hidden, down), 32), x), 32)
    return Problem(tuple(tensors), tuple(ops), 400.0, 1.0, (8, 8), "feed-forward")


def test_bound_of_residual_blocks():
    """The block's input is read again for the sum: what made it ran long before."""
    problem = feed_forward(3)
    assert solve(problem, seconds=5).latency * 0.975 <= lower_bound(problem)


def test_first_schedule_comes_at_once_and_the_budget_holds():
    problem = generate("random", 150, 1)
    result = solve(problem, seconds=3)
    assert result.history[0].seconds < 0.5
    begin = time.monotonic()
    solve(problem, seconds=1.0)
    assert time.monotonic() - begin < 4.0


def test_equal_seeds_give_equal_schedules():
    problem = generate("mlp", 12, 3)
    assert (
        solve(problem, seconds=20, seed=5).schedule
        == solve(problem, seconds=20, seed=5, jobs=2).schedule
    )


def test_interruption_keeps_the_best(monkeypatch):
    """Ctrl-C after the first improvement: the schedule so far comes back, valid."""
    problem = generate("residual", 30, 2)
    seen = []

    def stop(progress, schedule):
        seen.append(progress.latency)
        if len(seen) == 2:
            raise KeyboardInterrupt

    result = solve(problem, seconds=30, on_progress=stop)
    assert result.interrupted
    assert result.latency == pytest.approx(seen[-1])
    assert evaluate(problem, result.schedule).latency == pytest.approx(result.latency)
    assert threading.active_count() < 10


def test_a_depth_that_fits_since_its_last_step_is_short_is_found():
    """k = 18 of 32 leaves 14 for the step that also holds what is added; k = 16 does not fit."""
    shapes = {"widths": [32, 256, 256, 256, 256], "heights": [64, 32, 64, 64, 64]}
    problem = Problem.from_json(
        {
            **shapes,
            "inputs": [[0, 1], [2, 3]],
            "outputs": [[2], [4]],
            "base_costs": [800, 1],
            "op_types": ["MatMul", "Pointwise"],
            "fast_memory_capacity": 10074,
            "slow_memory_bandwidth": 30,
            "native_granularity": [64, 64],
        },
        "epilogue",
    )
    assert solve(problem, seconds=20).latency == pytest.approx(3204)


def test_capacity_below_any_tile_is_refused():
    problem = dataclasses.replace(EXAMPLES[4], capacity=2)
    with pytest.raises(
        PenstockError, match="op 0: the smallest working set is 3 elements, the capacity 2"
    ):
        solve(problem, seconds=1)


def benchmark(number: int) -> Problem:
    """A public problem of the contest."""
    return Problem.load(PROBLEMS / f"mlsys-2026-{number}.json")


@pytest.mark.parametrize(
    ("number", "cost"),
    [
        (1, "full-k"),
        (9, "native-k"),
        *(
            pytest.param(number, cost, marks=pytest.mark.deep)
            for number, cost in [(1, "native-k"), (9, "full-k"), (17, "full-k"), (17, "native-k")]
        ),
    ],
)
def test_public_benchmark_reaches_the_best_known(number, cost):
    problem = benchmark(number)
    readings = Readings(matmul_cost=cost)
    anchor = anchor_of(problem, readings)
    result = solve(problem, seconds=20 if number == 17 else 8, readings=readings)
    assert result.latency <= anchor.best * (1 + 1e-6)
    assert evaluate(problem, result.schedule, readings).latency <= anchor.winner
    if cost == "full-k":
        assert result.bound == pytest.approx(result.latency)  # proven optimal


@pytest.mark.deep
@pytest.mark.parametrize("number", [5, 13])
@pytest.mark.parametrize("cost", ["full-k", "native-k"])
def test_larger_public_benchmark_reaches_the_best_known(number, cost):
    problem = benchmark(number)
    readings = Readings(matmul_cost=cost)
    result = solve(problem, seconds=60, readings=readings)
    assert result.latency <= anchor_of(problem, readings).best * (1 + 1e-6)
    assert result.gap < (0.001 if number == 13 else 0.3)


@pytest.mark.deep
def test_the_103_operations_of_19_are_scheduled_optimally():
    """Within half of its contest limit."""
    assert solve(benchmark(19), seconds=30).latency == pytest.approx(1_993_600)
