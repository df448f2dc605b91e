"""The table of memories in docs/architecture.md, for
`docs/generate.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from made.onchip import NAMES, RECORD
from penstock.hw.memories import CLASSES
from tables import frame


def blocks() -> dict[str, Callable[[], str]]:
    """The block of docs/architecture.md."""
    return {"memories": memories}


def memories() -> str:
    """A row for each use, a column for each design."""
    found = {entry["case"]: entry["rows"] for entry in RECORD.entries()}
    names = [name for name in NAMES if name in found]
    bits = {name: {row["use"]: row["bits"] for row in found[name]} for name in names}
    rows = [(use, *(amount(bits[name][use]) for name in names)) for use in CLASSES]
    total = [amount(sum(bits[name].values())) for name in names]
    header = ("memory, bytes", *names)
    right = (False, *[True] * len(names))
    return frame(header, [*rows, ("all", *total)], right)


def amount(bits: int) -> str:
    """Bits as bytes."""
    return f"{bits / 8:,.0f}"
