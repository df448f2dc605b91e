"""Faults, drawn over all components by a seed: the cocotb tests of their own rooms find each, in a
cycle that is named. The table: ``nox -s faults``.
"""

import os
import re
import subprocess
import sys

import pytest
from penstock.system.sources import PACKAGE

TB = PACKAGE / "tb"
SEED = 20261128
UNITS = ("hw/units/", "hw/memory/")
PADS = tuple(f"hw/memory/{part}" for part in ("absent", "reader", "scratchpad", "writer"))
ROOMS = {
    "shapes": (5, UNITS),
    "rows": (4, UNITS),
    "permute": (2, ("hw/units/permute",), "rows"),
    "arithmetic": (4, (*UNITS, "hw/arith/")),
    "routes": (4, UNITS),
    "scratchpads": (4, UNITS),
    "spilled": (3, PADS, "scratchpads", "spilled"),
    "offchip": (5, UNITS),
    "fifo": (2, ("hw/units/fifo",)),
    "networks": (4, ("hw/noc/", "hw/units/hop")),
    "parts": (2, ("hw/units/token/", "hw/memory/table", "hw/memory/counts")),
    "overlay": (3, ("hw/units/token/", "hw/noc/", "hw/overlay")),
    "hosts": (3, ("hw/host/",)),
}
"""Number of faults, and their files, of the tests of a module: of the same name, or the one that
is named, and the top of it that has them.
"""
EQUIVALENT = 1
"""Most faults of a room that change no cycle and no beat."""
PLANT = """
import importlib, pickle, sys
sys.path.append({tb!r})
from types import SimpleNamespace
from penstock.hw.export import annotated_rtlil, verilog_of
from penstock.hw.parts import SideBySide
from penstock.tb import detection
from penstock.tb.mutants import CHOSEN_BY_ARGUMENT, candidates, drawn, planted

room = importlib.import_module("test_{room}")
if hasattr(room, "UNITS"):
    units, top = room.TOPS["{top}"] if "{top}" else room.UNITS, detection.TOP
    rtlil = detection.annotated(units.built.graph(), units.config, probes=False).rtlil
else:
    top = room.TOP.top
    rtlil = annotated_rtlil(SideBySide(room.TOP.make()), top)
found = [m for m in candidates(rtlil) if m.file.startswith({files})]
numbers = {{mutant: k for k, mutant in enumerate(drawn(found, {count}, {seed}), 1)}}
netlist = verilog_of(planted(rtlil, numbers, top))
verilog = {{"mutants.v": CHOSEN_BY_ARGUMENT, "fabric.v": netlist}}
with open("design.pickle", "wb") as file:
    pickle.dump(SimpleNamespace(top=top, verilog=verilog), file)
print(*numbers, sep="\\n")
"""
TESTS = """
import pickle, sys
from pathlib import Path
sys.path.append({tb!r})
import test_{room} as room
from penstock.tb.tops import WATCHED
from test_{room} import *

@pytest.mark.cocotb_runner
def test_simulate(hdl):
    design = pickle.loads(Path(__file__).with_name("design.pickle").read_bytes())
    watched = getattr(room, "WATCHED", {{}} if hasattr(room, "TOP") else WATCHED)
    hdl.plusargs += ["+top={top}"] if "{top}" else []
    simulate(hdl, design, watched)
"""


def ran(command, folder):
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True)


@pytest.mark.deep
@pytest.mark.parametrize(
    "room", [pytest.param(room, marks=pytest.mark.xdist_group(room)) for room in ROOMS]
)
def test_planted_faults_are_found(room, tmp_path):
    count, files, *where = ROOMS[room]
    module, top = where + [room, ""][len(where) :]
    of = {"tb": str(TB), "room": module, "top": top}
    plant = PLANT.format(**of, count=count, seed=SEED, files=files)
    made = ran(["-c", plant], tmp_path)
    assert made.returncode == 0, made.stderr
    (tmp_path / "test_planted.py").write_text(TESTS.format(**of))
    (tmp_path / "conftest.py").write_text((TB / "conftest.py").read_text())
    unseen = []
    for number, mutant in enumerate(["none", *made.stdout.splitlines()]):
        command = ["-m", "pytest", "-q", "-x", "--rootdir", str(tmp_path), "-c", os.devnull]
        done = ran([*command, f"--cocotb-plusargs=+mutant={number}", "test_planted.py"], tmp_path)
        message = re.search(r"^E +(?! |SystemExit)(?:AssertionError: )?(.*)$", done.stdout, re.M)
        print(room, mutant, message and message[1], sep=" | ")
        if mutant == "none":
            assert done.returncode == 0, done.stdout
        elif done.returncode == 0:
            unseen.append(mutant)
    assert len(unseen) <= EQUIVALENT, unseen
