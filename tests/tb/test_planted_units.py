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
FAULTS = "faults"
"""Module that drives streams which units refuse: it finds faults in what tells them."""
EQUIVALENT = {
    "hw/memory/load.py: beat.cols.eq(Mux(left < t, left, t)), $lt as $le": "equal at left = t"
}
"""Faults that change no beat in any cycle, and why: others are drawn instead."""
PLANT = """
import importlib, pickle, sys
sys.path.append({tb!r})
from types import SimpleNamespace
from penstock.hw.export import annotated_rtlil, verilog_of
from penstock.hw.parts import SideBySide
from penstock.tb import detection
from penstock.tb.mutants import CHOSEN_BY_ARGUMENT, candidates, drawn, line_of, planted

room = importlib.import_module("test_{module}")
if hasattr(room, "UNITS"):
    units, top = room.TOPS["{top}"] if "{top}" else room.UNITS, detection.TOP
    rtlil = detection.annotated(units.built.graph(), units.config, probes=False).rtlil
else:
    top = room.TOP.top
    rtlil = annotated_rtlil(SideBySide(room.TOP.make()), top)
found = candidates(rtlil)
if {chosen}:
    chosen = [m for m in found if str(m) in {chosen}]
else:
    differ = [m for m in found if f"{{line_of(m.place)}} {{m.cell}} {{m.form}}" not in {equivalent}]
    chosen = drawn([m for m in differ if m.file.startswith({files})], {count}, {seed})
numbers = {{mutant: k for k, mutant in enumerate(chosen, 1)}}
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
import test_{module} as room
from penstock.tb.tops import WATCHED
from test_{module} import *

@pytest.mark.cocotb_runner
def test_simulate(hdl):
    design = pickle.loads(Path(__file__).with_name("design.pickle").read_bytes())
    watched = getattr(room, "WATCHED", {{}} if hasattr(room, "TOP") else WATCHED)
    hdl.plusargs += ["+top={top}"] if "{top}" else []
    simulate(hdl, design, watched)
"""


def ran(command, folder):
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True)


class Planted:
    """The tests of a module on its design with mutants: some that are drawn, or ``chosen``."""

    def __init__(self, folder, module, top="", files=(), count=0, chosen=()):
        folder.mkdir()
        self.folder = folder
        of = {"tb": str(TB), "module": module, "top": top}
        draw = {"files": files, "count": count, "seed": SEED, "chosen": chosen}
        plant = PLANT.format(**of, **draw, equivalent=[*EQUIVALENT])
        made = ran(["-c", plant], folder)
        assert made.returncode == 0, made.stderr
        self.mutants = ["none", *made.stdout.split("\n")[:-1]]
        (folder / "test_planted.py").write_text(TESTS.format(**of))
        (folder / "conftest.py").write_text((TB / "conftest.py").read_text())
        status, output = self.run("none")
        assert status == 0, output

    def run(self, mutant):
        """Exit status and output of pytest."""
        number = self.mutants.index(mutant)
        command = ["-m", "pytest", "-q", "-x", "--rootdir", str(self.folder), "-c", os.devnull]
        more = [f"--cocotb-plusargs=+mutant={number}", "test_planted.py"]
        done = ran([*command, *more], self.folder)
        return done.returncode, done.stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    "room", [pytest.param(room, marks=pytest.mark.xdist_group(room)) for room in ROOMS]
)
def test_planted_faults_are_found(room, tmp_path):
    count, files, *where = ROOMS[room]
    module, top = where + [room, ""][len(where) :]
    own = Planted(tmp_path / module, module, top, files, count)
    unseen = [mutant for mutant in own.mutants[1:] if not named(room, mutant, *own.run(mutant))]
    if unseen:
        refused = Planted(tmp_path / FAULTS, FAULTS, chosen=unseen)
        also = refused.mutants[1:]
        seen = [mutant for mutant in also if named(FAULTS, mutant, *refused.run(mutant))]
        unseen = [mutant for mutant in unseen if mutant not in seen]
    assert unseen == []


def named(room, mutant, status, output):
    """True if a fault is found; the message says in which cycle."""
    message = re.search(r"^E +AssertionError: (.*cycle \d.*)$", output, re.M)
    print(room, mutant, message and message[1], sep=" | ")
    assert not status or message, output
    return bool(status)
