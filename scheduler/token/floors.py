"""Cycles that no static schedule of a graph on a mesh can beat, whatever the placement
(docs/overlay.md section 9.1 states the premises).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numba

from .edges import Edges, Task

CONE = 48
LEAST_CONE = 8
CONES = 1_000_000
"""Nodes of a cone that are looked at: CONES / nodes of the graph within these limits. To leave
others out makes a bound lower, never wrong.
"""
RINGS = 4
"""Distances from a node's PE that are looked at."""
GRID = 1 << 22
"""Pairs of a head and a tail that are counted together at most."""


@dataclass(frozen=True)
class Floor:
    """Cycles of any placement and schedule, by cause."""

    depth: int  # the longest path without a hop
    cones: int  # the longest path, where the nodes around it are too many for the PEs nearby
    work: int  # nodes that fire per PE, with the paths before and after them

    @property
    def best(self) -> int:
        return max(vars(self).values())


Lists = tuple[np.ndarray, np.ndarray]
"""Neighbours of node n on one side: start and node, ``node[start[n] : start[n + 1]]``."""


def floor(task: Task) -> Floor:
    """The bounds of a graph."""
    source = task.source
    n = len(source)
    if source.all():
        return Floor(0, 0, 0)
    takes = ~source | (np.diff(task.e.start) > 0)
    step = np.where(source, 1, task.latency).astype(np.int64)
    ball = _balls(task.overlay.rows, task.overlay.cols)
    most = max(LEAST_CONE, min(CONE, CONES // n))
    order = np.arange(n)
    before = (order, _operands(task.a, task.b), False)
    after = (order[::-1].copy(), _consumers(n, task.e), True)

    def reaches(balls: np.ndarray) -> list[np.ndarray]:
        """Cycles before each node's issue, and from it to the end."""
        return [
            _reach(nodes, *near, step, takes, balls, most, back)[takes]
            for nodes, near, back in (before, after)
        ]

    depth = int(np.add(*reaches(ball[:0])).max())
    head, tail = reaches(ball)
    return Floor(depth, int((head + tail).max()), _work(head, tail, task.overlay.pes))


def _operands(a: np.ndarray, b: np.ndarray) -> Lists:
    second = (b >= 0) & (b != a)
    start = np.zeros(len(a) + 1, np.int64)
    np.cumsum((a >= 0).astype(np.int64) + second, out=start[1:])
    node = np.empty(start[-1], np.int64)
    node[start[:-1][a >= 0]] = a[a >= 0]
    node[start[:-1][second] + 1] = b[second]
    return start, node


def _consumers(nodes: int, e: Edges) -> Lists:
    """Each once, also those that read a value twice."""
    once = np.ones(len(e.src), bool)
    once[1:] = (np.diff(e.src) != 0) | (np.diff(e.dst) != 0)
    start = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(e.src[once], minlength=nodes), out=start[1:])
    return start, e.dst[once].astype(np.int64)


def _balls(rows: int, cols: int) -> np.ndarray:
    """PEs within each distance of the PE in the middle, which has most; up to all."""
    y, x = np.divmod(np.arange(rows * cols), cols)
    far = np.abs(x - cols // 2) + np.abs(y - rows // 2)
    counts = np.cumsum(np.bincount(far))
    return counts[: RINGS + 1].astype(np.int64)


def _work(head: np.ndarray, tail: np.ndarray, pes: int) -> int:
    """The nodes with at least some head and some tail, by PE, with the least of both."""
    rows = int(head.max()) + 1
    cols = int(tail.max()) + 1
    # where there are too many, heads and tails are rounded down
    grain = max(1, int(np.ceil(np.sqrt(rows * cols / GRID))))
    counts = np.zeros((rows // grain + 1, cols // grain + 1), np.int64)
    np.add.at(counts, (head // grain, tail // grain), 1)
    more = counts[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    begin = grain * np.arange(more.shape[0])[:, None]
    end = grain * np.arange(more.shape[1])[None, :]
    return int(np.where(more > 0, begin + -(-more // pes) - 1 + end, 0).max())


@numba.njit(cache=True)
def _cone(v, least, backward, start, near, step, reach, cone, path):
    """The nodes on near-longest paths to v, into ``cone``, and their paths; returns how many."""
    count = 0
    for j in range(start[v], start[v + 1]):
        cone[count] = near[j]
        path[count] = step[v] if backward else step[near[j]]
        count += 1
        if count == len(cone):
            break
    done = 0
    while done < count:
        # of those not yet done the nearest in the order of the graph, whose path is final
        best = done
        for k in range(done + 1, count):
            if (cone[k] < cone[best]) == backward and cone[k] != cone[best]:
                best = k
        cone[done], cone[best] = cone[best], cone[done]
        path[done], path[best] = path[best], path[done]
        u = cone[done]
        far = path[done]
        done += 1
        for j in range(start[u], start[u + 1]):
            w = near[j]
            length = far + (step[u] if backward else step[w])
            at = done
            while at < count and cone[at] != w:
                at += 1
            if at < count:
                path[at] = max(path[at], length)
            elif count < len(cone) and length + reach[w] >= least:
                cone[count] = w
                path[count] = length
                count += 1
    return count


@numba.njit(cache=True)
def _crowd(t, ring, pes, count, cone, path, reach, takes):
    """The cycles that the nodes of a cone take which, v being at t, are within ``ring`` hops."""
    member = np.empty(count, np.int64)
    size = 0
    for k in range(count):
        if takes[cone[k]] and reach[cone[k]] + path[k] + ring + 2 > t:
            member[size] = k
            size += 1
    heads = np.empty(size, np.int64)
    for i in range(size):
        heads[i] = reach[cone[member[i]]]
    order = np.argsort(-heads)
    best = 0
    for i in range(size):
        least = path[member[i]]
        inside = 0
        for j in order:
            k = member[j]
            if path[k] >= least:
                inside += 1
                best = max(best, heads[j] + (inside + pes - 1) // pes - 1 + least)
    return best


@numba.njit(cache=True)
def _reach(order, start, near, step, takes, ball, most, backward):
    """Per node the least cycles before its issue; ``backward``: from it to the end.

    ``near``: what a node waits for (backward: what waits for it).
    """
    n = len(step)
    reach = np.zeros(n, np.int64)
    cone = np.empty(most, np.int64)
    path = np.empty(most, np.int64)
    for v in order:
        t = step[v] if backward else 0
        for j in range(start[v], start[v + 1]):
            u = near[j]
            t = max(t, reach[u] + (step[v] if backward else step[u]))
        if len(ball) and start[v + 1] > start[v]:
            count = _cone(v, t - len(ball), backward, start, near, step, reach, cone, path)
            again = True
            while again:
                again = False
                for ring in range(len(ball)):
                    if _crowd(t, ring, ball[ring], count, cone, path, reach, takes) > t:
                        t += 1
                        again = True
                        break
        reach[v] = t
    return reach
