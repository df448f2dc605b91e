"""The tables of docs/configuration.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable

from made.mapping import MAPPINGS, RECORD
from tables import frame


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks on mappings in docs/configuration.md."""
    return {"mappings": mappings, "mapped": mapped}


def mappings() -> str:
    """The mappings that are compared."""
    rows = [(name, f"`{fields}`") for name, fields in MAPPINGS.items()]
    return frame(("short", "`mapping`"), rows, (False, False))


def mapped() -> str:
    """For each workload and mapping cycles, rows that are hit, and the
    busiest channel.
    """
    header = ("workload", "lines", *MAPPINGS)
    rows = []
    for entry in RECORD.entries():
        found = {row["mapping"]: row for row in entry["rows"]}
        least = min(row["cycles"] for row in found.values())
        cells = [cell(found[name], least) for name in MAPPINGS]
        rows.append((entry["case"], f"{found[next(iter(MAPPINGS))]['lines']:,}", *cells))
    return frame(header, rows, (False, *[True] * (1 + len(MAPPINGS))))


def cell(row: dict, least: int) -> str:
    """Cycles, row hits and conflicts of the lines in percent, the
    busiest channel's load.
    """
    cycles = f"{row['cycles']:,}"
    told = f"**{cycles}**" if row["cycles"] == least else cycles
    hits, conflicts = (100 * row[name] / row["lines"] for name in ("hits", "conflicts"))
    return f"{told}; {hits:.0f} / {conflicts:.0f}; {row['busiest']:.1f}"
