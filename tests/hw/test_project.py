"""The project that an export is for synthesis tools: all of the design,
clean, and read by them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from penstock.hw import project
from penstock.runs import api
from penstock.tb.toolchain import verilator_command

CLOCK = 40.0
FURTHER = [("swiglu", "lean_fpga", {}), ("operators", "small_fpga", {"part": "memory"})]
"""Designs that are held clean beside the first: with deep pipelines, and of other units."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    api.verilog("swiglu", "small_fpga", out=folder, clock_mhz=CLOCK)
    return folder


def lint(folder: Path, waivers: str) -> set[str]:
    """The rules that Verilator says something of."""
    (folder / "tried.vlt").write_text(waivers)
    words = "--lint-only -Wall tried.vlt -f penstock_fabric.f --top-module penstock_fabric".split()
    done = subprocess.run([verilator_command(), *words], cwd=folder, capture_output=True, text=True)
    said = set(re.findall(r"^%(?:Warning|Error)-(\w+)", done.stderr, re.M))
    assert bool(said) == bool(done.returncode), done.stderr
    return said


def test_files_are_the_design(exported):
    listed = (exported / "penstock_fabric.f").read_text().split()
    modules = [name.removesuffix(".v") for name in listed]
    assert {path.stem for path in exported.glob("penstock*.v")} == set(modules)
    together = "".join((exported / name).read_text() for name in listed)
    assert list(project.split(together)) == modules
    known = json.loads((exported / "penstock_fabric.json").read_text())["modules"]
    assert set(modules) == {module["name"] for module in known} | {"penstock_fabric"}
    assert together.count("\nendmodule") == len(re.findall("^module ", together, re.M))


def test_lint_says_what_is_waived_and_nothing_else(exported, tmp_path):
    folders = [exported]
    for number, (program, config, params) in enumerate(FURTHER):
        folders.append(tmp_path / str(number))
        api.verilog(program, config, params, out=folders[-1], clock_mhz=CLOCK)
    for folder in folders:
        assert lint(folder, (folder / "penstock_fabric.vlt").read_text()) == set()
    said = set().union(*(lint(folder, "`verilator_config\n") for folder in folders))
    assert said == {waiver.rule for waiver in project.WAIVERS}


def test_instance_fits_the_top(exported):
    template = (exported / "penstock_fabric_instance.vh").read_text()
    (exported / "board.v").write_text(f"module board;\n{template}endmodule\n")
    words = "--lint-only -Wno-UNDRIVEN -Wno-UNUSEDSIGNAL penstock_fabric.vlt -f penstock_fabric.f"
    done = subprocess.run(
        [verilator_command(), *words.split(), "board.v", "--top-module", "board"],
        cwd=exported,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_fusesoc_reads_the_core(exported):
    words = "--cores-root . run --setup --target lint penstock_fabric"
    done = subprocess.run(
        [str(Path(sys.executable).parent / "fusesoc"), *words.split()],
        cwd=exported,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert list(exported.glob("build/*/lint-verilator/*.vc"))


def test_clock_is_that_which_was_asked_for(exported):
    assert "-period 25.000 " in (exported / "penstock_fabric.sdc").read_text()
    assert 'FREQUENCY PORT "clk" 40 MHZ' in (exported / "penstock_fabric.lpf").read_text()
