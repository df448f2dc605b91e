"""Placements that make the worst traffic: what shows that no network sticks (docs/overlay.md
sections 4 and 5).
"""

from __future__ import annotations

import numpy as np

from ..core.dataflow import DataflowGraph
from ..core.ops import Op


def scattered(graph: DataflowGraph, side: int, rng: np.random.Generator) -> np.ndarray:
    """Every node anywhere."""
    return rng.integers(0, side * side, len(graph))


def hotspot(graph: DataflowGraph, side: int, rng: np.random.Generator) -> np.ndarray:
    """All operations in the middle, all sources around it."""
    pe = rng.integers(0, side * side, len(graph))
    pe[graph.op >= Op.ADD] = side // 2 * side + side // 2
    return pe


def opposite(graph: DataflowGraph, side: int, rng: np.random.Generator) -> np.ndarray:
    """Neighbouring levels in opposite corners: all traffic crosses the whole mesh, both ways."""
    return np.where(graph.level % 2 == 1, 0, side * side - 1)


def transpose(graph: DataflowGraph, side: int, rng: np.random.Generator) -> np.ndarray:
    """A consumer lies mirrored to its producer as often as can be."""
    pe = rng.integers(0, side * side, len(graph))
    for n in np.flatnonzero(graph.op >= Op.ADD):
        pe[n] = pe[graph.a[n]] % side * side + pe[graph.a[n]] // side
    return pe


def ring(graph: DataflowGraph, side: int, rng: np.random.Generator) -> np.ndarray:
    """Each level one step on around the rim: the turns that would make a cycle of a mesh without XY
    order.
    """
    last = side - 1
    rim = (
        [(x, 0) for x in range(side)]
        + [(last, y) for y in range(1, side)]
        + [(x, last) for x in range(last - 1, -1, -1)]
        + [(0, y) for y in range(last - 1, 0, -1)]
    )
    corner = graph.level % len(rim) // 4 * 4 + rng.integers(0, 4, len(graph))
    return np.array([rim[i % len(rim)][1] * side + rim[i % len(rim)][0] for i in corner])


TRAFFIC = {f.__name__: f for f in (scattered, hotspot, opposite, transpose, ring)}
"""Name -> PE of every node, from a graph, the side of a square mesh, and a generator of chances."""
