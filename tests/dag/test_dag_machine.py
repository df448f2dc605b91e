"""Schedules as STeP programs: values, cycles beside predicted latency, RTL as the model."""

import json
from dataclasses import replace

import pytest
from penstock.cli import main
from penstock.machine.config import load
from penstock.machine.errors import ConfigError
from penstock.runs import dag_run
from penstock.runs.dag_ledger import TERMS
from penstock.scheduler.dag import Readings, Schedule, ScheduleError, Subgraph, evaluate
from penstock.scheduler.dag.generate import generate
from penstock.scheduler.dag.machine import at_rates_of, lower_schedule, shrink
from penstock.scheduler.dag.machine.lower import MOST_OPS
from penstock.scheduler.dag.solve import solve
from penstock.scheduler.dag.solve.baselines import one_op_per_subgraph
from penstock.testing.dag_cases import EXAMPLES, PW, WORKED, problem

DAG = load("dag")
TINY = load("dag_tiny")


def judged(run):
    """Values are right, the ledger adds up, and what is retained stays."""
    for p in run.programs:
        assert p.values_ok and p.max_rel_err < 1e-5
        assert p.left == []
        signed = ((-1 if title[0] == "-" else 1, name) for name, title in TERMS.items())
        total = p.predicted + sum(sign * getattr(p.ledger, name) for sign, name in signed)
        assert total == pytest.approx(p.cycles)
        assert min(p.ledger.overlap, p.ledger.fill, p.ledger.stalls, p.ledger.drain) >= -1e-6


@pytest.mark.parametrize("name", WORKED)
def test_worked_examples_run(name):
    number, schedule, _ = WORKED[name]
    (run,) = dag_run.run_schedule(EXAMPLES[number], schedule, DAG)
    judged(run)
    rated = at_rates_of(DAG, EXAMPLES[number])
    latency = evaluate(rated, schedule, check_latencies=False).latency
    assert run.total("predicted") == pytest.approx(latency)


def test_rates_are_the_machine_s():
    """A native tile of 128 x 128 is 64 physical ones: a product of each pair a cycle, 16 cycles for
    SiLU, one for a sum.
    """
    product = at_rates_of(DAG, EXAMPLES[4])
    assert [op.cost for op in product.ops] == [64 * 8]
    unary, _, binary = at_rates_of(DAG, EXAMPLES[3]).ops
    assert (unary.cost, binary.cost) == (64 * 16, 64)
    assert product.bandwidth == 64
    with pytest.raises(ConfigError, match="moves bf16"):
        at_rates_of(load("small_fpga"), EXAMPLES[4])


def test_the_machine_moves_what_the_schedule_says():
    """Tiles of 64 x 64 are whole lines: the elements moved are the evaluator's, raster and snake,
    retained or not.
    """
    for name in ("2B", "3A", "3B", "3C", "4A", "4B", "5B"):
        number, schedule, _ = WORKED[name]
        (run,) = dag_run.run_schedule(EXAMPLES[number], schedule, DAG, values=False)
        moved = [(p.elements, p.predicted_elements) for p in run.programs]
        assert [a for a, _ in moved] == [b for _, b in moved], name


def test_a_retained_tensor_is_a_buffer_of_the_fabric():
    number, schedule, _ = WORKED["3C"]
    (program,) = lower_schedule(EXAMPLES[number], schedule, DAG.machine.t)
    assert program.entries == (0, 1) and program.kept == (1,)
    assert not program.sources and not program.sinks
    assert set(program.graph.tensors) == {"t0", "t3"}  # not t1
    assert "retain_t1" in [node.name for node in program.graph.nodes]


def test_a_retained_tensor_that_the_fabric_cannot_hold_leaves():
    """Tiles of 24 x 24 have edges inside physical tiles of 16 x 16."""
    schedule = Schedule((Subgraph((0,), (24, 24, 1), (1,)), Subgraph((1, 2), (128, 128, 1))))
    (run,) = dag_run.run_schedule(EXAMPLES[3], schedule, DAG)
    assert [(p.kept, p.left) for p in run.programs] == [([], [1]), ([], [])]
    assert all(p.values_ok for p in run.programs)


@pytest.mark.parametrize(
    "kind, ops, seed", [("mlp", 8, 1), ("residual", 8, 0), ("attention", 8, 0)]
)
def test_generated_problems_run(kind, ops, seed):
    problem = at_rates_of(TINY, generate(kind, ops, seed, scale=4))
    (run,) = dag_run.run_schedule(problem, solve(problem, seconds=2).schedule, TINY)
    judged(run)


