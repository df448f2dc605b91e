"""A floor plan of a mesh: its tiles' block RAMs, at places of the part.

Little ties a mesh to the pins of a board. So an analytic placer heaps its tiles up, and the wires
there do not suffice, though most of the part is empty. Tiles whose block RAMs have places spread by
themselves.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

BLOCK_RAM = "DP16KD"
TILE = re.compile(r"\btile_(\d+)_(\d+)\.")
"""Column and row of a cell's tile, in the cell's name."""


@dataclass(frozen=True)
class Site:
    """A place of a block RAM."""

    # x, y: column and row of the part
    x: int
    y: int
    bel: str  # what nextpnr calls it


WIDTH = 126
HEIGHT = 95
"""Columns and rows of an ECP5 of 85,000 look-up tables."""
ROWS = (22, 46, 70, 82)
GROUPS = (*range(4, 59, 9), *range(69, 115, 9))
"""Rows of its block RAMs; columns in which a group of four begins."""
SITES = tuple(
    Site(x + 2 * k, y, f"X{x + 2 * k}/Y{y}/EBR{k}") for y in ROWS for x in GROUPS for k in range(4)
)
"""Places of all its block RAMs."""


def pin(netlist: dict[str, Any], cols: int, rows: int) -> int:
    """Give each block RAM of a tile the free place that is nearest to the tile's own, in turns.

    Parameters
    ----------
    netlist
        A design as Yosys writes it in JSON, flat; changed.
    cols, rows
        Of the mesh, whose tiles share the part evenly.

    Returns
    -------
    pinned
        Block RAMs that have a place; the others are the placer's.
    """
    tiles: dict[tuple[int, int], list[dict]] = defaultdict(list)
    for module in netlist["modules"].values():
        for name, cell in sorted(module.get("cells", {}).items()):
            if cell["type"] == BLOCK_RAM and (found := TILE.search(name)):
                tiles[int(found[1]), int(found[2])].append(cell)
    pairs = [[(tile, cell) for cell in tiles[tile]] for tile in sorted(tiles)]
    turns = [pair for pair in chain.from_iterable(zip_longest(*pairs)) if pair]
    free = list(SITES)
    for (col, row), cell in turns[: len(SITES)]:
        x = (col + 0.5) * WIDTH / cols
        y = (row + 0.5) * HEIGHT / rows
        site = min(free, key=lambda s: abs(s.x - x) + abs(s.y - y))
        free.remove(site)
        cell.setdefault("attributes", {})["BEL"] = site.bel
    return min(len(turns), len(SITES))
