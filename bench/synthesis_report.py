"""The tables of docs/synthesis.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable

from made.synthesis import RECORD
from tables import frame

COSTS = {"LUT": "lut", "FF": "ff", "block RAM": "bram", "DSP": "dsp"}
"""Columns, and what of a row they have."""


def units() -> str:
    """Units of each kind and function, t = 2 beside t = 4."""
    found = RECORD.rows("unit ")
    edges = sorted({row["t"] for row in found})
    costs = {(row["name"], row["t"]): row for row in found}
    body = []
    for name in sorted({row["name"] for row in found}):
        of = [costs.get((name, t), {}).get(key) for t in edges for key in COSTS.values()]
        body.append((f"`{name}`", *map(_number, of)))
    return _table(["unit", *(f"{what}, t = {t}" for t in edges for what in COSTS)], body, 1)


def interconnects() -> str:
    """Memory sides, with their logic."""
    found = RECORD.rows("interconnect")
    body = [(row["sizes"], *(_number(row[key]) for key in COSTS.values())) for row in found]
    return _table(["interconnect of a load and a store", *COSTS], body, 1)


def rings() -> str:
    """The memories of rings."""
    found = RECORD.rows("ring")
    body = [(row["sizes"], _number(row["bram"])) for row in found]
    return _table(["ring of a load", "block RAM"], body, 1)


def fabrics() -> str:
    """Fabrics as a whole, with the cells that their LUTs are."""
    body = []
    for row in RECORD.rows("fabric"):
        numbers = [row["t"], *(row[key] for key in COSTS.values()), *row["cells"].values()]
        body.append((row["name"], *map(_number, numbers)))
    return _table(["fabric", "t", *COSTS, "LUT4", "CCU2C", "DPR16X4"], body, 1)


def _table(head: list[str], body: list[tuple], texts: int) -> str:
    return frame(head, body, [n >= texts for n in range(len(head))])


def _number(n: float | None) -> str:
    return "" if n is None else f"{n:,.0f}"


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/synthesis.md."""
    return {"units": units, "interconnects": interconnects, "rings": rings, "fabrics": fabrics}
