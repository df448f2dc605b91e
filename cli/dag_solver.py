"""``penstock dag``: solve, check, show and bench; `dag.py` adds run."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..machine.errors import PenstockError
from ..runs.tables import print_table
from ..scheduler.dag.anchors import anchor_of
from ..scheduler.dag.evaluate import Evaluation, evaluate
from ..scheduler.dag.problem import Problem
from ..scheduler.dag.readings import SOURCES, Readings
from ..scheduler.dag.show import draw
from ..scheduler.dag.solution import Schedule
from ..system import children, interrupts, memory, output

_OVERHEAD = 0.6
"""Seconds of a time budget kept for the final check, the write and the end of the process (a fifth
of it at most).
"""
_MOST_BROKEN = 50
"""Broken rules that are printed."""
_SILENCE = 5.0
"""Seconds without a better schedule after which a progress line says what is going on."""


def add_arguments(parser: argparse.ArgumentParser) -> Any:
    """Add the commands to a parser; each sets ``handler``, a function of the parsed arguments.

    Returns what further commands can be added to.
    """
    started = time.monotonic()
    readings = "\n".join(
        f"  {name}: {' | '.join(values)}\n      {SOURCES[name]}"
        for name, values in Readings.names().items()
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"readings (default first):\n{readings}"
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    c = commands.add_parser("solve", help="find a schedule")
    c.add_argument("problem", metavar="IN.json", help="the problem")
    c.add_argument(
        "solution", metavar="OUT.json", type=output.file("OUT.json"), help="the schedule"
    )
    c.add_argument(
        "--time",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="time budget in seconds from process start (default 10)",
    )
    _add_search(c, "write a record of the run")
    c.add_argument("--quiet", action="store_true", help="no progress lines")
    c.set_defaults(handler=_solve, started=started)

    c = commands.add_parser("check", help="cost a schedule, or name the rules it breaks")
    c.add_argument("problem", metavar="IN.json", help="the problem")
    c.add_argument("solution", metavar="OUT.json", help="the schedule")
    _add_readings(c)
    c.set_defaults(handler=_check)

    c = commands.add_parser("show", help="draw the DAG, its groups and where the time goes")
    c.add_argument("problem", metavar="IN.json", help="the problem")
    c.add_argument("solution", metavar="OUT.json", nargs="?", help="a schedule of it")
    c.add_argument(
        "--out",
        type=output.file("--out"),
        metavar="FILE",
        help="image file (default: the problem's name with .png, in this folder)",
    )
    _add_readings(c)
    c.set_defaults(handler=_show)

    c = commands.add_parser("bench", help="solve every problem of a folder against stored anchors")
    c.add_argument("folder", metavar="DIR", help="folder of problems")
    c.add_argument(
        "--time",
        type=_seconds,
        metavar="S",
        help="time budget per problem (default: the contest's limit, else 10)",
    )
    _add_search(c, "write the records")
    c.set_defaults(handler=_bench)
    return commands


def process_start() -> float:
    """Start of this process, in seconds of time.monotonic(); now, where the system does not tell
    (no /proc).
    """
    now = time.monotonic()
    try:
        ticks = int(
            Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        )  # proc(5): starttime, since boot
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    return now - age if 0 <= age < 60 else now


def _add_search(c: argparse.ArgumentParser, record: str) -> None:
    jobs = "threads that search tilings (default 1)"
    c.add_argument("--jobs", type=_positive, default=1, metavar="N", help=jobs)
    c.add_argument("--seed", type=int, default=0, help="seed of the local search")
    c.add_argument("--json", type=output.file("--json"), metavar="FILE", help=record)
    _add_readings(c)


def _add_readings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reading",
        action="append",
        default=[],
        type=_reading,
        metavar="NAME=VALUE",
        help="a reading of the rules (repeatable; see penstock dag -h)",
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, not {text}")
    return value


def _reading(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"takes NAME=VALUE, not {text[:60]!r}")
    return text


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return value


@contextmanager
def _of(path: str | Path) -> Iterator[None]:
    """Errors within name this file, too."""
    try:
        yield
    except PenstockError as error:
        where = f"{path}: {error.where}" if error.where else str(path)
        raise PenstockError(
            error.what, where=where, rule=error.rule, remedy=error.remedy
        ) from error


# -- solve --------------------------------------------------------------------


def _solve(args: argparse.Namespace) -> int:
    from ..scheduler.dag.solve import solve

    problem = Problem.load(args.problem)
    readings = Readings.parse(args.reading)
    kept = output.replaced(args.solution)  # else only the last one is written
    lines = _Lines(args.started, args.quiet)
    cpu = []

    def progress(step, schedule: Schedule) -> None:
        cpu.append(time.process_time())
        if kept:
            schedule.save(args.solution)
        lines.better(step)
        interrupts.heed()

    def stage(step) -> None:
        lines.stage(step)
        interrupts.heed()

    budget = max(0.8 * args.time, args.time - _OVERHEAD)
    with lines, _of(args.problem):
        result = solve(
            problem,
            seconds=budget,
            readings=readings,
            seed=args.seed,
            jobs=args.jobs,
            started=args.started,
            on_progress=progress,
            on_stage=stage,
        )
    result.schedule.save(args.solution)
    seconds = time.monotonic() - args.started
    print(
        f"{problem.name}: latency {result.latency:,.1f} in {len(result.schedule.subgraphs)} "
        f"subgraphs, proven bound {result.bound:,.1f} "
        f"(gap {result.gap:.2%}), {seconds:.1f} s{', interrupted' if result.interrupted else ''}"
    )
    if result.exact_cover:
        print(
            f"  best over the {result.candidates:,} candidate subgraphs found "
            f"({result.searches:,} tilings searched)"
        )
    if args.json:
        record = _record(problem, readings, result, seconds, cpu, args)
        output.write_text(args.json, json.dumps([record], indent=1) + "\n")
    left = args.time - (time.monotonic() - args.started)
    interrupts.within(max(left, 0), lambda: _print_other(problem, result.schedule, readings))
    return 0


class _Lines:
    """Progress on standard error: a line for each better schedule, and one after every few seconds
    without.
    """

    def __init__(self, started: float, quiet: bool):
        self.started = started
        self.quiet = quiet
        self.standing = "best -  bound -"
        self.doing = "first schedule"
        self.last = time.monotonic()
        self.over = threading.Event()

    def better(self, step: Any) -> None:
        self._stand(step)
        self._print(step.stage)

    def stage(self, step: Any) -> None:
        self._stand(step)
        self.doing = step.stage

    def _stand(self, step: Any) -> None:
        self.standing = f"best {step.latency:,.1f}  " + (
            f"bound {step.bound:,.1f}  gap {step.gap:.1%}" if step.bound else "bound -"
        )

    def _print(self, what: str) -> None:
        self.last = time.monotonic()
        if not self.quiet:
            print(
                f"{self.last - self.started:8.2f} s  {self.standing}  ({what})",
                file=sys.stderr,
                flush=True,
            )

    def _watch(self) -> None:
        while not self.over.wait(max(0.1, self.last + _SILENCE - time.monotonic())):
            if time.monotonic() >= self.last + _SILENCE:
                self._print(f"{self.doing} ...")

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def __exit__(self, *exc) -> None:
        self.over.set()


def _record(
    problem: Problem,
    readings: Readings,
    result: Any,
    seconds: float,
    cpu: list[float],
    args: argparse.Namespace,
) -> dict[str, Any]:
    return {
        "workload": f"dag:{problem.name}",
        "ops": len(problem.ops),
        "readings": readings.differing(),
        "time_limit_s": args.time,
        "jobs": args.jobs,
        "seed": args.seed,
        "latency": result.latency,
        "bound": result.bound,
        "gap": result.gap,
        "subgraphs": len(result.schedule.subgraphs),
        "exact_cover": result.exact_cover,
        "candidates": result.candidates,
        "searches": result.searches,
        "wall_s": seconds,
        "cpu_s": time.process_time(),
        "peak_memory_mb": memory.peak() / 2**20,
        "history": [[p.seconds, p.latency, at] for p, at in zip(result.history, cpu, strict=True)],
    }


# -- check and show -----------------------------------------------------------


def _check(args: argparse.Namespace) -> int:
    problem = Problem.load(args.problem)
    schedule = Schedule.load(args.solution)
    readings = Readings.parse(args.reading)
    broken = []
    evaluation = evaluate(problem, schedule, readings, broken=broken)
    for error in broken[:_MOST_BROKEN]:
        where = f"{args.solution}: {error.where}"
        shown = PenstockError(error.what, where=where, rule=error.rule, remedy=error.remedy)
        print(f"penstock: {shown}", file=sys.stderr)
    if broken:
        if len(broken) > _MOST_BROKEN:
            print(f"penstock: and {len(broken) - _MOST_BROKEN} more", file=sys.stderr)
        return 1
    _print_subgraphs(schedule, evaluation)
    print(f"total latency {evaluation.latency:,.1f}  (readings: {_named(readings)})")
    _print_other(problem, schedule, readings)
    return 0


def _print_other(problem: Problem, schedule: Schedule, readings: Readings) -> None:
    """The cost of the same schedule under the other reading of a product's cost."""
    other = "native-k" if readings.matmul_cost == "full-k" else "full-k"
    swapped = dataclasses.replace(readings, matmul_cost=other)
    latency = evaluate(problem, schedule, swapped, check_latencies=False).latency
    print(f"total latency {latency:,.1f}  with matmul_cost={other}")


