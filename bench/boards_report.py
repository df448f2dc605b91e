"""The bitstreams of docs/board.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable

from made.boards import RECORD
from tables import frame

SLOWEST = "MHz that its slowest path allows"


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks that are made of records."""
    return {"bitstreams": bitstreams}


def bitstreams() -> str:
    """A line for each design and seed."""
    rows = RECORD.rows()
    cells = list(rows[0]["used"]) if rows else []
    body = [
        (
            row["design"],
            f"`{row['board']}`",
            *(_share(*row["used"][name]) for name in cells),
            str(row["seed"]),
            f"{row['fmax_mhz']:.1f}",
            f"{row['synthesis_s'] / 60:.1f}",
            f"{row['routing_s'] / 60:.1f}",
        )
        for row in rows
    ]
    head = ["design", "board", *cells, "seed", SLOWEST, "synthesis, CPU min", "place and route"]
    return frame(head, body, [n >= 2 for n in range(len(head))])


def _share(used: int, there: int) -> str:
    return f"{used:,} ({used / there:.0%})"
