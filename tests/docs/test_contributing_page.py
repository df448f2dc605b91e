"""Statements of docs/contributing.md about a run of all tests: its last line has the seconds of
CPU, and a limit may be set.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import generate
import pytest

SETTINGS = """[pytest]
testpaths = tests
addopts = -m "not deep"
markers =
    deep: long
    data: files
    xdist_group: of a worker
"""


@pytest.fixture
def run(tmp_path):
    """A run of one test with this project's `conftest.py`."""
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    room = tmp_path / "tests" / "room"
    room.mkdir(parents=True)
    room.joinpath("test_it.py").write_text("def test_one():\n    pass\n")
    conftest = generate.ROOT / "tests" / "conftest.py"
    copy = room.with_name("conftest.py")
    copy.write_bytes(conftest.read_bytes())

    def run(limit, *words):
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=tmp_path,
            env=os.environ | {"PENSTOCK_CPU_LIMIT": limit},
            capture_output=True,
            text=True,
        )

    return run


def test_a_whole_run_says_what_it_may_take_and_fails_above_a_limit_that_is_set(run):
    page = Path(generate.ROOT, "docs", "contributing.md")
    text = page.read_text()
    (minutes,) = re.findall(r"take at most ([0-9.]+) minutes of CPU", text)
    done = run("0.001", "-n", "1")
    assert "1 passed" in done.stdout
    most = f"{60 * float(minutes):,.0f}"
    cpu = r"^\d+ s of CPU \(user and system\)"
    wall = r"\d+ s of wall time$"
    said = f"{cpu} of at most {most} s, {wall}"
    assert re.search(said, done.stdout, re.M)
    assert "FAILED: PENSTOCK_CPU_LIMIT is 0.001 s\n" in done.stdout
    assert done.returncode == 1


def test_a_part_below_the_limit_passes(run):
    done = run("1000", "-k", "one")
    assert "1 passed" in done.stdout
    assert "s of CPU" in done.stdout
    assert "of at most" not in done.stdout
    assert "PENSTOCK_CPU_LIMIT" not in done.stdout
    assert done.returncode == 0
