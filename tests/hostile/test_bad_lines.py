"""Command lines of bad input (lines.py): a sample, and in the deep tests all of them."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent / "run.py"


def failures(*options: str) -> str:
    done = subprocess.run([sys.executable, str(RUN), *options], capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


def test_a_sample():
    assert failures("--sample", "15") == ""


@pytest.mark.deep
def test_all():
    assert failures() == ""
