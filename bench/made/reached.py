"""Rows of the records of coverage: what a run reaches, file by file."""

from __future__ import annotations

from collections import defaultdict

from penstock.tb.coverage import Reached
from penstock.tb.mutants import line_of

PARTS = ("there", "entered", "statements", "executed")
"""What a row says of a file: branches, and lines of assignments."""


def rows_of(found: Reached) -> list[dict]:
    """A row for each file of ``hw/``; places as one text, to be short.
    ``lines`` is what the lines of branches that are not entered say.
    """
    files: dict[str, dict[str, list[str]]] = defaultdict(lambda: {part: [] for part in PARTS})
    for part in PARTS:
        for place in sorted(getattr(found, part), key=order):
            file, _, where = place.rpartition(":")
            if file.startswith("hw/"):
                files[file][part].append(where)
    rows = []
    for file, own in sorted(files.items()):
        row = {part: " ".join(at) for part, at in own.items()}
        lines = said(file, own)
        rows.append({"file": file, **row, "lines": lines})
    return rows


def said(file: str, own: dict[str, list[str]]) -> dict[str, str]:
    """Number of a line of a branch that is not entered -> what it says,
    with its number among equal lines.
    """
    left = set(own["there"]) - set(own["entered"])
    numbers = sorted({int(where.partition(".")[0]) for where in left})
    found = {}
    for n in numbers:
        line = line_of(f"{file}:{n}")
        found[str(n)] = line.removeprefix(f"{file}: ")
    return found


def order(place: str) -> tuple[str, int, str]:
    """By file and line."""
    file, _, where = place.rpartition(":")
    line, _, way = where.partition(".")
    return file, int(line), way