def _named(readings: Readings) -> str:
    named = {"matmul_cost": readings.matmul_cost} | readings.differing()
    return ", ".join(f"{name}={value}" for name, value in named.items())


def _print_subgraphs(schedule: Schedule, evaluation: Evaluation) -> None:
    rows = []
    pairs = zip(schedule.subgraphs, evaluation.subgraphs, strict=True)
    for index, (entry, cost) in enumerate(pairs):
        ops = ",".join(map(str, entry.ops))
        row = {
            "#": str(index),
            "ops": ops if len(ops) <= 32 else ops[:29] + "...",
            "w x h x k": "x".join(map(str, entry.granularity)),
            "tiles": f"{cost.tiles:,}",
            "steps": f"{cost.steps:,}",
            "order": "snake" if entry.order else "raster",
            "retained": ",".join(map(str, entry.retain)) or "-",
            "latency": f"{cost.latency:,.1f}",
            "compute": f"{cost.compute:,.1f}",
            "memory": f"{cost.memory:,.1f}",
            "elements moved": f"{cost.loaded + cost.stored:,.0f}",
            "working set": f"{cost.working_set:,.0f}",
            "bound by": cost.bound_by,
        }
        rows.append(row)
    print_table(rows, keep=("latency", "working set", "bound by"))


