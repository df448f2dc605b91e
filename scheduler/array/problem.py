"""Placement as arrays: cells, the slots that they fit, nets, and the wires that may carry them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...machine.array.description import INPUT_PLACES, Site
from ...machine.array.netlist import Net, absorbs, nets_of, posts_of
from ...machine.array.network import Network
from ...machine.array.placed import pin_of
from ...machine.errors import LoweringError
from ...machine.unitgraph import UnitGraph
from .fit import assigned, fits, missing

MOST_TRIES = 100_000
"""Pairs of slots that are tried for nets that share cells."""


class Lists(NamedTuple):
    """Lists of numbers one after the other: list i is ``items[first[i] : first[i + 1]]``."""

    first: np.ndarray
    items: np.ndarray

    @staticmethod
    def of(lists: list[list[int]]) -> Lists:
        first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        return Lists(first, np.array([x for part in lists for x in part], np.int64))


class Arrays(NamedTuple):
    """Arrays that the annealing reads.

    Attributes
    ----------
    fit
        bool [cells, slots].
    site
        Of each slot.
    at
        int [slots, 2]: row and column of each slot.
    near
        Slots that a cell fits, by cell times sites plus site.
    nets_of, ends
        Nets of each cell; cells of each net, its source first.
    wired
        For each net the slots of source and end that a wire joins, as source times slots plus end,
        in order.
    reached
        bool [2, nets, slots]: whether the switch meets the slot's output for a net's source, and
        its input for its ends.
    twin
        Sites of the same letter, by site.
    masks
        Slot indices that move together, by letter: bits.
    letter
        Of each site.
    """

    fit: np.ndarray
    site: np.ndarray
    at: np.ndarray
    near_first: np.ndarray
    near: np.ndarray
    nets_first: np.ndarray
    nets_of: np.ndarray
    ends_first: np.ndarray
    ends: np.ndarray
    wired_first: np.ndarray
    wired: np.ndarray
    reached: np.ndarray
    twin_first: np.ndarray
    twin: np.ndarray
    masks_first: np.ndarray
    masks: np.ndarray
    letter: np.ndarray
    slot_first: np.ndarray
    cols: int


@dataclass(frozen=True)
class Problem:
    """A graph that is to be placed on an array.

    Attributes
    ----------
    cells
        Unit ids.
    start
        A slot for each cell: one that it fits, no slot twice, products beside their accumulators.
    kept
        Whether the start is an older placement.
    """

    graph: UnitGraph
    network: Network
    nets: list[Net]
    cells: list[int]
    arrays: Arrays
    start: np.ndarray
    kept: bool = False


@dataclass(frozen=True)
class Joins:
    """Units that fit, and the ways in which their nets may be joined."""

    nets: list[Net]  # of the graph
    cells: list[int]  # unit ids
    table: np.ndarray  # bool [cells, slots]: what each cell fits
    ends: list[list[int]]  # cells of each net, its source first
    wired: list[list[int]]  # as :class:`Arrays` has it, a list a net
    # leaves, enters: bool [nets, slots]: whether the switch meets the slot's output for the net's
    # source, and its input for an end
    leaves: np.ndarray
    enters: np.ndarray

    def tied(self) -> list[int]:
        """Nets that only a wire can carry."""
        return [
            k
            for k, (source, *sinks) in enumerate(self.ends)
            if not self.leaves[k][self.table[source]].any()
            or any(not self.enters[k][self.table[c]].any() for c in sinks)
        ]


def joins_of(graph: UnitGraph, network: Network) -> Joins:
    """Joins of the units of a graph with buffers on an array."""
    nets = nets_of(graph)
    cells = [u.id for u in graph.units if not absorbs(u)]
    table = fits(graph, network)[cells]
    cell_of = {u: k for k, u in enumerate(cells)}
    pins = _Pins(graph, network)
    ends = [[cell_of[n.src[0]], *(cell_of[leaf.dst[0]] for leaf in n.leaves)] for n in nets]
    wired = [_wired(n, ends[k], table, network, pins) for k, n in enumerate(nets)]
    for unit, memory in posts_of(graph):  # as nets that only a post of a site can join
        pair = [cell_of[unit], cell_of[memory]]
        wired.append(_posted(pair, table, network))
        ends.append(pair)
    enters = np.zeros((len(ends), len(network.slots)), bool)
    leaves = np.zeros((len(ends), len(network.slots)), bool)
    for k, net in enumerate(nets):
        for s in np.flatnonzero(table[ends[k][0]]):
            leaves[k, s] = network.injection(int(s), pins.of(int(s), net.src, True)) is not None
        for leaf in net.leaves:
            for s in np.flatnonzero(table[cell_of[leaf.dst[0]]]):
                pin = pins.of(int(s), leaf.dst, False)
                enters[k, s] |= network.ejection(int(s), pin) is not None
    return Joins(nets, cells, table, ends, wired, leaves, enters)


def problem(graph: UnitGraph, network: Network, keep: dict[str, int] | None = None) -> Problem:
    """The placement problem of a graph with buffers.

    Parameters
    ----------
    graph, network
        What is placed, and where.
    keep
        An older placement, slots by the names of units: units that it names begin there, as far as
        they fit.

    Raises
    ------
    LoweringError
        What does not fit, with what is missing.
    """
    joins = joins_of(graph, network)
    nowhere = np.full(len(joins.cells), -1, np.int64)
    start = None
    if keep:
        with contextlib.suppress(LoweringError):  # what is kept may be in the way
            start = _start(graph, network, joins, _former_slots(joins, keep, graph))
    kept = start is not None
    if start is None:
        start = _start(graph, network, joins, nowhere)
    arrays = _arrays(network, joins)
    return Problem(graph, network, joins.nets, joins.cells, arrays, start, kept)


def _former_slots(joins: Joins, keep: dict[str, int], graph: UnitGraph) -> np.ndarray:
    """The slots that units had, -1 for those that are new or moved."""
    n_slots = joins.table.shape[1]
    kept = np.full(len(joins.cells), -1, np.int64)
    for c, unit in enumerate(joins.cells):
        slot = keep.get(graph.units[unit].name, -1)
        if 0 <= slot < n_slots and joins.table[c, slot] and slot not in kept:
            kept[c] = slot
    changed = True
    while changed:  # a cell may be at the end of several
        changed = False
        for net in joins.tied():
            source, end = joins.ends[net]
            joined = kept[source] * n_slots + kept[end] in joins.wired[net]
            if not joined and max(kept[source], kept[end]) >= 0:
                kept[[source, end]] = -1
                changed = True
    return kept


class _Pins:
    """Pins of ports, by slot description."""

    def __init__(self, graph: UnitGraph, network: Network):
        self.graph = graph
        self.network = network
        self.known: dict[tuple[int, tuple[int, int], bool], int] = {}

    def of(self, slot: int, end: tuple[int, int], output: bool) -> int:
        key = (id(self.network.slots[slot].slot), end, output)
        if key not in self.known:
            self.known[key] = pin_of(self.graph, self.network, slot, end, output)
        return self.known[key]


def _wired(
    net: Net, ends: list[int], table: np.ndarray, network: Network, pins: _Pins
) -> list[int]:
    """The pairs of slots that a wire joins for a net."""
    if not net.alone or net.leaves[0].places > INPUT_PLACES:
        return []
    source, end = ends
    return sorted(
        w.src[0] * len(network.slots) + w.dst[0]
        for w in network.wires
        if table[source, w.src[0]]
        and table[end, w.dst[0]]
        and pins.of(w.src[0], net.src, True) == w.src[1]
        and pins.of(w.dst[0], net.leaves[0].dst, False) == w.dst[1]
    )


def _posted(pair: list[int], table: np.ndarray, network: Network) -> list[int]:
    """The pairs of slots of which one changes the other's reference counts."""
    unit, memory = pair
    return sorted(
        p.src * len(network.slots) + p.dst
        for p in network.posts
        if table[unit, p.src] and table[memory, p.dst]
    )


