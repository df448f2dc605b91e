"""Times that a new user waits for, in an environment of its own with empty caches: exit 1 on a
miss.

    python bench/first_minute.py

The phases: installation of this checkout, `penstock --help`, the first comparison of RTL and model
on the small machine, and the whole demo, again with empty caches. Each has its wall time, the CPU
time of all its processes, and the longest time without a line of output. At most two cores are
used. Run it on a machine that does nothing else; `nox -s measure -- first_minute` writes the table.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from clock import now
from measurements import Bench, Row
from penstock.runs.tables import print_table

ROOT = Path(__file__).resolve().parents[1]
CORES = 2
AGREED = re.compile(r"^model = RTL: (\d+)/\1 channels observed, 0 mismatched beats(;|$)")
OWN = re.compile("PYTHON|VIRTUAL_ENV|PENSTOCK|NUMBA|YOWASP|XDG_CACHE|CCACHE")
"""Variables that a new user has not."""


@dataclass(frozen=True)
class Phase:
    """Times of one command: until RTL and model are said to be equal (None where they are not
    compared), and the longest without a line of output.
    """

    name: str
    wall_s: float
    cpu_s: float
    agreed_s: float | None
    silent_s: float


def run(name: str, command: list[str], folder: Path, env: dict[str, str]) -> Phase:
    """Run one command; raises SystemExit with its output where it fails."""
    start, cpu = now()
    lines: list[tuple[float, str]] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        lines.extend((time.perf_counter() - start, line.rstrip()) for line in process.stdout)
    end, cpu_end = now()
    if process.returncode:
        sys.exit(f"{name} failed:\n" + "\n".join(text for _, text in lines[-30:]))
    times = [0.0, *(at for at, _ in lines), end - start]
    silent = max(b - a for a, b in itertools.pairwise(times))
    agreed = next((at for at, text in lines if AGREED.match(text)), None)
    return Phase(name, end - start, cpu_end - cpu, agreed, silent)


def phases(folder: Path) -> list[Phase]:
    """All phases in their order."""
    plain = {k: v for k, v in os.environ.items() if not OWN.match(k)}
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    bin = folder / "env" / "bin"
    plain["PATH"] = f"{bin}:{plain['PATH']}"

    def fresh(name: str) -> tuple[Path, dict[str, str]]:
        """An empty folder to work in, and an environment whose caches are empty."""
        home = folder / name
        (home / "work").mkdir(parents=True)
        caches = {"HOME": home, "XDG_CACHE_HOME": home / "cache", "NUMBA_CACHE_DIR": home / "numba"}
        return home / "work", plain | {key: str(path) for key, path in caches.items()}

    penstock = str(bin / "penstock")
    first = [penstock, "run", "program.py", "--config", "small_fpga", "--on", "both"]
    pip = [str(bin / "python"), "-m", "pip", "install", "--quiet", "."]
    found = [run("installation", pip, ROOT, plain)]
    found.append(run("help", [penstock, "--help"], *fresh("help")))
    place = fresh("first")
    run("new", [penstock, "new"], *place)
    found.append(run("first comparison", first, *place))
    return [*found, run("demo", [penstock, "demo"], *fresh("demo"))]


def targets(found: list[Phase]) -> list[Row]:
    """The times asked for, beside those measured."""
    _, help_, first, demo = found
    rows = [
        ("first model = RTL line, wall s", 75.0, first.agreed_s),
        ("first comparison, CPU s", 30.0, first.cpu_s),
        ("first model = RTL line of the demo, wall s", 75.0, demo.agreed_s),
        ("whole demo, wall s", 150.0, demo.wall_s),
        ("penstock --help, CPU s", 0.3, help_.cpu_s),
        ("longest silence, s", 5.0, max(first.silent_s, demo.silent_s)),
    ]
    return [
        {"what": what, "at most": most, "measured": got and round(got, 2)}
        | {"met": got is not None and got <= most}
        for what, most, got in rows
    ]


def measured() -> tuple[list[Phase], list[Row]]:
    """The phases and the targets, on at most two cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory(prefix="penstock-first-", ignore_cleanup_errors=True) as made:
        found = phases(Path(made))
    return found, targets(found)


FIRST_MINUTE = Bench(lambda: ["all"], lambda case: measured()[1])


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    found, rows = measured()
    print_table([vars(phase) for phase in found])
    print_table(rows)
    return int(not all(row["met"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
