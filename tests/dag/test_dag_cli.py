"""The command line: results, and one clear message with exit status 1 for bad input."""

import json
import subprocess
import sys

import pytest
from penstock.cli import main as penstock
from penstock.samples import copy
from penstock.scheduler.dag import Problem, Schedule, evaluate
from penstock.scheduler.dag.generate import generate
from penstock.testing.dag_cases import EXAMPLES, WORKED


def main(*arguments: object) -> int:
    return penstock(["dag", *map(str, arguments)])


@pytest.fixture
def problem_file(tmp_path):
    path = tmp_path / "in.json"
    EXAMPLES[3].save(path)
    return path


def test_solve_then_check_then_show(problem_file, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main("solve", problem_file, out, "--time", "5", "--json", tmp_path / "record.json") == 0
    captured = capsys.readouterr()
    assert "best" in captured.err and "bound" in captured.err
    latency = evaluate(EXAMPLES[3], Schedule.load(out)).latency
    assert latency <= 4638.4
    record = json.loads((tmp_path / "record.json").read_text())[0]
    assert record["latency"] == pytest.approx(latency) and record["history"]
    assert main("check", problem_file, out) == 0
    text = capsys.readouterr().out
    assert (
        f"total latency {latency:,.1f}  (readings: matmul_cost=full-k)" in text
        and "with matmul_cost=native-k" in text
    )
    image = tmp_path / "picture.png"
    assert main("show", problem_file, out, "--out", image) == 0
    assert image.stat().st_size > 10_000
    assert main("show", problem_file, "--out", tmp_path / "graph.svg") == 0


FIFTH = EXAMPLES[5].to_json()
BAD_INPUT = {
    "field": (json.dumps(FIFTH | {"heights": 1}), "field 'heights': must be a list"),
    "capacity below any tile": (
        json.dumps(FIFTH | {"fast_memory_capacity": 2}),
        "the smallest working set is 3 elements, the capacity 2",
    ),
    "garbage": ("\x00garbage{[" * 1_000_000, "not valid JSON"),
    "a list": ("[]", "the top level is a list"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_gives_one_message_and_no_file(name, tmp_path, capsys):
    text, reason = BAD_INPUT[name]
    source = tmp_path / "in.json"
    out = tmp_path / "out.json"
    source.write_text(text)
    assert main("solve", source, out, "--time", "1") == 1
    error = capsys.readouterr().err
    assert (
        reason in error and len(error) < 500 and error.count("\n") == 1 and "Traceback" not in error
    )
    assert [p.name for p in tmp_path.iterdir()] == ["in.json"]


def test_bench_solves_a_folder_in_fresh_processes(tmp_path, capsys):
    generate("mlp", 6, 1).save(tmp_path / "a.json")
    (tmp_path / "broken.json").write_text("{}")
    assert main("bench", tmp_path, "--time", "3", "--json", tmp_path / "r") == 0
    captured = capsys.readouterr()
    assert "skipped" in captured.err and captured.out.splitlines()[2].split()[0] == "a"
    record = json.loads((tmp_path / "r").read_text())[0]
    assert record["latency"] >= record["bound"] > 0 and record["first_s"] <= record["settled_s"]


def test_bench_goes_on_after_a_problem_without_a_schedule(problem_file, tmp_path, capsys):
    tight = json.loads(problem_file.read_text()) | {"fast_memory_capacity": 1}
    folder = tmp_path / "problems"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(tight))
    (folder / "b.json").write_text(problem_file.read_text())
    assert main("bench", folder, "--time", "2") == 1
    printed = capsys.readouterr()
    assert f"penstock: {folder / 'a.json'}: op " in printed.err
    assert printed.err.count("penstock:") == 1
    assert printed.out.splitlines()[2].split()[0] == "b"


def test_sigint_leaves_a_valid_schedule(tmp_path):
    """The written file is valid when the solver is stopped from outside; the exit is orderly."""
    problem = tmp_path / "in.json"
    out = tmp_path / "out.json"
    generate("residual", 140, 1).save(problem)
    command = [sys.executable, *"-m penstock dag solve --time 60".split(), problem, out]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stderr.readline()
        process.terminate()
        output, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert "interrupted" in output
    evaluate(Problem.load(problem), Schedule.load(out))


def test_a_first_schedule_needs_neither_compiled_code_nor_the_front_end():
    """`penstock dag` loads less than the front end alone, which takes longer than a first schedule
    may.
    """
    code = (
        "import sys; from penstock.cli import parser; parser('dag'); sys.exit(' '.join({'sympy', "
        "'numba', 'llvmlite', 'scipy', 'highspy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert done.stderr.strip() == ""


def test_progress_lines_tell_the_stage_while_nothing_better_comes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("penstock.cli.dag_solver._SILENCE", 0.5)
    problem = tmp_path / "in.json"
    generate("residual", 60, 1).save(problem)
    assert main("solve", problem, tmp_path / "out.json", "--time", "3") == 0
    lines = capsys.readouterr().err.splitlines()
    assert "(first)" in lines[0] and any(line.endswith(" ...)") for line in lines)


def test_worked_example_files_check(tmp_path, capsys):
    """A solution file as the statement prints it."""
    number, plan, latencies = WORKED["5B"]
    EXAMPLES[number].save(tmp_path / "p.json")
    data = plan.to_json() | {"subgraph_latencies": latencies}
    (tmp_path / "s.json").write_text(json.dumps(data))
    assert main("check", tmp_path / "p.json", tmp_path / "s.json") == 0
    assert "40,960" in capsys.readouterr().out


def test_check_computes_missing_latencies_and_names_every_broken_rule(tmp_path, capsys):
    problem, schedule = tmp_path / "p.json", tmp_path / "s.json"
    copy("problem", problem)
    assert main("solve", problem, schedule, "--time", "1", "--quiet") == 0
    assert "with matmul_cost=native-k" in capsys.readouterr().out
    data = json.loads(schedule.read_text())
    (stated,) = [sum(data.pop("subgraph_latencies"))]
    schedule.write_text(json.dumps(data))
    assert main("check", problem, schedule) == 0
    assert f"total latency {stated:,.1f}" in capsys.readouterr().out
    schedule.write_text(
        json.dumps(data | {"granularities": [[1 << 20] * 3 for _ in data["granularities"]]})
    )
    assert main("check", problem, schedule) == 1
    assert capsys.readouterr().err.count("(rule: ") == 4 * len(data["subgraphs"])


def test_check_lists_all_that_is_broken_up_to_a_maximum(tmp_path, capsys):
    problem, schedule = tmp_path / "p.json", tmp_path / "s.json"
    copy("problem", problem)
    ops = len(json.loads(problem.read_text())["op_types"])

    def check(*subgraphs):
        lists = {
            "subgraphs": [s[0] for s in subgraphs],
            "granularities": [s[1] for s in subgraphs],
            "tensors_to_retain": [s[2] for s in subgraphs],
            "traversal_orders": [None for _ in subgraphs],
        }
        schedule.write_text(json.dumps(lists))
        assert main("check", problem, schedule) == 1
        err = capsys.readouterr().err
        assert "Traceback" not in err
        return err

    err = check(([0, 0, ops, ops + 1], [8, 8, 8], []), ([0], [8, 8, 8], [900, 901]))
    for what in (
        "subgraph 0: op 0 is listed twice",
        f"subgraph 0: op {ops} does not exist",
        f"subgraph 0: op {ops + 1} does not exist",
        "subgraph 1: retained tensor 900 does not exist",
        "subgraph 1: retained tensor 901 does not exist",
        "schedule: op 1 is in no subgraph",
        "schedule: op 2 is in no subgraph",
    ):
        assert what in err, what
    err = check(*[([0], [8, 8, 8], [900])] * 60)
    assert err.count("(rule: ") == 50 and err.rstrip().endswith("more")