def _start(graph: UnitGraph, network: Network, joins: Joins, kept: np.ndarray) -> np.ndarray:
    """Slots for a start, of cells that have none yet: first the pairs that only a wire can join,
    then all others.
    """
    n_slots = len(network.slots)
    cells = joins.cells
    ends = joins.ends
    lost = np.flatnonzero(assigned(joins.table) < 0)
    if len(lost):  # whatever the wires join
        raise missing(graph, network, [cells[c] for c in lost])
    start = kept.copy()
    shared = _sharing(joins, [k for k in joins.tied() if start[ends[k][0]] < 0])
    lost_net = _Together(joins, shared, start).lost()
    if lost_net is not None:
        raise _crowded(graph, network, *(cells[c] for c in ends[lost_net]))
    tied = [k for k in joins.tied() if start[ends[k][0]] < 0]
    joined = [*((w.src[0], w.dst[0]) for w in network.wires), *network.posts]
    pairs = np.zeros((len(tied), len(joined)), bool)
    number = {src * n_slots + dst: k for k, (src, dst) in enumerate(joined)}
    taken = set(start.tolist())
    for i, k in enumerate(tied):
        free = [x for x in joins.wired[k] if taken.isdisjoint(divmod(x, n_slots))]
        pairs[i, [number[x] for x in free]] = True
    if tied:
        given = assigned(pairs)
        lost = [cells[ends[k][0]] for k, w in zip(tied, given, strict=True) if w < 0]
        if lost:
            raise missing(graph, network, lost)
        for k, w in zip(tied, given, strict=True):
            start[ends[k][0]], start[ends[k][1]] = joined[w]
    rest = np.flatnonzero(start < 0)
    free = joins.table[rest]
    free[:, start[start >= 0]] = False
    start[rest] = assigned(free)
    left = [cells[c] for c in np.flatnonzero(start < 0)]
    if left:
        raise missing(graph, network, left)
    return start


