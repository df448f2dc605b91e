"""The statement's worked examples, to the last digit."""

import math

import pytest
from penstock.scheduler.dag import Problem, Readings, Schedule, ScheduleError, evaluate
from penstock.scheduler.dag.demand import make_plan
from penstock.scheduler.dag.meter import Meter
from penstock.testing.dag_cases import EXAMPLES, SQUARE, WORKED, schedule


@pytest.mark.parametrize("name", WORKED)
def test_worked_example_is_exact(name):
    number, plan, latencies = WORKED[name]
    result = evaluate(EXAMPLES[number], plan, check_latencies=False)
    assert [round(s.latency, 9) for s in result.subgraphs] == latencies
    assert math.isclose(result.latency, sum(latencies), rel_tol=1e-12)


def test_example_5a_is_out_of_memory_at_65536():
    with pytest.raises(
        ScheduleError,
        match="out of memory: the working set is 65,536 elements, the capacity 45,000",
    ):
        evaluate(EXAMPLES[5], schedule(([0, 1], (128, 128, 128))))


def test_example_5b_works_in_40960_elements_step_by_step():
    problem = EXAMPLES[5]
    meter = Meter(problem, make_plan(problem, (0, 1), Readings()), Readings(), (128, 128, 32))
    steps = list(meter.steps())
    assert [s.latency for s in steps] == pytest.approx([2457.6, 1000, 1000, 2457.6])
    assert max(s.working_set for s in steps) == 40_960


def test_example_4_steps_follow_the_text():
    problem = EXAMPLES[4]
    meter = Meter(problem, make_plan(problem, (0,), Readings()), Readings(), (64, 64, 128))
    assert [s.latency for s in meter.steps()] == pytest.approx([2048, 1500, 2048, 1500])
    assert [s.latency for s in meter.steps((0, 1, 3, 2))] == pytest.approx([2048, 1500, 1500, 1500])


def test_files_round_trip(tmp_path):
    number, plan, _ = WORKED["4B"]
    EXAMPLES[number].save(tmp_path / "p.json")
    plan.save(tmp_path / "s.json")
    assert Problem.load(tmp_path / "p.json") == EXAMPLES[number]
    assert Schedule.load(tmp_path / "s.json") == plan
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.json", "s.json"]


def test_native_k_divides_by_the_native_depth():
    """K = native in every example: both readings of a MatMul's cost agree there, and differ by K /
    native elsewhere.
    """
    from penstock.testing.dag_cases import MM, problem

    native = Readings.parse(["matmul_cost=native-k"])
    for name in ("4A", "5B"):
        number, plan, latencies = WORKED[name]
        assert evaluate(
            EXAMPLES[number], plan, native, check_latencies=False
        ).latency == pytest.approx(sum(latencies))
    deep = problem([([0, 1], 2)], [1000], [MM], [(512, 128), (128, 512), SQUARE], capacity=200_000)
    plan = schedule(([0], (128, 128, 128)))
    assert evaluate(deep, plan, check_latencies=False).subgraphs[0].compute == 1000
    assert evaluate(deep, plan, native, check_latencies=False).subgraphs[0].compute == 4000
