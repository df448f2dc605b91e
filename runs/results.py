"""Views of a store of results: tables, fronts, files and plots, a row at a time."""

from __future__ import annotations

import csv
import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..machine.errors import PenstockError, nearest
from ..machine.record import Record
from ..system.output import write_picture, writing
from .pareto import Front
from .store import Store
from .task import sources_digest

COLUMNS = (
    "backend",
    "timing",
    "seed",
    "cycles",
    "bound_cycles",
    "bound_by",
    "dram_bytes",
    "onchip_bytes",
    "offchip_utilisation",
    "compute_utilisation",
    "values_ok",
    "failed",
)
"""Columns by default, behind program, machine and parameters."""


def flat(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a table that a stored row makes: one for each backend that ran, or failed."""
    first = {"program": row["program"], "config": row["config"], **row["params"]}
    last = {"seed": row["seed"], "failed": row["failed"]}
    for record in row["records"] or [{"timing": row["timing"]}]:
        yield first | {k: v for k, v in record.items() if k not in ("config", "params")} | last


def chosen(store: Store, where: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """The rows of a store whose columns have one of the values that are asked for."""
    for stored in store.rows():
        for row in flat(stored):
            if all(row.get(name) in values for name, values in where.items()):
                yield row


def table(
    rows: Iterable[dict[str, Any]],
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    most: int | None = None,
) -> list[dict[str, Any]]:
    """Rows to print: at most so many, the smallest by a column where one is asked for."""
    kept: list[dict[str, Any]] = []
    if sort is not None and most is not None:
        kept = heapq.nsmallest(most, rows, key=lambda r: _order(r.get(sort)))
    else:
        for row in rows:
            if most is not None and len(kept) == most:
                break
            kept.append(row)
        if sort is not None:
            kept.sort(key=lambda r: _order(r.get(sort)))
    return [_shown(row, columns) for row in kept]


def _order(value: Any) -> tuple[int, Any]:
    """Numbers first, then texts, then nothing."""
    if value is None:
        return 2, 0
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


def _shown(row: Mapping[str, Any], columns: Sequence[str] | None) -> dict[str, Any]:
    """The columns of a row: program and parameters, then those that are asked for."""
    first = [n for n in row if n == "program" or n not in KNOWN]
    out = {n: row[n] for n in first} | {n: row.get(n) for n in columns or COLUMNS}
    if columns is None and out["failed"] is None:
        del out["failed"]
    return out


KNOWN = frozenset(Record.__dataclass_fields__) | {"program", "failed"}
"""Columns that are no parameter."""


def check_columns(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Raise PenstockError for a column that no row has."""
    left = set(names)
    seen: dict[str, None] = {}
    for row in rows:
        left.difference_update(row)
        if not left:
            return
        seen.update(dict.fromkeys(row))
    if left and seen:
        name = min(left)
        raise PenstockError(f"no column {name!r}", remedy=nearest(name, seen, "columns are"))


def _numbers(row: Mapping[str, Any], names: Sequence[str]) -> tuple[float, ...] | None:
    """Columns of a row, where all of them are numbers."""
    found = [v for n in names if isinstance(v := row.get(n), (int, float))]
    return tuple(found) if len(found) == len(names) else None


def front(rows: Iterable[dict[str, Any]], objectives: Sequence[str]) -> list[dict[str, Any]]:
    """The rows that no other is as small as, and smaller somewhere, by the first objective."""
    found: Front[dict[str, Any]] = Front()
    for row in rows:
        if (at := _numbers(row, objectives)) is not None:
            found.add(at, row)
    return [row for _, row in sorted(found.items, key=lambda item: item[0])]


def export(rows: Callable[[], Iterable[dict[str, Any]]], path: str) -> int:
    """Write rows as CSV, in two passes: one for the columns, one for the rows; returns how many."""
    names = list(dict.fromkeys(name for row in rows() for name in row))
    count = 0
    with writing(path) as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        for row in rows():
            writer.writerow(row)
            count += 1
    return count


def export_records(store: Store, path: str) -> int:
    """Write all records as JSON, as `--json` of a run does; returns how many."""
    count = 0
    with writing(path) as stream:
        for record in store.records():
            stream.write(",\n" if count else "[\n")
            stream.write(json.dumps(asdict(record)))
            count += 1
        stream.write("\n]\n" if count else "[]\n")
    return count


def plot(rows: Iterable[dict[str, Any]], x: str, y: str, path: str) -> int:
    """Draw one column against another, with the Pareto front of both; returns the points drawn."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    best: Front[None] = Front()
    series: dict[str, list[tuple[float, ...]]] = {}
    for row in rows:
        if (at := _numbers(row, (x, y))) is not None:
            series.setdefault(f"{row['program']}, {row.get('backend')}", []).append(at)
            best.add(at, None)
    fig, ax = plt.subplots(figsize=(8, 5), layout="constrained")
    for name, points in series.items():
        ax.scatter(*zip(*points, strict=True), s=8, label=name)
    if best.items:
        ax.step(*zip(*sorted(at for at, _ in best.items), strict=True), "k-", where="post", lw=0.8)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.legend(frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    write_picture(Path(path) if path != "-" else path, fig, dpi=130, metadata={"Software": None})
    plt.close(fig)
    return sum(map(len, series.values()))


def stale(row: Mapping[str, Any]) -> bool:
    """True if a stored row was made of other sources than this tree's, or of a program that is not
    known here.
    """
    try:
        return sources_digest(row["program"], row["on"] != "model") != row["sources"]
    except PenstockError:
        return True
