"""Measures a sweep of many points with one process and with two:
`nox -s records -- sweep_speed`.

    python bench/sweep_speed.py [--points N] [--rounds N]

Rounds are interleaved, each starts from a new process, and nothing is
kept. Beside the wall clock stands the CPU time of all processes: on a
machine with other work to do, that alone tells what a second process
costs. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from penstock.runs.tables import print_table
from records import Record, on_model, preset
from tables import frame

POINTS = 1000
ROUNDS = 3
JOBS = (1, 2)
SWEEP = """
program = "swiglu"
config = "small_fpga"

[fixed]
batch = 16
dim = 16

[sample]
count = {points}
seed = 1

[sample.from]
inter = {{ first = 8, last = 64, step = 8 }}
tile_b = [1, 2, 4, 8, 16]
tile_inter = {{ first = 1, last = 32 }}
"""
TARGET = 1.8
SUBREAPER = 36
"""Option of prctl(2): processes whose parent has ended become this one's children."""


def timed(command: list[str]) -> dict[str, float]:
    """Seconds of a command: by the clock, of CPU in all its processes,
    and in the first of them.
    """
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    others = children()
    load = os.getloadavg()[0]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    first = Path(f"/proc/{process.pid}/stat")
    own = 0
    while not process_ended(process):
        own = ticks(first) or own
        time.sleep(0.05)
    wall = time.monotonic() - start
    cpu = 0.0
    while left := children() - others:
        _, status, used = os.wait4(left.pop(), 0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed")
        cpu += used.ru_utime + used.ru_stime
    process.returncode = 0  # it has been waited for
    return {
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "first_cpu_s": round(own / os.sysconf("SC_CLK_TCK"), 2),
        "load": round(load, 2),
    }


def children() -> set[int]:
    """Processes of this one, those included that it has been given."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(word) for path in lists for word in path.read_text().split()}


def process_ended(process: subprocess.Popen) -> bool:
    """Whether a process has ended; it stays to be waited for."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def ticks(stat: Path) -> int:
    """CPU time that a process has used itself, in ticks of the clock."""
    words = stat.read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def run(points: int = POINTS, rounds: int = ROUNDS) -> list[dict]:
    """A row for each run."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sweep.toml")
        path.write_text(SWEEP.format(points=points))
        for number in range(rounds):
            for jobs in JOBS:
                words = ["sweep", str(path), "--jobs", str(jobs), "--quiet"]
                rows.append(
                    {"points": points, "round": number, "jobs": jobs}
                    | timed([sys.executable, "-m", "penstock", *words])
                )
    return rows


def summary(rows: list[dict]) -> list[tuple[str, ...]]:
    """A line for each number of processes: medians, and how much faster
    it is than one.
    """
    lines = []
    by = {jobs: [r for r in rows if r["jobs"] == jobs] for jobs in JOBS}
    one = median(r["wall_s"] for r in by[JOBS[0]])
    for jobs, own in by.items():
        wall = median(r["wall_s"] for r in own)
        numbers = [wall, *(median(r[k] for r in own) for k in ("cpu_s", "first_cpu_s"))]
        most = max(r["load"] for r in own)
        lines.append(
            (str(jobs), *(f"{n:.1f}" for n in numbers), f"**{one / wall:.2f}**", f"{most:.1f}")
        )
    return lines


HEADER = (
    "`--jobs`",
    "wall clock, s",
    "CPU of all processes, s",
    "of the first, s",
    "times as fast",
    "load before, at most",
)


def blocks() -> dict[str, Callable[[], str]]:
    """The block of docs/sweeps.md."""
    return {"speed": speed}


def speed() -> str:
    """One process and two."""
    return frame(HEADER, summary(RECORD.rows()), (True,) * len(HEADER))


RECORD = Record(
    "sweep_speed",
    cases=lambda: ["small_fpga"],
    run=lambda case: {"rows": run()},
    sources=lambda case: on_model(
        "bench/sweep_speed.py",
        "runs/many.py",
        "runs/dispatch.py",
        "workloads/swiglu.py",
        preset(case),
    ),
)


def main() -> int:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--points", type=int, default=POINTS)
    p.add_argument("--rounds", type=int, default=ROUNDS)
    args = p.parse_args()
    rows = run(args.points, args.rounds)
    print_table(rows)
    lines = summary(rows)
    print_table([dict(zip(HEADER, line, strict=True)) for line in lines])
    return int(float(lines[-1][4].strip("*")) < TARGET)


if __name__ == "__main__":
    sys.exit(main())
