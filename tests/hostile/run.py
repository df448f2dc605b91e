"""Runs command lines of bad input, each in a process of its own, and tells what none of them may
do.

A command ends by itself with 0, 1 or 2, and within `SECONDS` of processor time beyond a ``--time``;
what it refuses, it refuses in one message without a traceback; a file that is there when it has
failed is whole; nothing of the kind that has to be refused is taken.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

from lines import lines
from whole import Line, base

SECONDS = 10.0
"""Seconds of processor time."""
WALL = 120.0
MEMORY = 8 << 30
"""Bytes of address space."""


def run(line: Line, whole: dict[str, bytes]) -> str | None:
    """Fault of a command's end, or None."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        at = Path(folder, "in")
        errors_file = Path(folder, "errors")
        at.mkdir()
        for name, data in (whole | line.files).items():
            if data is None:
                (at / name).mkdir()
            else:
                (at / name).write_bytes(data)
        before = {p.name: p.read_bytes() if p.is_file() else None for p in at.iterdir()}
        code, seconds = _forked(line, at, errors_file)
        text = errors_file.read_text(errors="replace")
        return _judged(line, code, seconds, text, before, at)


def _forked(line: Line, at: Path, errors_file: Path) -> tuple[int, float]:
    pid = os.fork()
    if not pid:
        _child(line, at, errors_file)
    start = time.monotonic()
    while True:
        done, status, use = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - start > WALL:
            os.killpg(pid, signal.SIGKILL)
            _, status, use = os.wait4(pid, 0)
            break
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(status), use.ru_utime + use.ru_stime


def _child(line: Line, at: Path, errors_file: Path) -> None:
    status = 99
    try:
        os.setsid()
        os.chdir(at)
        null = os.open(os.devnull, os.O_RDWR)
        errors = os.open(errors_file, os.O_WRONLY | os.O_CREAT)
        for target, number in ((null, 0), (null, 1), (errors, 2)):
            os.dup2(target, number)
        limit = int(SECONDS + line.seconds + 5)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sys.argv = ["penstock", *line.argv]
        from penstock.cli import main

        status = main(line.argv)
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status or 0)


def _judged(line: Line, code: int, seconds: float, text: str, before: dict, at: Path) -> str | None:
    messages = [x for x in text.splitlines() if not x.startswith("[")]  # progress on a slow machine
    if "Traceback" in text:
        return f"traceback: {messages[-1]}"
    if code not in (0, 1, 2):
        return f"status {code}: {' '.join(messages)[-200:]}"
    if seconds > SECONDS + line.seconds:
        return f"{seconds:.1f} s of processor time"
    if line.refused and code == 0:
        return "taken in silence"
    if code and not any(
        x.startswith(("penstock", "usage: penstock", "FAILED")) or ": " in x for x in messages
    ):
        return f"status {code} without a message"
    if any("Warning" in x for x in messages):
        return f"a warning: {next(x for x in messages if 'Warning' in x)}"
    return _left(line, code, before, at)


def _left(line: Line, code: int, before: dict, at: Path) -> str | None:
    for path in at.rglob("*"):
        if path.name.startswith(".penstock-"):
            return f"{path.name} is left behind"
    if code == 0:
        return None
    for path in at.iterdir():
        if path.name == "__pycache__":
            continue
        if path.name not in before:
            if path.is_file() and path.suffix == ".json" and _whole(path):
                continue
            return f"{path.name} is written by a command that failed"
        if path.is_file() and path.read_bytes() != before[path.name]:
            return f"{path.name} is changed by a command that failed"
    return None


def _whole(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except ValueError:
        return False
    return True


def warm() -> None:
    """Load once what every command would load again."""
    import importlib

    for name in (
        "penstock.runs.api",
        "penstock.runs.explain",
        "penstock.frontend",
        "penstock.fuzz.campaign",
        "penstock.runs.deadlock",
        "penstock.overlay.runs.comparison",
        "penstock.scheduler.dag.solve",
        "matplotlib.figure",
        "penstock.runs.dag_run",
    ):
        importlib.import_module(name)
    from penstock.runs import api

    with tempfile.TemporaryDirectory() as folder:
        for name, data in base().items():
            Path(folder, name).write_bytes(data)
        api.run(str(Path(folder, "mine.py")), str(Path(folder, "mine.toml")))
    gc.collect()
    gc.freeze()


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--sample", type=int, help="so many lines, of each kind alike (default: all)")
    args = p.parse_args()
    tried = lines(args.seed, args.sample)
    warm()
    whole = base()
    faults = 0
    for line in tried:
        if found := run(line, whole):
            faults += 1
            shown = shlex.join(w if len(w) <= 60 else f"{w[:50]}...({len(w)})" for w in line.argv)
            inside = {n: d and d[:100] for n, d in line.files.items()}
            print(f"{found}\n    penstock {shown}  {inside or ''}", flush=True)
    print(f"{len(tried)} command lines, {faults} faults")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
