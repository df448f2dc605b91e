"""An array for a set of programs: how many sites of each letter of a given array hold every one of
them, and a grid of these sites.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from ...machine.array.description import Array
from ...machine.array.netlist import with_buffers
from ...machine.array.network import Network
from ...machine.errors import LoweringError
from ...machine.unitgraph import UnitGraph
from .fit import missing
from .problem import Joins, joins_of

MOST_SITES = 1024


def sites_for(graphs: Sequence[UnitGraph], array: Array) -> dict[str, int]:
    """Number of sites of each letter that hold each of some programs, of the fewest slots (an
    integer program, solved by HiGHS).

    Parameters
    ----------
    graphs
        Of the machine that the array's configuration describes.
    array
        Whose sites there are to choose from.

    Raises
    ------
    LoweringError
        No site has a slot for a unit, or the sites are too many.
    """
    letters = sorted(array.sites)
    one_each = Network(replace(array, grid=("".join(letters),)))
    letter_of = np.array([s.col for s in one_each.slots])
    model = _Model(len(letters))
    for graph in graphs:
        program = with_buffers(graph)
        joins = joins_of(program, one_each)
        lost = [u for u, row in zip(joins.cells, joins.table, strict=True) if not row.any()]
        if lost:
            raise missing(program, one_each, lost)
        model.add(_uses(joins, one_each), letter_of)
    size = np.array([len(array.sites[x].slots) for x in letters])
    found = model.least(size)
    if found is None or found.sum() > MOST_SITES:
        raise LoweringError(
            "finds no array of these sites",
            f"array {array.name}",
            f"an array has at most {MOST_SITES} sites",
            "give fewer programs, or sites with more slots",
        )
    return {x: int(n) for x, n in zip(letters, found, strict=True) if n}


def _uses(joins: Joins, network: Network) -> Counter[tuple[tuple[int, ...], ...]]:
    """Needs of a program's units: the choices of each, a choice being the slots that it takes.
    Units that only a wire joins choose together.
    """
    n_slots = len(network.slots)
    asked: Counter[tuple[tuple[int, ...], ...]] = Counter()
    paired: set[int] = set()
    for net in joins.tied():
        source, end = joins.ends[net]
        paired |= {source, end}
        asked[tuple(divmod(key, n_slots) for key in joins.wired[net])] += 1
    for cell, row in enumerate(joins.table):
        if cell not in paired:
            asked[tuple((int(s),) for s in np.flatnonzero(row))] += 1
    return asked


class _Model:
    """An integer program: sites by letter, and units by choice."""

    def __init__(self, letters: int):
        self.columns = letters
        self.entries: list[tuple[int, int, int]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def row(self, terms: list[tuple[int, int]], low: float, high: float) -> None:
        """A constraint: the sum of column times factor lies between."""
        self.entries += [(len(self.low), column, factor) for column, factor in terms]
        self.low.append(low)
        self.high.append(high)

    def add(self, uses: Counter[tuple[tuple[int, ...], ...]], letter_of: np.ndarray) -> None:
        """A program: every unit has a choice, and every slot one unit."""
        taken: dict[int, list[tuple[int, int]]] = {}
        for choices, count in uses.items():
            own = range(self.columns, self.columns + len(choices))
            self.columns = own.stop
            self.row([(column, 1) for column in own], count, count)
            for column, slots in zip(own, choices, strict=True):
                for slot in slots:
                    taken.setdefault(slot, []).append((column, 1))
        for slot, terms in taken.items():
            self.row([*terms, (int(letter_of[slot]), -1)], -np.inf, 0)

    def least(self, size: np.ndarray) -> np.ndarray | None:
        """Sites by letter, of the fewest slots; None if there are none."""
        rows, columns, factors = zip(*self.entries, strict=True)
        shape = (len(self.low), self.columns)
        cost = np.zeros(self.columns)
        cost[: len(size)] = size + 1e-3
        found = milp(
            cost,
            integrality=np.ones(self.columns),
            bounds=Bounds(0, np.inf),
            constraints=LinearConstraint(
                coo_array((factors, (rows, columns)), shape=shape).tocsc(), self.low, self.high
            ),
        )
        return None if found.x is None else np.round(found.x[: len(size)]).astype(int)


def grid_of(count: dict[str, int], array: Array) -> tuple[str, ...]:
    """A grid of sites, nearly square: those with off-chip slots at the edges, letters spread
    evenly; places that are left get the letter that there is most of.
    """
    total = sum(count.values())
    cols = math.isqrt(total - 1) + 1
    rows = -(-total // cols)
    most = max(sorted(count), key=lambda x: count[x])
    count = count | {most: count[most] + rows * cols - total}
    outer = [x for x in count if any(s.offchip for s in array.sites[x].slots)]
    inner = [x for x in count if x not in outer]
    letters = [*_spread(outer, count), *_spread(inner, count)]
    places = [(r, c) for r in range(rows) for c in range(cols)]
    places.sort(key=lambda p: min(p[0], p[1], rows - 1 - p[0], cols - 1 - p[1]))
    at = dict(zip(places, letters, strict=True))
    return tuple("".join(at[r, c] for c in range(cols)) for r in range(rows))


def _spread(letters: list[str], count: dict[str, int]) -> list[str]:
    """Each letter as often as it counts, spread evenly."""
    turns = [((k + 0.5) / count[x], x) for x in letters for k in range(count[x])]
    return [x for _, x in sorted(turns)]
