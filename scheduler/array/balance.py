"""Places of the FIFOs in front of slots, so that paths that part and join again hold as much.

A route of h hops adds h cycles. Where two paths from one unit meet in another, the one with fewer
hops has to hold the beats of the difference, or the join stalls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import networkx as nx
from scipy.optimize import linprog
from scipy.sparse import coo_array, eye_array, hstack, vstack

from ...machine.array.description import BUFFER_KIND, BUFFER_PLACES, INPUT_PLACES
from ...machine.array.netlist import Leaf, Net
from ...machine.unitgraph import UnitGraph

FEWEST = 1000
"""Weight of a missing place beside a cycle of waiting."""


@dataclass(frozen=True)
class Balance:
    """Places by channel, and what of the difference a channel cannot hold, where there is such."""

    places: dict[int, int]
    short: dict[int, int]


def balance(graph: UnitGraph, nets: list[Net], hops: dict[int, int]) -> Balance:
    """Places for every end of every net.

    Parameters
    ----------
    graph, nets
        With buffers; its nets.
    hops
        By channel into a slot: hops on its way, 0 for a wire.
    """
    ends = [(net, leaf) for net in nets for leaf in net.leaves]
    flow = nx.DiGraph()
    flow.add_nodes_from(u.id for u in graph.units)
    flow.add_edges_from((net.src[0], leaf.dst[0]) for net, leaf in ends)
    part: dict[int, int] = nx.condensation(flow).graph["mapping"]
    edges = [
        _Edge(
            part[net.src[0]],
            part[leaf.dst[0]],
            hops[leaf.channel],
            max(_most(graph, leaf) - leaf.places, 0),
        )
        for net, leaf in ends
    ]
    slack = _slack(edges, len(set(part.values())))
    places = {}
    short = {}
    for (_, leaf), late in zip(ends, slack, strict=True):
        wanted = leaf.places + late
        most = _most(graph, leaf)
        places[leaf.channel] = min(wanted, most)
        if wanted > most:
            short[leaf.channel] = wanted - most
    return Balance(places, short)


def _most(graph: UnitGraph, leaf: Leaf) -> int:
    """Places of the FIFO in front of an end, at most."""
    buffer = graph.units[leaf.dst[0]].kind.name == BUFFER_KIND
    return BUFFER_PLACES if buffer else INPUT_PLACES


class _Edge(NamedTuple):
    """A channel between parts of the graph: its hops, and the places that its end has to spare."""

    src: int
    dst: int
    hops: int
    spare: int


def _slack(edges: list[_Edge], parts: int) -> list[int]:
    """Cycles that the beats of each channel wait at its end, where every part of the graph is late
    by a number of cycles: first the fewest that no place is spare for, then the fewest.

    A linear program, solved by HiGHS; the differences of its rows make its least answers whole
    numbers.
    """
    between = [k for k, e in enumerate(edges) if e.src != e.dst]
    found = [0] * len(edges)
    if not between:
        return found
    n = len(between)
    src = np.array([edges[k].src for k in between])
    dst = np.array([edges[k].dst for k in between])
    hops = np.array([edges[k].hops for k in between])
    spare = np.array([edges[k].spare for k in between])
    each = np.arange(n)
    late = coo_array(
        (np.repeat([1, -1], n), (np.tile(each, 2), np.concatenate([dst, src]))), shape=(n, parts)
    ).tocsc()
    cost = np.concatenate([late.sum(axis=0), np.full(n, FEWEST)])
    rows = vstack([hstack([-late, coo_array((n, n))]), hstack([late, -eye_array(n)])])
    limits = np.concatenate([-hops, hops + spare])
    answer = linprog(cost, A_ub=rows, b_ub=limits, bounds=(0, None))
    at = np.round(answer.x[:parts]).astype(int)
    for k, wait in zip(between, at[dst] - at[src] - hops, strict=True):
        found[k] = int(wait)
    return found