def _show(args: argparse.Namespace) -> int:
    problem = Problem.load(args.problem)
    readings = Readings.parse(args.reading)
    schedule = evaluation = None
    if args.solution:
        schedule = Schedule.load(args.solution)
        evaluation = evaluate(problem, schedule, readings)
        _print_subgraphs(schedule, evaluation)
    out = args.out or f"{problem.name}.png"
    output.writable(out)
    draw(out, problem, schedule, evaluation)
    print(f"drawn: {out}")
    return 0


# -- bench --------------------------------------------------------------------


def _bench(args: argparse.Namespace) -> int:
    readings = Readings.parse(args.reading)
    if not Path(args.folder).is_dir():
        raise PenstockError("not a folder", where=args.folder)
    files = sorted(
        Path(args.folder).glob("*.json"),
        key=lambda p: [int(s) if s.isdigit() else s for s in re.split(r"(\d+)", p.stem)],
    )
    if not files:
        raise PenstockError("no .json file in the folder", where=args.folder)
    rows = []
    records = []
    failed = False
    for path in files:
        try:
            problem = Problem.load(path)
        except PenstockError as error:
            print(f"penstock: skipped: {error}", file=sys.stderr)
            continue
        anchor = anchor_of(problem, readings)
        limit = args.time or (anchor.seconds if anchor else 10.0)
        try:
            record = _bench_one(path, limit, args)
        except PenstockError as error:
            print(f"penstock: {error}", file=sys.stderr)
            failed = True
            continue
        if anchor:
            record |= {"anchor_winner": anchor.winner, "anchor_best": anchor.best}
            failed |= record["latency"] > anchor.winner
        records.append(record)
        row = {
            "problem": problem.name,
            "ops": str(len(problem.ops)),
            "limit s": f"{limit:g}",
            "latency": f"{record['latency']:,.1f}",
            "bound": f"{record['bound']:,.1f}",
            "gap": f"{record['gap']:.1%}",
            "best known": f"{anchor.best:,.1f}" if anchor else "-",
            "vs best": f"{record['latency'] / anchor.best - 1:+.2%}" if anchor else "-",
            "vs winner": f"{record['latency'] / anchor.winner - 1:+.1%}" if anchor else "-",
            "first s": f"{record['first_s']:.2f}",
            "settled s": f"{record['settled_s']:.1f}",
            "process s": f"{record['process_s']:.1f}",
        }
        rows.append(row)
        print(f"{problem.name}: {record['latency']:,.1f}", file=sys.stderr, flush=True)
    if rows:
        print_table(rows, keep=("latency", "bound", "gap"))
    if args.json:
        output.write_text(args.json, json.dumps(records, indent=1) + "\n")
    return 1 if failed or not records else 0


def _bench_one(path: Path, limit: float, args: argparse.Namespace) -> dict[str, Any]:
    """Solve in a fresh process, as a contestant would be run; check the written schedule here."""
    with children.temporary() as folder:
        solution = folder / "solution.json"
        record_file = folder / "record.json"
        command = [*children.module("penstock"), "dag", "solve", str(path), str(solution)]
        command += ["--quiet", "--time", str(limit), "--jobs", str(args.jobs)]
        command += ["--seed", str(args.seed), "--json", str(record_file)]
        command += [word for reading in args.reading for word in ("--reading", reading)]
        begin = time.monotonic()
        done = children.run(command)
        seconds = time.monotonic() - begin
        if done.returncode:
            said = done.stderr.strip().removeprefix("penstock: ")[-300:]
            raise PenstockError(said or "the solver failed", where="" if said else str(path))
        evaluate(Problem.load(path), Schedule.load(solution), Readings.parse(args.reading))
        record = json.loads(record_file.read_text())[0]
    history = record["history"]
    return record | {"process_s": seconds, "first_s": history[0][0], "settled_s": history[-1][0]}