def test_command_line(tmp_path, capsys):
    given, chosen, record = (tmp_path / name for name in ("in.json", "out.json", "r.json"))
    EXAMPLES[3].save(given)
    _, schedule, latencies = WORKED["3B"]
    entries = zip(schedule.subgraphs, latencies, strict=True)
    Schedule(tuple(replace(s, latency=x) for s, x in entries)).save(chosen)

    def penstock(*words):
        status = main([str(word) for word in words])
        return status, "".join(capsys.readouterr())

    run = ("dag", "run", given, chosen, "--quiet")
    assert penstock(*run, "--json", record, "--out", tmp_path)[0] == 0
    (written,) = json.loads(record.read_text())
    assert written["workload"] == "dag:in" and written["values_ok"] is True
    status, text = penstock("explain", record)
    assert status == 0 and "predicted" in text
    assert penstock("diff", record, record)[0] == 0
    written = written["schedule"]
    assert written["ratio"] == pytest.approx(written["predicted"] / written["cycles"])
    assert [p["subgraphs"] for p in written["programs"]] == [[0, 1]]
    assert (tmp_path / "in_model.png").stat().st_size > 1000
    status, text = penstock(*run)
    assert status == 0 and "predicted / simulated" in text
    chosen.write_text(chosen.read_text().replace("3000.0", "2000.0"))
    status, text = penstock(*run)
    assert status == 1 and "the stated latency is" in text


def test_values_are_those_of_the_whole_graph():
    problem = at_rates_of(TINY, generate("moe", 6, 3, scale=4))
    (run,) = dag_run.run_schedule(problem, one_op_per_subgraph(problem, Readings()), TINY)
    judged(run)


def test_schedules_run_on_rtl():
    """Three operations in two subgraphs: RTL is the model beat for beat, and what is retained is
    not moved.
    """
    number, schedule, _ = WORKED["3B"]
    problem, schedule = shrink(EXAMPLES[number], schedule, 8)
    narrow = load("dag_tiny", {"lanes.default": 1, "lanes.silu": 1})
    model, rtl = dag_run.run_schedule(problem, schedule, narrow, on="both", scale=8)
    judged(rtl)
    (program,) = rtl.programs
    assert program.kept == [2] and program.cycles == model.programs[0].cycles
    assert program.elements == program.predicted_elements == 3 * 16 * 16


SMALL = [("3C", 8), ("4B", 8), ("5B", 4)]


@pytest.mark.deep
@pytest.mark.parametrize("name, by", SMALL)
def test_examples_on_rtl(name, by):
    number, schedule, _ = WORKED[name]
    problem, schedule = shrink(EXAMPLES[number], schedule, by)
    model, rtl = dag_run.run_schedule(problem, schedule, TINY, on="both", scale=by)
    judged(rtl)
    assert [s.cycles for s in model.programs] == [s.cycles for s in rtl.programs]


@pytest.mark.deep
@pytest.mark.parametrize("kind, ops, seed", [("random", 8, 4), ("attention", 8, 0)])
def test_retained_tensors_on_rtl(kind, ops, seed):
    problem = at_rates_of(TINY, generate(kind, ops, seed, scale=8))
    schedule = solve(problem, seconds=5, seed=0).schedule
    model, rtl = dag_run.run_schedule(problem, schedule, TINY, on="both", scale=8)
    judged(rtl)
    assert any(p.kept for p in rtl.programs)
    assert [s.cycles for s in model.programs] == [s.cycles for s in rtl.programs]


@pytest.mark.parametrize("times", [2, 3])
def test_a_retained_sum_of_one_operand(times):
    """The sum is one stream, scaled, at the cost of a scale."""
    ops = [((0,) * times, 1), ((1,), 2)]
    twice = problem(ops, (64, 64), (PW, PW), [(128, 256)] * 3, capacity=100_000)
    first = Subgraph((0,), (128, 128, 1), (1,))
    schedule = Schedule((first, Subgraph((1,), (128, 128, 1))))
    (run,) = dag_run.run_schedule(twice, schedule, DAG)
    judged(run)
    assert run.programs[0].kept == [1]
    assert [op.cost for op in at_rates_of(DAG, twice).ops] == [64.0, 1024.0]


def test_a_tensor_consumed_here_and_retained():
    """Both products retained: one tensor is loaded and one stored. Where the second is written
    and read again, the first leaves: a store does not tell when what it wrote can be read.
    """
    last = Subgraph((2,), (64, 128, 1))
    both = Schedule((Subgraph((0, 1), (128, 128, 1), (1, 2)), last))
    (run,) = dag_run.run_schedule(EXAMPLES[3], both, DAG)
    judged(run)
    assert run.programs[0].kept == [1, 2]
    assert run.programs[0].elements == 2 * 128 * 128
    one = Schedule((Subgraph((0, 1), (128, 128, 1), (1,)), last))
    (run,) = dag_run.run_schedule(EXAMPLES[3], one, DAG)
    assert [p.left for p in run.programs] == [[1], []]
    assert [p.elements for p in run.programs] == [2 * 128 * 128] * 2
    assert all(p.values_ok for p in run.programs)


@pytest.mark.parametrize("ops", [MOST_OPS, 1500])
def test_a_subgraph_of_many_operations_is_lowered_or_refused(ops):
    case = problem(
        [([i], i + 1) for i in range(ops)],
        [10] * ops,
        [PW] * ops,
        [(16, 16)] * (ops + 1),
        capacity=10_000,
    )
    whole = Schedule((Subgraph(tuple(range(ops)), (16, 16, 1)),))
    if ops <= MOST_OPS:
        (program,) = lower_schedule(case, whole, DAG.machine.t)
        assert program.meters[0].plan.ops == whole.subgraphs[0].ops
    else:
        with pytest.raises(ScheduleError, match="1,500 operations in one program"):
            lower_schedule(case, whole, DAG.machine.t)
