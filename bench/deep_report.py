"""The table of deep tests in docs/contributing.md, for
`docs/generate.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from made.deep import PARTS, RECORD
from tables import frame


def blocks() -> dict[str, Callable[[], str]]:
    """The block of docs/contributing.md."""
    return {"deep tests": parts}


def parts() -> str:
    """A row for each part; one that has not passed yet has its name
    alone.
    """
    stored = {entry["case"]: entry for entry in RECORD.entries()}
    rows = []
    for part in PARTS:
        cells = ("", "", "", "")
        if entry := stored.get(part):
            (row,) = entry["rows"]
            minutes = f"{entry['seconds'] / 60:.1f}"
            cells = (str(row["passed"]), str(row["skipped"]), minutes, entry["commit"])
        rows.append((part, *cells))
    header = ("part", "passed", "skipped", "minutes", "passed at")
    return frame(header, rows, (False, True, True, True, False))
