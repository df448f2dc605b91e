"""Tables of measurements as pages show them, and the history of their totals.

A cell is a template over the rows that it stands for: `{cycles:,}` is the value of the first row,
`{sum differ}`, `{max error:.1%}`, `{median share}` and `{count equal}` are of all of them.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
import statistics
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from measurements import MEASUREMENTS, RESULTS, Measurement, Row
from penstock.system.output import write_text

HISTORY = RESULTS / "history.csv"
FIELD = re.compile(r"\{(?:(\w+) )?([\w./ -]*?)(?::([^}]*))?\}")
TOTALS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "median": statistics.median,
    "count": lambda values: sum(map(bool, values)),
}


def filled(template: str, rows: list[Row]) -> str:
    """A template with the values of its rows; empty where none has a value."""

    def value(found: re.Match) -> str:
        total, key, form = found.groups()
        if total is not None and total not in TOTALS:
            total, key = None, f"{total} {key}"
        if key == "rows":
            return format(len(rows), form or "")
        values = [row[key] for row in rows if row.get(key) is not None]
        if not values:
            return ""
        return format(TOTALS[total](values) if total else values[0], form or "")

    return FIELD.sub(value, template)


@dataclass(frozen=True)
class Table:
    """A table of a page."""

    of: str  # name of the measurement
    # head, row: headers, and templates of their cells, with `|` between them
    head: str
    row: str
    # values that the rows have; a list has several
    where: dict[str, Any] = field(default_factory=dict)
    # keys of a line: rows that are equal in these are one line. None: each row is a line.
    by: list[str] | None = None
    total: str = ""  # first cell of a last line over all rows; empty for none

    def text(self) -> str:
        """The table in Markdown, with date, commit and command below."""
        rows = chosen(self.of, self.where)
        groups: dict[Any, list[Row]] = {}
        for k, row in enumerate(rows):
            key = k if self.by is None else tuple(row.get(name) for name in self.by)
            groups.setdefault(key, []).append(row)
        cells = self.row.split(" | ")
        lines = [[filled(cell, group) for cell in cells] for group in groups.values()]
        if self.total:
            lines.append([self.total, *(filled(cell, rows) for cell in cells[1:])])
        return f"{framed(self.head.split(' | '), lines)}\n\n{source(self.of, rows)}"


@dataclass(frozen=True)
class Line:
    """A line of the README's table: what it is, and a template over rows of a measurement."""

    what: str
    of: str
    measured: str
    where: dict[str, Any] = field(default_factory=dict)

    def value(self) -> str:
        return filled(self.measured, chosen(self.of, self.where))

    def cells(self) -> list[str]:
        one = MEASUREMENTS[self.of]
        dates, commits = origin(one, chosen(self.of, self.where))
        return [self.what, self.value(), f"`{one.command}`", dates, commits]


DECLARED = tomllib.loads((RESULTS.parent / "tables.toml").read_text(encoding="utf-8"))
SHORT = [Line(**line) for line in DECLARED.pop("short")]
"""Claims of the README; each is a series of docs/results/history.csv."""


def blocks(page: str) -> dict[str, Callable[[], str]]:
    """The measured blocks of a page."""
    return {name: Table(**table).text for name, table in DECLARED.get(page, {}).items()}


def short() -> str:
    """The README's table: a line for each claim, with command, date and commit."""
    return framed(
        ["what", "measured", "command", "date", "commit"], [line.cells() for line in SHORT]
    )


def chosen(of: str, where: dict[str, Any]) -> list[Row]:
    """Rows of a measurement that have these values."""

    def fits(row: Row) -> bool:
        return all(
            row.get(k) in v if isinstance(v, list) else row.get(k) == v for k, v in where.items()
        )

    return [row for row in MEASUREMENTS[of].rows() if fits(row)]


def framed(header: list[str], lines: Iterable[list[str]]) -> str:
    """A table in Markdown; columns of numbers are aligned to the right."""
    lines = list(lines)
    number = re.compile(r"[-+<>≤≥ ]*\d[\d.,e+-]*[ %x]*|")
    right = [all(number.fullmatch(line[k]) for line in lines) for k in range(len(header))]
    rule = "|" + "|".join("--:" if r else "---" for r in right) + "|"
    head, *rest = ("| " + " | ".join(cells) + " |" for cells in (header, *lines))
    return "\n".join([head, rule, *rest])


def origin(one: Measurement, rows: list[Row]) -> tuple[str, str]:
    """Dates and commits of rows, each once."""
    runs = one.stored()["runs"]
    used = [runs[k] for k in sorted({row["run"] for row in rows})]
    dates = sorted({run["date"] for run in used})
    commits = list(dict.fromkeys(run["commit"] for run in used))
    shown = ", ".join(f"`{c}`" for c in commits) if len(commits) <= 3 else f"{len(commits)} commits"
    days = [day(d) for d in dict.fromkeys((dates[0], dates[-1]))] if dates else []
    return " to ".join(days), shown


def day(date: str) -> str:
    """A date as a reader wants it: 28 Nov 2026."""
    return datetime.date.fromisoformat(date).strftime("%-d %b %Y")


def source(of: str, rows: list[Row]) -> str:
    """The line below a table: dates, commits and command."""
    dates, commits = origin(MEASUREMENTS[of], rows)
    return f"{dates}, {commits}, `{MEASUREMENTS[of].command}`."


def note_history(names: set[str]) -> None:
    """Append the claims on renewed measurements to the history."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in SHORT:
        if line.of in names and (rows := chosen(line.of, line.where)):
            last = MEASUREMENTS[line.of].stored()["runs"][max(row["run"] for row in rows)]
            writer.writerow([last["date"], last["commit"], line.what, line.value()])
    head = "date,commit,series,value\n"
    old = HISTORY.read_text(encoding="utf-8") if HISTORY.exists() else head
    write_text(HISTORY, old + out.getvalue())
