"""Values that leave their PE, or cross the middle of the mesh, in every schedule of some length
(docs/overlay.md section 9.1 states the premises).

Two arguments, which hold for every placement:

* *Windows.* A value's consumers issue between its making and the end. More of them than fit
  there at its own PE are at others.
* *Demands.* A PE issues a node a cycle, so it holds no more nodes than there are cycles. A root
  sends a unit to each of the nodes around it, along a tree of values.
  The units to nodes that do not fit beside the root pass a value that
  is sent; so the units that pass values sent are at least those in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numba

WORK = 10_000_000
"""Nodes and edges that all trees look at."""
ROOTS = 256
"""Trees at most. Fewer make a bound lower, never wrong."""


class Values(NamedTuple):
    """Values and their consumers, each once, those with the longest paths behind them first.

    ``ready``: cycles before a value may be used; ``tail`` [consumers]: cycles from a consumer's
    issue to the end; those of value n are ``start[n] .. start[n + 1] - 1``.
    """

    ready: np.ndarray
    start: np.ndarray
    tail: np.ndarray


class Demands(NamedTuple):
    """Trees of units: ``load`` [nodes] units that pass a value, the values with most of them first
    in ``order``; ``reached`` [roots] nodes that each root sends to.
    """

    load: np.ndarray
    order: np.ndarray
    reached: np.ndarray


class Moved(NamedTuple):
    """Least movement: values, and copies of them.

    ``widest``: other PEs that one value goes to; ``fits``: whether consumers have a cycle.
    """

    values: int
    copies: int
    widest: int
    fits: bool


def values_of(
    start: np.ndarray, consumer: np.ndarray, ready: np.ndarray, tail: np.ndarray
) -> Values:
    """The values of a graph, from the consumers of each node."""
    owner = np.repeat(np.arange(len(ready)), np.diff(start))
    order = np.lexsort((-tail[consumer], owner))
    return Values(ready, start, tail[consumer][order])


def demands_of(
    operands: tuple[np.ndarray, np.ndarray],
    consumers: tuple[np.ndarray, np.ndarray],
    takes: np.ndarray,
    most: int,
) -> Demands:
    """Trees from nodes all over the graph to the ``most`` nodes around each.

    ``operands``, ``consumers``: start and node of each side; ``takes``: nodes that take an issue.
    """
    fired = np.flatnonzero(takes)
    each = min(most * 3, len(takes) + len(operands[1]))
    count = int(min(len(fired), ROOTS, max(4, WORK // max(1, each))))
    roots = fired[np.linspace(0, len(fired) - 1, count).astype(np.int64)]
    load = np.zeros(len(takes), np.int64)
    reached = _trees(roots, *operands, *consumers, takes, most, load)
    return Demands(load, np.argsort(-load, kind="stable"), reached)


def moved(length: int, pes: int, v: Values, d: Demands) -> Moved:
    """Least traffic out of groups of ``pes`` PEs in a schedule of ``length`` cycles."""
    return Moved(*_moved(length, pes, v, d))


def least(holds: Callable[[int], bool]) -> int:
    """The least length from 1 on that holds; all beyond it do."""
    high = 1
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


@numba.njit(cache=True)
def _trees(roots, before, operand, after, consumer, takes, most, load):
    """Add the units of a tree from each root to ``load``; returns the nodes that each reaches."""
    n = len(takes)
    seen = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    parent = np.empty(n, np.int64)
    # whether a node was reached through its own value, from one of its consumers
    own = np.empty(n, np.bool_)
    size = np.empty(n, np.int64)
    reached = np.zeros(len(roots), np.int64)
    for r in range(len(roots)):
        queue[0] = roots[r]
        seen[roots[r]] = r
        parent[roots[r]] = -1
        own[roots[r]] = False
        count = 1
        units = 1
        at = 0
        while at < count and units < most:
            v = queue[at]
            at += 1
            ends = before[v + 1] - before[v]
            for j in range(ends + after[v + 1] - after[v]):
                up = j < ends
                w = operand[before[v] + j] if up else consumer[after[v] + j - ends]
                if seen[w] == r or units == most:
                    continue
                seen[w] = r
                parent[w] = v
                own[w] = up
                queue[count] = w
                count += 1
                units += 1 if takes[w] else 0
        reached[r] = units
        for k in range(count):
            size[queue[k]] = 1 if takes[queue[k]] else 0
        for k in range(count - 1, 0, -1):
            w = queue[k]
            v = parent[w]
            size[v] += size[w]
            # a unit that came into v through v's value passes it once
            if own[w]:
                load[w] += size[w]
            elif not own[v]:
                load[v] += size[w]
    return reached


@numba.njit(cache=True)
def _wide(u, length, pes, v):
    """The other PEs that consumers of value u need beside ``pes``, and whether all have a cycle."""
    to = 0
    for j in range(v.start[u], v.start[u + 1]):
        window = length - v.tail[j] - v.ready[u] + 1
        if window < 1:
            return 0, False
        # another PE has the value two cycles later at least
        other = max(0, window - 2)
        beyond = j - v.start[u] + 1 - window - (pes - 1) * other
        if beyond <= 0:
            continue
        if other == 0:
            return 0, False
        to = max(to, (beyond + other - 1) // other)
    return to, True


@numba.njit(cache=True)
def _moved(length, pes, v, d):
    n = len(v.ready)
    values = 0
    copies = 0
    widest = 0
    units = 0
    for r in range(len(d.reached)):
        units += max(0, d.reached[r] - pes * length)
    wide = np.zeros(n, np.bool_)
    for u in range(n):
        to, fits = _wide(u, length, pes, v)
        if not fits:
            return 0, 0, 0, False
        if to > 0:
            values += 1
            copies += to
            widest = max(widest, to)
            wide[u] = True
            units -= d.load[u]
    further = 0
    for u in d.order:
        if units <= 0:
            break
        if not wide[u]:
            units -= d.load[u]
            further += 1
    return values + further, copies + further, widest, True
