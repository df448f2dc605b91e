"""The deep tests in parts: `nox -s deep -- PART`; which part passed at
which commit.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from penstock.machine.errors import PenstockError
from records import ROOT, Record, Sources

MINUTES = 90
"""A part may take this long."""
PARTS = {
    "array": (
        "tests/array/test_array_rtl.py",
        "tests/array/test_slots_rtl.py",
        "tests/array/test_small_rtl.py",
        "tests/array/test_streams.py",
    ),
    "arithmetic": ("tests/arith/test_dot_verilog.py",),
    "netlists": ("tests/hw/test_netlists.py", "tests/hw/test_one_design.py"),
    "proofs": ("tests/formal/test_pages_proof.py", "tests/hw/test_yosys.py"),
    "commands": (
        "tests/cli/test_interrupted_commands.py",
        "tests/cli/test_synth.py",
        "tests/cli/test_waves.py",
    ),
    "bad_input": ("tests/hostile/test_bad_lines.py",),
    "board": (
        "tests/board/test_buses.py",
        "tests/board/test_overlay_board.py",
        "tests/board/test_simulated.py",
        "tests/tb/test_counted.py",
    ),
    "regression": ("tests/cli/test_regress_designs.py",),
    "regression_forms": ("tests/cli/test_regress_forms.py",),
    "dag_solver": ("tests/dag/test_dag_solver.py",),
    "dag_limits": ("tests/dag/test_dag_limits.py",),
    "dag_oracle": ("tests/dag/test_dag_machine.py", "tests/dag/test_dag_oracle.py"),
    "programs": (
        "tests/frontend/test_program_sizes.py",
        "tests/spice/test_step_graphs.py",
        "tests/stepsim/test_stepsim_deadlock.py",
        "tests/stepsim/test_stepsim_programs.py",
    ),
    "fuzz": ("tests/fuzz/test_fuzz_rtl.py",),
    "icarus": ("tests/icarus/test_icarus.py",),
    "overlay": (
        "tests/overlay/test_overlay_listed.py",
        "tests/token/test_overlay_hardware.py",
        "tests/token/test_overlay_rtl.py",
    ),
    "figure_8": ("tests/system/test_fig8.py",),
    "figures": ("tests/system/test_figures.py",),
    "systems": (
        "tests/system/test_deadlock_of_both_timings.py",
        "tests/system/test_many.py",
        "tests/system/test_online_softmax.py",
        "tests/system/test_store.py",
    ),
    "limits": (
        "tests/hw_memory/test_memory_bits.py",
        "tests/hw_memory/test_synthesis.py",
        "tests/tb/test_limits_on_rtl.py",
    ),
    "units": ("tests/tb/test_detection.py", "tests/tb/test_fabric.py", "tests/tb/test_units.py"),
}
"""Part -> files, all of whose deep tests it has."""
ROOMS = ("frontend", "fuzz", "hw", "machine", "model", "runs", "tb", "testing", "workloads")
"""All of these count for a test of a fabric, whatever it imports:
units, kinds and programs are found by name.
"""
GIVEN = (
    "board/*.cpp",
    "figures/published/*.csv",
    "overlay/published/*.csv",
    "samples/files/*.*",
    "samples/files/**/*.npy",
    "sim_configs/*.toml",
    "tb/*.cpp",
    "tb/*.sv",
    "tests/data/*/*",
)
"""What is read or compiled, and is no Python."""
EVERY = ("cli/*.py",)
CALLED = {
    "commands": EVERY,
    "bad_input": (*EVERY, "tests/hostile/*.py"),
    "dag_solver": ("tests/data/problems/*.json",),
    "dag_limits": ("cli/dag_solver.py",),
}
"""What the tests of a part call by the command line, or read by name,
where they do not import it.
"""
OF_THE_SOLVER = ("dag_solver", "dag_limits")
"""Parts that run neither a program nor its fabric."""
PYTHON = (".py", ".pyc")
SCRIPTS = ("clock", "counted", "dag_checker", "inputs", "made.boards")
"""Modules of this folder that deep tests import. They are loaded before
sources are told, so that every process tells the same.
"""


def run(part: str) -> dict:
    """Run a part; how many of its tests passed, and how many were
    skipped.

    Raises
    ------
    PenstockError
        A test failed, none ran, or the part takes too long.

    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "tests.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-m", "deep", f"--junitxml={told}"]
        try:
            done = subprocess.run(
                [*command, *PARTS[part]],
                cwd=ROOT,
                env=os.environ | {"MPLBACKEND": "Agg"},
                timeout=60 * MINUTES,
            )
        except subprocess.TimeoutExpired:
            raise PenstockError(
                f"takes more than {MINUTES} minutes",
                f"deep/{part}",
                remedy="run it on a machine that does nothing else, or split the part",
            ) from None
        if done.returncode:
            raise PenstockError("a test failed: nothing is stored", f"deep/{part}")
        row = counted(told)
        if not row["passed"]:
            raise PenstockError("all its tests were skipped: nothing is stored", f"deep/{part}")
        return {"rows": [row]}


def counted(told: Path) -> dict[str, int]:
    """Tests that passed and tests that were skipped, of a report in
    JUnit's format.
    """
    suites = list(ElementTree.parse(told).getroot().iter("testsuite"))
    tests = sum(int(suite.attrib["tests"]) for suite in suites)
    skipped = sum(int(suite.attrib["skipped"]) for suite in suites)
    return {"passed": tests - skipped, "skipped": skipped}


def sources(part: str) -> Sources:
    """The tests and the files beside them, and what they run."""
    for name in SCRIPTS:
        importlib.import_module(name)
    roots = [*PARTS[part], *CALLED.get(part, ())]
    if part not in OF_THE_SOLVER:
        roots += [*ROOMS, *GIVEN, *beside(PARTS[part])]
    return Sources(tuple(dict.fromkeys(roots)))


def beside(tests: Iterable[str]) -> list[str]:
    """What lies in the folders of tests, and is no Python."""
    folders = sorted({(ROOT / file).parent for file in tests})
    found = []
    for folder in folders:
        paths = filter(Path.is_file, sorted(folder.rglob("*.*")))
        found += [path for path in paths if path.suffix not in PYTHON]
    return [str(path.relative_to(ROOT)) for path in found]


RECORD = Record("deep", cases=lambda: PARTS, run=run, sources=sources)
