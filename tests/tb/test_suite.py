"""The cocotb suite covers every kind of unit, and what carries beats and tokens between units."""

import re
import subprocess
import sys

from penstock.machine.kinds import KINDS
from penstock.system.sources import PACKAGE

ENDS = {"source", "sink"}
"""Kinds that are in every test."""
NETWORKS = {"hoplite", "xy2", "multiplexed", "switch"}


def test_every_kind_has_a_cocotb_test():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tb", "--collect-only", "-q"],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
    )
    found = set(re.findall(r"^tb/test_\w+\.py::test_\w+\[(\w+)-", done.stdout, re.M))
    known = {k for k, kind in KINDS.items() if kind.__module__.startswith("penstock.machine.")}
    assert known - ENDS | NETWORKS <= found, done.stdout + done.stderr
    assert "tb/test_fifo.py::test_beats_equal_the_models" in done.stdout
