"""Improvement of a placed schedule: part of the nodes lose their PE, or their turn in the list, and
the list is made again (large neighbourhood search). What is not longer is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numba

from .listing import run

BALL, WINDOW, PART, TURN = range(4)
"""Kinds of moves, by the nodes that are let go: nodes around one, nodes that issue at about
the same time, a PE's nodes, or only the order of some.
"""


class Current(NamedTuple):
    """State that moves begin with: PE, bonus in the order of the list (cycles), and issue by
    node.
    """

    pe: np.ndarray
    bonus: np.ndarray
    issue: np.ndarray


class Reads(NamedTuple):
    """The consumers of node n: ``node[start[n] : start[n + 1]]``."""

    start: np.ndarray
    node: np.ndarray


@numba.njit(cache=True)
def order_of(nodes, bonus, reads):
    """The operations by the longest path after them, each with its bonus and those behind it."""
    n = len(nodes)
    key = np.zeros(n)
    operations = 0
    for v in range(n - 1, -1, -1):
        far = 0.0
        for j in range(reads.start[v], reads.start[v + 1]):
            c = reads.node[j]
            far = max(far, key[c] + nodes[c]["latency"])
        key[v] = far + bonus[v]
        operations += 1 - nodes[v]["source"]
    out = np.empty(operations, np.int64)
    rank = np.empty(operations)
    k = 0
    for v in range(n):
        if not nodes[v]["source"]:
            out[k] = v
            rank[k] = -key[v]
            k += 1
    return out[np.argsort(rank, kind="mergesort")]


@numba.njit(cache=True)
def _release(v, nodes, pe):
    """Let an operation go, and the sources it reads."""
    if not nodes[v]["fixed"]:
        pe[v] = -1
    for i in range(2):
        u = nodes[v]["left"] if i == 0 else nodes[v]["right"]
        if u >= 0 and nodes[u]["source"] and not nodes[u]["fixed"]:
            pe[u] = -1


@numba.njit(cache=True)
def _ball(first, size, nodes, reads, pe):
    """Let ``size`` operations around one go, the nearest first."""
    queue = np.empty(size, np.int64)
    queue[0] = first
    _release(first, nodes, pe)
    count = 1
    at = 0
    while at < count and count < size:
        v = queue[at]
        at += 1
        degree = reads.start[v + 1] - reads.start[v]
        for j in range(-2, min(degree, 16)):
            u = reads.node[reads.start[v] + j] if j >= 0 else nodes[v]["left"]
            if j == -1:
                u = nodes[v]["right"]
            if u < 0 or nodes[u]["source"] or pe[u] < 0 or count == size:
                continue
            _release(u, nodes, pe)
            queue[count] = u
            count += 1


@numba.njit(cache=True)
def _late(order, length, nodes, issue):
    """An operation, of eight tried, that can be put off least."""
    best = order[0]
    least = np.inf
    for _ in range(8):
        v = order[np.random.randint(len(order))]
        slack = length - issue[v] - nodes[v]["latency"] - nodes[v]["tail"]
        if slack < least:
            least = slack
            best = v
    return best


@numba.njit(cache=True)
def _let_go(kind, order, length, nodes, reads, now, pe, bonus):
    """Make a move on ``pe`` and ``bonus``."""
    most = max(1.0, len(order) / 4)
    size = int(np.exp(np.random.random() * np.log(most))) + 1
    v = _late(order, length, nodes, now.issue)
    if kind == BALL:
        _ball(v, size, nodes, reads, pe)
    elif kind == WINDOW:
        width = 1 + int(np.random.random() * length / 8)
        for u in order:
            if abs(now.issue[u] - now.issue[v]) < width:
                _release(u, nodes, pe)
    elif kind == PART:
        home = now.pe[v]
        for u in order:
            if now.pe[u] == home:
                _release(u, nodes, pe)
    else:
        reach = 4.0 * np.random.random() * np.random.random()
        for _ in range(size):
            u = order[np.random.randint(len(order))]
            bonus[u] = reach * np.random.random()
        bonus[v] += 4.0 * np.random.random()


@numba.njit(cache=True)
def keep(plan, kept):
    """Keep a copy of a schedule."""
    kept.nodes[:] = plan.nodes
    sends = plan.counts[0]
    copies = plan.counts[1]
    kept.sends[:sends] = plan.sends[:sends]
    kept.copies[:copies] = plan.copies[:copies]
    kept.edge_copy[:] = plan.edge_copy
    kept.counts[:] = plan.counts


@numba.njit(cache=True)
def improve(steps, length, price, m, kinds, reads, now, plan, kept):
    """Make ``steps`` moves from a schedule of ``length`` cycles; returns the length then.

    ``kept`` is the best schedule, ``now`` the one that moves begin with.
    """
    nodes = plan.nodes
    order = order_of(nodes, now.bonus, reads)
    pe = np.empty_like(now.pe)
    bonus = np.empty_like(now.bonus)
    for _ in range(steps):
        pe[:] = now.pe
        bonus[:] = now.bonus
        kind = np.random.randint(4)
        _let_go(kind, order, length, nodes, reads, now, pe, bonus)
        turn = order
        if kind == TURN:
            turn = order_of(nodes, bonus, reads)
        cost = price * np.exp(2.0 * (np.random.random() - 0.5))
        noise = np.random.randint(3) * np.random.random()
        made = run(turn, pe, m, kinds, plan, cost, noise, length + 1)
        if made < 0:
            continue
        order = turn
        now.bonus[:] = bonus
        for n in range(len(nodes)):
            now.pe[n] = nodes[n]["pe"]
            now.issue[n] = nodes[n]["issue"]
        if made < length:
            length = made
            keep(plan, kept)
    return length