def _sharing(joins: Joins, tied: list[int]) -> list[int]:
    """Nets that have a cell in common with another one, group by group."""
    by_cell: dict[int, list[int]] = {}
    for k in tied:
        for cell in joins.ends[k]:
            by_cell.setdefault(cell, []).append(k)
    groups = [g for g in by_cell.values() if len(g) > 1]
    return list(dict.fromkeys(k for g in groups for k in g))


class _Together:
    """Slots for nets that share cells, found by trying all."""

    def __init__(self, joins: Joins, nets: list[int], start: np.ndarray):
        self.joins = joins
        self.nets = nets
        self.start = start
        self.taken = set(start.tolist())
        self.deepest = 0
        self.left = MOST_TRIES

    def lost(self) -> int | None:
        """Put all into ``start``; the net that finds no slots, if one does."""
        return None if self._put(0) else self.nets[self.deepest]

    def _put(self, at: int) -> bool:
        if at == len(self.nets):
            return True
        self.deepest = max(self.deepest, at)
        net = self.nets[at]
        for pair in self.joins.wired[net]:
            slots = divmod(pair, self.joins.table.shape[1])
            new = [
                (cell, slot)
                for cell, slot in zip(self.joins.ends[net], slots, strict=True)
                if self.start[cell] != slot
            ]
            if any(self.start[cell] >= 0 or slot in self.taken for cell, slot in new):
                continue
            self.left -= 1
            for cell, slot in new:
                self.start[cell] = slot
            self.taken.update(slot for _, slot in new)
            if self._put(at + 1):
                return True
            for cell, _ in new:
                self.start[cell] = -1
            self.taken.difference_update(slot for _, slot in new)
            if self.left < 0:
                return False
        return False


def _crowded(graph: UnitGraph, network: Network, unit: int, beside: int) -> LoweringError:
    """Feature that an array lacks when no slot is left for a unit beside another one."""
    kind = graph.units[unit].kind.name
    wanted = sum(u.kind.name == kind for u in graph.units)
    there = sum(kind in s.slot.kinds for s in network.slots)
    return LoweringError(
        f"has no slot for 1 of {wanted} {kind} (it has {there} slots for {kind}; "
        f"{graph.units[unit].name}: none is left beside {graph.units[beside].name})",
        f"array {network.array.name}",
        "what changes reference counts lies in the site of the scratchpad, joined by a post",
        "describe an array with more such slots in a site",
    )


def _arrays(network: Network, joins: Joins) -> Arrays:
    table = joins.table
    ends = joins.ends
    array = network.array
    sites = list(array.places())
    site_of = {place: k for k, place in enumerate(sites)}
    site = [site_of[s.row, s.col] for s in network.slots]
    near: list[list[int]] = [[] for _ in range(len(table) * len(sites))]
    for c, row in enumerate(table):
        for s in np.flatnonzero(row):
            near[c * len(sites) + site[s]].append(int(s))
    nets: list[list[int]] = [[] for _ in table]
    for k, net in enumerate(ends):
        for c in dict.fromkeys(net):
            nets[c].append(k)
    letters = sorted(array.sites)
    letter = [letters.index(array.grid[r][c]) for r, c in sites]
    twins = [[j for j, x in enumerate(letter) if x == mine] for mine in letter]
    near_lists = Lists.of(near)
    net_lists = Lists.of(nets)
    end_lists = Lists.of(ends)
    wired_lists = Lists.of(joins.wired)
    twin_lists = Lists.of(twins)
    mask_lists = Lists.of([_masks(array.sites[x]) for x in letters])
    firsts = [network.slots_of(r, c)[0] if network.slots_of(r, c) else 0 for r, c in sites]
    return Arrays(
        table,
        np.array(site),
        np.array([(s.row, s.col) for s in network.slots]),
        *near_lists,
        *net_lists,
        *end_lists,
        *wired_lists,
        np.array([joins.leaves, joins.enters]),
        *twin_lists,
        *mask_lists,
        np.array(letter),
        np.array(firsts),
        array.cols,
    )


def _masks(site: Site) -> list[int]:
    """Groups of slots of a site that are worth moving together: all, and those of each wire."""
    if not site.slots:
        return [0]
    pairs = sorted({1 << w.src | 1 << w.dst for w in site.wires})
    return [(1 << len(site.slots)) - 1, *pairs]
