"""The bus models of the tests before designs with cover statements:
AXI4, AXI4-Lite and Wishbone, on Verilator, which counts.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cocotb_tools.check_results import get_results
from penstock.machine.errors import RunError
from penstock.tb import coverage
from penstock.tb.coverage import Reached
from penstock.tb.runner import Verilator
from records import ROOT

CHECKS = ROOT / "tests" / "board"
TOP = "host_top"
CONTROL = f'`verilator_config\npublic_flat_rw -module "{TOP}" -var "*"\n'
"""Python drives and reads all ports."""


@dataclass(frozen=True)
class Bench:
    """A component of the tests' ``host_top.py`` and what it is made
    with; the module whose cocotb tests drive it, and their environment.
    """

    component: str
    made_with: dict[str, int]
    module: str
    environment: dict[str, str]


CASES = {
    "buses": Bench("HostTop", {}, "bus_checks", {}),
    "buses of two clocks": Bench(
        "CrossingTop",
        {"bits": 64, "line_bytes": 16},
        "crossing_checks",
        {"PERIOD": "10", "MEMORY_PERIOD": "7.3"},
    ),
}


def run(case: str) -> Reached:
    """What the tests of a case reach; raises RunError where one fails."""
    bench = CASES[case]
    with _importable(), tempfile.TemporaryDirectory() as name:
        component = getattr(importlib.import_module(TOP), bench.component)
        design = coverage.component(component(**bench.made_with), TOP)
        folder = Path(name)
        sources = {"control.vlt": CONTROL, **design.verilog}
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="utf-8")
        _run(bench, folder, [folder / file for file in sources])
        design.collect(folder)
    return design.reached()


@contextlib.contextmanager
def _importable() -> Iterator[None]:
    """The tests, which are no package, can be imported: here, and in a
    simulator, to which cocotb hands the path.
    """
    sys.path.append(str(CHECKS))
    try:
        yield
    finally:
        sys.path.remove(str(CHECKS))


def _run(bench: Bench, folder: Path, sources: list[Path]) -> None:
    runner = Verilator()
    runner.own_headers = True
    runner.build(
        sources=sources,
        hdl_toplevel=TOP,
        build_dir=folder,
        timescale=("1ns", "1ps"),
        log_file=folder / "build.log",
        build_args=["--coverage-user", "--timing", "-Wno-fatal"],
    )
    told = folder / "results.xml"
    log = folder / "log"
    with contextlib.suppress(SystemExit):  # of the runner, where a test fails
        runner.test(
            test_module=bench.module,
            hdl_toplevel=TOP,
            build_dir=folder,
            test_dir=folder,
            results_xml=str(told),
            extra_env={"COCOTB_LOG_LEVEL": "WARNING", **bench.environment},
            log_file=log,
        )
    tests, failed = get_results(told)
    if failed or not tests:
        raise RunError(log.read_text(encoding="utf-8")[-4000:], f"bus models, {bench.module}")
