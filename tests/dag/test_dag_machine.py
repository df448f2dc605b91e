"""Schedules as STeP programs: values, cycles beside predicted latency,
RTL as the model.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from penstock.cli import main
from penstock.runs import dag_run
from penstock.scheduler.dag import Readings, Schedule, ScheduleError, Subgraph, evaluate
from penstock.scheduler.dag.generate import generate
from penstock.scheduler.dag.machine import lower_subgraph, shrink
from penstock.scheduler.dag.machine.lower import MOST_OPS
from penstock.scheduler.dag.solve import solve
from penstock.scheduler.dag.solve.baselines import one_op_per_subgraph
from penstock.testing.dag_cases import EXAMPLES, PW, WORKED, problem


def judged(run):
    """Values are right, and the prediction of the whole schedule is
    near after the stated fill.
    """
    assert all(s.values_ok and s.max_rel_err < 1e-5 for s in run.subgraphs)
    assert 0.7 < run.ratio_after_fill < 1.1, dag_run.table(run)


@pytest.mark.parametrize("name", WORKED)
def test_worked_examples_run(name):
    number, schedule, _ = WORKED[name]
    (run,) = dag_run.run_schedule(EXAMPLES[number], schedule)
    judged(run)
    assert run.total("predicted") == pytest.approx(
        run.cycles_per_time * evaluate(EXAMPLES[number], schedule, check_latencies=False).latency
    )


def test_the_machine_moves_what_the_schedule_says():
    # Tiles of 64 x 64 are whole lines: the elements moved are the evaluator's, raster and snake,
    # retained or not.
    for name in ("2B", "3A", "3B", "3C", "4A", "4B", "5B"):
        number, schedule, _ = WORKED[name]
        (run,) = dag_run.run_schedule(EXAMPLES[number], schedule, values=False)
        assert [s.elements for s in run.subgraphs] == [
            s.predicted_elements for s in run.subgraphs
        ], name


def test_retained_tensors_cost_no_traffic():
    number, schedule, _ = WORKED["3C"]
    first = lower_subgraph(EXAMPLES[number], schedule.subgraphs[0])
    second = lower_subgraph(EXAMPLES[number], schedule.subgraphs[1], frozenset([1]))
    assert [h.tensor for h in first.sinks.values()] == [1] and "t1" not in first.graph.tensors
    assert {h.tensor for h in second.sources.values()} == {1} and set(second.graph.tensors) == {
        "t3"
    }


@pytest.mark.parametrize(
    "kind, ops, seed", [("mlp", 8, 1), ("residual", 8, 0), ("attention", 8, 0)]
)
def test_generated_problems_run(kind, ops, seed):
    problem = generate(kind, ops, seed)
    (run,) = dag_run.run_schedule(problem, solve(problem, seconds=2).schedule)
    judged(run)
    assert run.spearman > 0.9


def test_cycles_follow_the_prediction_in_smaller_versions():
    problem = generate("mlp", 8, 1)
    schedule = solve(problem, seconds=2).schedule
    small, scaled = shrink(problem, schedule, 4)
    (run,) = dag_run.run_schedule(small, scaled, t=4, scale=4)
    judged(run)
    assert small.tensors[0].width == -(-problem.tensors[0].width // 4)


def test_command_line(tmp_path, capsys):
    EXAMPLES[3].save(tmp_path / "in.json")
    _, schedule, latencies = WORKED["3B"]
    Schedule(
        tuple(replace(s, latency=x) for s, x in zip(schedule.subgraphs, latencies, strict=False))
    ).save(tmp_path / "out.json")
    files = [str(tmp_path / "in.json"), str(tmp_path / "out.json")]
    assert (
        main(
            [
                "dag",
                "run",
                *files,
                "--quiet",
                "--json",
                str(tmp_path / "r.json"),
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    (record,) = json.loads((tmp_path / "r.json").read_text())
    assert record["workload"] == "dag:in" and record["values_ok"] is True
    capsys.readouterr()
    assert main(["explain", str(tmp_path / "r.json")]) == 0
    assert "predicted" in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "r.json"), str(tmp_path / "r.json")]) == 0
    record = record["schedule"]
    assert (
        record["ratio"] == pytest.approx(record["predicted"] / record["cycles"])
        and len(record["subgraphs"]) == 2
    )
    assert (tmp_path / "in_model.png").stat().st_size > 1000
    assert main(["dag", "run", *files, "--quiet"]) == 0
    assert "predicted / simulated" in capsys.readouterr().out
    (tmp_path / "out.json").write_text(
        (tmp_path / "out.json").read_text().replace("3000.0", "2000.0")
    )
    assert main(["dag", "run", *files, "--quiet"]) == 1
    assert "the stated latency is" in capsys.readouterr().err


def test_values_are_those_of_the_whole_graph():
    problem = generate("moe", 6, 3)
    (run,) = dag_run.run_schedule(problem, one_op_per_subgraph(problem, Readings()))
    assert run.subgraphs[-1].max_rel_err < 1e-5 and np.isfinite(run.ratio)


SMALL = [("3C", 8), ("4B", 8), ("5B", 2)]  # 5B / 2: its slices of k = 16 columns are whole lines


@pytest.mark.deep
@pytest.mark.parametrize("name, by", SMALL)
def test_on_rtl(name, by):
    number, schedule, _ = WORKED[name]
    problem, schedule = shrink(EXAMPLES[number], schedule, by)
    model, rtl = dag_run.run_schedule(problem, schedule, on="both", t=4, scale=by)
    judged(rtl)
    assert [s.cycles for s in model.subgraphs] == [s.cycles for s in rtl.subgraphs]


def test_a_tensor_consumed_here_and_retained():
    schedule = Schedule((Subgraph((0, 1), (128, 128, 1), (1,)), Subgraph((2,), (64, 128, 1))))
    (run,) = dag_run.run_schedule(EXAMPLES[3], schedule)
    judged(run)
    assert [s.elements for s in run.subgraphs] == [2 * 128 * 128, 2 * 128 * 128]


@pytest.mark.parametrize("ops", [MOST_OPS, 1500])
def test_a_subgraph_of_many_operations_is_lowered_or_refused(ops):
    case = problem(
        [([i], i + 1) for i in range(ops)],
        [10] * ops,
        [PW] * ops,
        [(16, 16)] * (ops + 1),
        capacity=10_000,
    )
    entry = Subgraph(tuple(range(ops)), (16, 16, 1))
    if ops <= MOST_OPS:
        assert lower_subgraph(case, entry).plan.ops == entry.ops
    else:
        with pytest.raises(ScheduleError, match="1,500 operations in one program"):
            lower_subgraph(case, entry)
