"""A dataflow graph as edge lists: who consumes what, and how far each node is from an end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numba

from ...overlay.core.config import EITHER, LEFT, ONLY, RIGHT, Overlay
from ...overlay.core.ops import Op


@dataclass(frozen=True)
class Edges:
    """Edges sorted by producer, then consumer, then slot."""

    # src, dst, slot: producer, consumer (int32) and slot of each edge
    src: np.ndarray
    dst: np.ndarray
    slot: np.ndarray
    start: np.ndarray  # int64 [nodes + 1]: edges of producer n are start[n] .. start[n + 1] - 1


@dataclass(frozen=True)
class Task:
    """A graph in topological order that is to be placed.

    Attributes
    ----------
    overlay
        The machine.
    op, source, latency
        By node: operation code, whether it is a source, cycles.
    a, b
        Operands, -1: none.
    e
        The edges.
    """

    overlay: Overlay
    op: np.ndarray
    source: np.ndarray
    a: np.ndarray
    b: np.ndarray
    e: Edges
    latency: np.ndarray


def edges(op: np.ndarray, a: np.ndarray, b: np.ndarray) -> Edges:
    """Edge lists of operand arrays (-1: no operand)."""
    n = len(a)
    one = np.flatnonzero((a >= 0) & (b < 0))
    two = np.flatnonzero(b >= 0)
    src = np.concatenate([a[one], a[two], b[two]]).astype(np.int32)
    dst = np.concatenate([one, two, two]).astype(np.int32)
    slot = np.concatenate(
        [
            np.full(len(one), ONLY, np.uint8),
            np.where(op[two] == Op.MERGE, ONLY, LEFT).astype(np.uint8),
            np.where(op[two] == Op.MERGE, EITHER, RIGHT).astype(np.uint8),
        ]
    )
    order = np.lexsort((slot, dst, src))
    src = src[order]
    dst = dst[order]
    slot = slot[order]
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(src, minlength=n), out=start[1:])
    return Edges(src, dst, slot, start)


@numba.njit(cache=True)
def _tails(a, b, latency):
    tail = np.zeros(len(a), np.int32)
    for n in range(len(a) - 1, -1, -1):
        reach = tail[n] + latency[n]
        if a[n] >= 0:
            tail[a[n]] = max(tail[a[n]], reach)
        if b[n] >= 0:
            tail[b[n]] = max(tail[b[n]], reach)
    return tail


def tails(a: np.ndarray, b: np.ndarray, latency: np.ndarray) -> np.ndarray:
    """int32 [nodes]: cycles of latency on the longest path after each node; the graph is in
    topological order.
    """
    return _tails(a, b, latency)
