"""The cocotb suite covers every kind of unit."""

import re
import subprocess
import sys
from pathlib import Path

from penstock.machine.kinds import KINDS

ROOT = Path(__file__).parents[2]
AWAITED = {"hop", "load", "store", "random_store"}
ENDS = {"source", "sink"}  # of every test


def test_every_kind_has_a_cocotb_test():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tb", "--collect-only", "-q"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found = set(re.findall(r"^tb/test_\w+\.py::test_\w+\[(\w+)-", done.stdout, re.M))
    known = {k for k, kind in KINDS.items() if kind.__module__.startswith("penstock.machine.")}
    assert known - found - ENDS <= AWAITED, done.stdout + done.stderr
