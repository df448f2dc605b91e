"""The project that an export is for synthesis tools: all of the design, clean, and read by them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from penstock.cli import main
from penstock.hw.export import project
from penstock.runs import api
from penstock.tb.toolchain import verilator_command
from penstock.testing.names import nameless

CLOCK = 40.0
FORWARDING = "--local forward"
OVERLAYS = {
    "dynamic": f"--mesh 1x2 {FORWARDING} --memory value=16",
    "hoplite": "--mesh 2x1 --network hoplite --memory value=10",
    "static": "--mesh 2x2 --pe static --alu pipelined --memory context=10",
}
"""Options of overlays: each has another PE or router."""
NO_WAIVERS = "`verilator_config\n"


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    api.verilog("swiglu", "small_fpga", out=folder, clock_mhz=CLOCK)
    return folder


@pytest.fixture(scope="module")
def hosted(tmp_path_factory) -> Path:
    """A fabric of deep pipelines behind AXI."""
    folder = tmp_path_factory.mktemp("axi")
    words = f"verilog swiglu --config lean_fpga --host axi --project {CLOCK} --quiet --out".split()
    assert main([*words, str(folder)]) == 0
    return folder


def lint(folder: Path, waivers: str) -> set[str]:
    """The rules that Verilator says something of."""
    (folder / "tried.vlt").write_text(waivers)
    (listed,) = folder.glob("*.f")
    words = f"--lint-only -Wall tried.vlt -f {listed.name} --top-module {listed.stem}".split()
    done = subprocess.run([verilator_command(), *words], cwd=folder, capture_output=True, text=True)
    said = set(re.findall(r"^%(?:Warning|Error)-(\w+)", done.stderr, re.M))
    assert bool(said) == bool(done.returncode), done.stderr
    return said


def instantiated(folder: Path) -> str:
    """Verilator's warnings about the template in a module of its own, for which nothing is
    waived.
    """
    (listed,) = folder.glob("*.f")
    top = listed.stem
    template = (folder / f"{top}_instance.vh").read_text()
    (folder / "board.v").write_text(f"module board(input clk, input rst);\n{template}endmodule\n")
    waivers = (folder / f"{top}.vlt").read_text()
    (folder / "tried.vlt").write_text(waivers.replace('"*"', '"penstock_*"'))
    words = f"--lint-only -Wno-UNDRIVEN -Wno-UNUSEDSIGNAL tried.vlt -f {top}.f".split()
    done = subprocess.run(
        [verilator_command(), *words, "board.v", "--top-module", "board"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert bool(done.stderr) == bool(done.returncode), done.stderr
    return done.stderr


def sidecar(path: Path) -> list[dict]:
    """The modules that it lists."""
    return json.loads(path.read_text())["modules"]


def test_files_are_the_design(exported):
    listed = (exported / "penstock_fabric.f").read_text().split()
    modules = [name.removesuffix(".v") for name in listed]
    assert {path.stem for path in exported.glob("penstock*.v")} == set(modules)
    together = "".join((exported / name).read_text() for name in listed)
    assert list(project.split(together)) == modules
    known = {module["name"] for module in sidecar(exported / "penstock_fabric.json")}
    assert set(modules) == known | {"penstock_fabric"}
    assert together.count("\nendmodule") == len(re.findall("^module ", together, re.M))


def test_lint_says_what_is_waived_and_nothing_else(exported, hosted, tmp_path):
    """Also of a design of other units."""
    api.verilog("operators", "small_fpga", {"part": "memory"}, out=tmp_path, clock_mhz=CLOCK)
    folders = [exported, hosted, tmp_path]
    for folder in folders:
        (waivers,) = folder.glob("penstock_*.vlt")
        assert lint(folder, waivers.read_text()) == set()
    said = set().union(*(lint(folder, NO_WAIVERS) for folder in folders))
    assert said == {waiver.rule for waiver in project.WAIVERS}


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_is_as_clean(name, tmp_path):
    words = f"overlay verilog {OVERLAYS[name]} --project {CLOCK} --quiet --out".split()
    assert main([*words, str(tmp_path)]) == 0
    assert lint(tmp_path, (tmp_path / "penstock_overlay.vlt").read_text()) == set()
    assert set() < lint(tmp_path, NO_WAIVERS) <= {waiver.rule for waiver in project.WAIVERS}
    assert instantiated(tmp_path) == ""
    assert "-period 25.000 " in (tmp_path / "penstock_overlay.sdc").read_text()


def test_a_fabric_with_axi_lists_its_modules(hosted):
    listed = (hosted / "penstock_axi.f").read_text().split()
    modules = {module["name"] for module in sidecar(hosted / "penstock_axi.json")}
    assert {name.removesuffix(".v") for name in listed} == modules | {"penstock_axi"}
    assert nameless("".join((hosted / name).read_text() for name in listed)) == []
    assert instantiated(hosted) == ""


def test_instance_fits_the_top(exported):
    assert instantiated(exported) == ""


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
    assert "-period 25.000 " in (exported / "penstock_fabric.xdc").read_text()
    quartus = (exported / "penstock_fabric.qsf").read_text()
    assert "-name TOP_LEVEL_ENTITY penstock_fabric\n" in quartus
    assert quartus.count("-name VERILOG_FILE ") == len(list(exported.glob("penstock*.v")))
