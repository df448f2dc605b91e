"""Long commands, interrupted at random moments: soon after, no process and no temporary folder is
left, and nobody has seen a traceback.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="finds processes by /proc"
)

SMALL = "--set batch=4 --set dim=4 --set inter=4 --set tile_b=4"
COMMANDS = {
    "run": f"run swiglu --config small_fpga --on both {SMALL} --set tile_inter=4",
    "sweep": f"sweep swiglu --config small_fpga --on rtl {SMALL} --set tile_inter=2,4",
    "verilog": "verilog swiglu --config fig8 --out out",
    "regress": "regress operators",
    "fuzz": "fuzz --count 5000 --on rtl",
    "figures": "figures fig14 --out out",
    "demo": "demo --out out",
    "deadlock": "deadlock published_moe --config paper_moe --set experts=16 --set top_k=4",
    "overlay": "overlay compare gen:gates:60 --mesh 4x4 --on both",
    "dag": "dag solve problem.json schedule.json --time 60",
    "bench": "dag bench . --time 60",
}
MOMENTS = 20
SECONDS = 2.0


def marked(mark: str) -> list[str]:
    """Command lines of the processes that have a mark in their environment, those that have ended
    apart.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                mark.encode() in (folder / "environ").read_bytes()
                and (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
            ):
                found.append((folder / "cmdline").read_text().replace("\0", " ")[:200])
        except OSError:
            continue
    return found


def listens(process: subprocess.Popen) -> bool:
    """True if a process has a handler for SIGTERM, as Penstock's first lines install it and
    Python's start does not.
    """
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


@pytest.fixture
def temporary():
    """A folder for temporary files whose name is short: workers have sockets there."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def interrupted(
    command: list[str], folder: Path, temporary: Path, after: float, number: signal.Signals
) -> int | None:
    """Start a command, with a cache of its own, and interrupt it so many seconds after its first
    lines; its exit code, None if it had ended before.
    """
    from penstock.scheduler.dag.generate import generate

    mark = f"PENSTOCK_MARK={uuid.uuid4()}"
    there = folder / "there"
    there.mkdir(exist_ok=True)
    generate("residual", 140, 1).save(there / "problem.json")
    env = os.environ | {
        "TMPDIR": str(temporary),
        "PENSTOCK_CACHE": str(folder / "cache"),
        "PENSTOCK_MARK": mark.partition("=")[2],
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *command],
        cwd=there,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not listens(process) and process.poll() is None:
        time.sleep(0.01)
    code = None
    try:
        error = process.communicate(timeout=after)[1]
        left = marked(mark)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        end = time.monotonic() + SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        while (left := marked(mark)) and time.monotonic() < end:
            time.sleep(0.05)
        process.kill()
        error = process.communicate()[1]
        code = process.returncode
        # 0: of a solver that keeps its schedule, or of work that ended in this moment
        assert code in (0, 128 + number, -signal.SIGKILL), error
    assert not left
    assert not list(temporary.iterdir())
    assert "Traceback" not in error, error
    return code


@pytest.mark.parametrize(
    ("name", "after", "number", "code"),
    [
        ("run", 5.0, signal.SIGTERM, 128 + signal.SIGTERM),
        ("fuzz", 3.0, signal.SIGINT, 128 + signal.SIGINT),
        ("dag", 1.0, signal.SIGINT, 0),
    ],
)
def test_nothing_is_left_of_an_interrupted_command(tmp_path, temporary, name, after, number, code):
    assert interrupted(COMMANDS[name].split(), tmp_path, temporary, after, number) == code


@pytest.mark.deep
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_left_at_any_moment(tmp_path, temporary, name):
    """Early moments, while modules are imported, and late ones; the cache fills up on the way, so
    that builds begin and end at others.
    """
    rng = random.Random(name)
    codes = [
        interrupted(
            COMMANDS[name].split(),
            tmp_path,
            temporary,
            30 * rng.random() ** 2,
            rng.choice([signal.SIGINT, signal.SIGTERM]),
        )
        for _ in range(MOMENTS)
    ]
    assert codes.count(None) < MOMENTS
    if "dag" not in COMMANDS[name]:
        assert codes.count(0) <= 1
