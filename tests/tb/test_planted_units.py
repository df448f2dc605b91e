"""Faults of units that the cocotb tests of their own rooms find, each in a cycle that is named."""

import os
import re
import subprocess
import sys

import pytest
from penstock.system.sources import PACKAGE

TB = PACKAGE / "tb"
SEED = 20261128
COUNT = 8
"""Faults of a room."""
EQUIVALENT = 1
"""Of these, at most so many change no cycle and no beat."""
PLANT = """
import pickle, sys
sys.path.append({tb!r})
from dataclasses import replace
from penstock.hw.export import verilog_of
from penstock.tb import detection
from penstock.tb.mutants import CHOSEN_BY_ARGUMENT, candidates, drawn, planted
from test_{room} import UNITS

source = detection.annotated(UNITS.built.graph(), UNITS.config, probes=False)
found = [m for m in candidates(source.rtlil) if m.file.startswith(("hw/units", "hw/memory"))]
numbers = {{mutant: k for k, mutant in enumerate(drawn(found, {count}, {seed}), 1)}}
netlist = verilog_of(planted(source.rtlil, numbers, detection.TOP))
verilog = {{"mutants.v": CHOSEN_BY_ARGUMENT, "fabric.v": netlist}}
with open("design.pickle", "wb") as file:
    pickle.dump(replace(UNITS.design, verilog=verilog), file)
print(*numbers, sep="\\n")
"""
TESTS = """
import pickle, sys
from pathlib import Path
sys.path.append({tb!r})
from test_{room} import *

@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, pickle.loads(Path(__file__).with_name("design.pickle").read_bytes()))
"""


def ran(command, folder):
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True)


@pytest.mark.deep
@pytest.mark.parametrize(
    "room", ["shapes", "rows", "arithmetic", "routes", "scratchpads", "offchip"]
)
def test_planted_faults_are_found(room, tmp_path):
    plant = PLANT.format(tb=str(TB), room=room, count=COUNT, seed=SEED)
    made = ran(["-c", plant], tmp_path)
    assert made.returncode == 0, made.stderr
    (tmp_path / "test_planted.py").write_text(TESTS.format(tb=str(TB), room=room))
    (tmp_path / "conftest.py").write_text((TB / "conftest.py").read_text())
    unseen = []
    for number, mutant in enumerate(["none", *made.stdout.splitlines()]):
        command = ["-m", "pytest", "-q", "-x", "--rootdir", str(tmp_path), "-c", os.devnull]
        done = ran([*command, f"--cocotb-plusargs=+mutant={number}", "test_planted.py"], tmp_path)
        message = re.search(r"^E +AssertionError: (.*)$", done.stdout, re.M)
        print(number, mutant, "|", message and message[1])
        if mutant == "none":
            assert done.returncode == 0, done.stdout
        elif message is None:
            unseen.append(mutant)
    assert len(unseen) <= EQUIVALENT, unseen
