"""The on-chip rule `machine`: pages that the scratchpads of a lowered program take at most
(docs/timing.md section 4).

The lowering notes, for every scratchpad, the physical tiles of a buffer
of each writer (``meta["buffers"]`` of the unit graph; expressions in
the program's symbols as text). A scratchpad's own pages
(`machine.sized`), the figure and the checks of runs are all
:func:`most_pages` of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import sympy

from ...machine.beat import ELEMENT_BITS, Tile
from ...machine.config import Machine
from ...machine.errors import ProgramError
from ...machine.unitgraph import UnitGraph
from ..symbols import count_symbol

RULE = "machine"


def most_pages(m: Machine, tiles: Iterable[sympy.Expr | int]) -> sympy.Expr:
    """Pages that a scratchpad has in use at most; ``tiles``: the physical tiles of the largest
    buffer of each writer.

    A writer holds `machine.buffers` buffers at a time, each in pages of its own; with 0, and at
    most, all pages are in use.
    """
    if not m.buffers:
        return sympy.Integer(m.pages)
    return sympy.Min(
        m.pages, m.buffers * sum(sympy.ceiling(sympy.sympify(n) / m.frames) for n in tiles)
    )


def scratchpad_pages(units: UnitGraph, m: Machine) -> dict[int, sympy.Expr]:
    """Pages in use at most, by unit id, over the program's symbols: put in the largest size that
    each takes.
    """
    return {x["unit"]: most_pages(m, map(_expression, x["tiles"])) for x in units.meta["buffers"]}


def page_bytes(units: UnitGraph, m: Machine) -> dict[int, int]:
    """Bytes of a page of each scratchpad's tiles, by unit id."""
    memories = set(units.memories())
    return {
        c.dst[0]: m.frames * m.t * m.t * ELEMENT_BITS[c.payload.dtype] // 8
        for c in units.channels
        if c.dst[0] in memories and isinstance(c.payload, Tile)
    }


def requirement(units: UnitGraph, m: Machine) -> dict[str, sympy.Expr]:
    """Bytes of the pages in use at most, by program node.

    Raises ProgramError for a program lowered for another timing.
    """
    if units.meta["timing"] != RULE:
        raise ProgramError(
            f"on-chip rule `{RULE}` counts pages of scratchpads, the timing "
            f"`{units.meta['timing']}` has none",
            remedy="use the rule `paper` or `published`, or the timing `machine`",
        )
    size = page_bytes(units, m)
    out = {}
    for u, pages in scratchpad_pages(units, m).items():
        node = units.units[u].node
        out[node] = out.get(node, 0) + pages * size[u]
    return out


def _expression(text: str | int) -> sympy.Expr:
    """A number of tiles as the unit graph has it; every name that is not called is a symbol of the
    program.
    """
    return sympy.sympify(
        text,
        locals={
            name: count_symbol(name) for name in re.findall(r"\b[A-Za-z_]\w*\b(?!\()", str(text))
        },
    )
