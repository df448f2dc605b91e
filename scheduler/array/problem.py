"""Placement as arrays: cells, the slots that they fit, nets, and the wires
that may carry them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...machine.array.description import INPUT_PLACES, Site
from ...machine.array.netlist import Net, absorbs, nets_of, posts_of
from ...machine.array.network import Network
from ...machine.array.placed import pin_of
from ...machine.unitgraph import UnitGraph
from .fit import assigned, fits, missing


class Lists(NamedTuple):
    """Lists of numbers one after the other: list i is ``items[first[i] :
    first[i + 1]]``.
    """

    first: np.ndarray
    items: np.ndarray

    @staticmethod
    def of(lists: list[list[int]]) -> Lists:
        first = np.cumsum([0, *map(len, lists)]).astype(np.int64)
        return Lists(first, np.array([x for part in lists for x in part], np.int64))


class Arrays(NamedTuple):
    """What the annealing reads.

    Attributes
    ----------
    fit
        bool [cells, slots].
    site, row, col
        Of each slot, and of each site.
    index
        Of each slot in its site.
    near
        Slots that a cell fits, by cell times sites plus site.
    nets_of, ends
        Nets of each cell; cells of each net, its source first.
    wired
        For each net the slots of source and end that a wire joins, as
        source times slots plus end, in order.
    enters, leaves
        bool [nets, slots]: whether a net's ends reach the slot's input,
        and its source the slot's output, through the switch.
    weight
        Of each net.
    twin
        Sites of the same letter, by site.
    masks
        Slot indices that move together, by letter: bits.
    letter
        Of each site.

    """

    fit: np.ndarray
    site: np.ndarray
    row: np.ndarray
    col: np.ndarray
    index: np.ndarray
    near_first: np.ndarray
    near: np.ndarray
    nets_first: np.ndarray
    nets_of: np.ndarray
    ends_first: np.ndarray
    ends: np.ndarray
    wired_first: np.ndarray
    wired: np.ndarray
    enters: np.ndarray
    leaves: np.ndarray
    weight: np.ndarray
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
        A slot for each cell: one that it fits, no slot twice, products
        beside their accumulators.

    """

    graph: UnitGraph
    network: Network
    nets: list[Net]
    cells: list[int]
    arrays: Arrays
    start: np.ndarray


def problem(graph: UnitGraph, network: Network, weights: np.ndarray | None = None) -> Problem:
    """The placement problem of a graph with buffers.

    Raises
    ------
    LoweringError
        What does not fit, with what is missing.

    """
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
    start = _start(graph, network, table, cells, ends, wired, leaves, enters)
    weight = np.ones(len(ends)) if weights is None else weights
    arrays = _arrays(network, table, ends, wired, enters, leaves, weight)
    return Problem(graph, network, nets, cells, arrays, start)


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
    """The pairs of slots of which one changes the other's reference
    counts.
    """
    unit, memory = pair
    return sorted(
        p.src * len(network.slots) + p.dst
        for p in network.posts
        if table[unit, p.src] and table[memory, p.dst]
    )


def _start(
    graph: UnitGraph,
    network: Network,
    table: np.ndarray,
    cells: list[int],
    ends: list[list[int]],
    wired: list[list[int]],
    leaves: np.ndarray,
    enters: np.ndarray,
) -> np.ndarray:
    """Slots for a start: first the pairs that only a wire can join, then
    all others.
    """
    n_slots = len(network.slots)
    start = np.full(len(cells), -1, np.int64)
    tied = [
        k
        for k, (source, *sinks) in enumerate(ends)
        if not leaves[k][table[source]].any() or any(not enters[k][table[c]].any() for c in sinks)
    ]
    joined = [*((w.src[0], w.dst[0]) for w in network.wires), *network.posts]
    pairs = np.zeros((len(tied), len(joined)), bool)
    number = {src * n_slots + dst: k for k, (src, dst) in enumerate(joined)}
    for i, k in enumerate(tied):
        pairs[i, [number[x] for x in wired[k]]] = True
    if tied:
        given = assigned(pairs)
        lost = [cells[ends[k][0]] for k, w in zip(tied, given, strict=True) if w < 0]
        if lost:
            raise missing(graph, network, lost)
        for k, w in zip(tied, given, strict=True):
            start[ends[k][0]], start[ends[k][1]] = joined[w]
    rest = np.flatnonzero(start < 0)
    free = table[rest]
    free[:, start[start >= 0]] = False
    start[rest] = assigned(free)
    left = [cells[c] for c in np.flatnonzero(start < 0)]
    if left:
        raise missing(graph, network, left)
    return start


def _arrays(
    network: Network,
    table: np.ndarray,
    ends: list[list[int]],
    wired: list[list[int]],
    enters: np.ndarray,
    leaves: np.ndarray,
    weight: np.ndarray,
) -> Arrays:
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
    wired_lists = Lists.of(wired)
    twin_lists = Lists.of(twins)
    mask_lists = Lists.of([_masks(array.sites[x]) for x in letters])
    firsts = [network.slots_of(r, c)[0] if network.slots_of(r, c) else 0 for r, c in sites]
    return Arrays(
        table,
        np.array(site),
        np.array([r for r, _ in sites]),
        np.array([c for _, c in sites]),
        np.array([s.index for s in network.slots]),
        *near_lists,
        *net_lists,
        *end_lists,
        *wired_lists,
        enters,
        leaves,
        weight,
        *twin_lists,
        *mask_lists,
        np.array(letter),
        np.array(firsts),
        array.cols,
    )


def _masks(site: Site) -> list[int]:
    """Groups of slots of a site that are worth moving together: all, and
    those of each wire.
    """
    if not site.slots:
        return [0]
    pairs = sorted({1 << w.src | 1 << w.dst for w in site.wires})
    return [(1 << len(site.slots)) - 1, *pairs]
