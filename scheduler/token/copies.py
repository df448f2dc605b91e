"""Copies of values that many PEs want: a tree of PEs that pass a value on (docs/overlay.md section
3.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...overlay.core.config import Overlay
from ...overlay.core.ops import OP_CLASS, Op
from .edges import Edges, Task, edges

FAN = 4
"""PEs to which a PE sends a value; copies serve the others."""
COPY = Op.JOIN
"""Operation of a copy: the bitwise or of a value with itself."""


@dataclass(frozen=True)
class Placed:
    """A placed graph, with its copies: every operand before its reader."""

    task: Task  # the graph with its copies
    # value, pe: by node: bits of a source's value, PE
    value: np.ndarray
    pe: np.ndarray
    at: np.ndarray  # int64 [nodes of the graph]: where each stands here
    copied: np.ndarray  # int64 [copies]: the graph's node that each copies
    copies: np.ndarray  # int64 [copies]: where each stands here


class _Trees:
    """The copies of a graph's values, numbered behind its nodes.

    ``of``: what each copies, a node or another copy; ``pe``: its PE.
    """

    def __init__(self, overlay: Overlay, nodes: int):
        self.cols = overlay.cols
        self.nodes = nodes
        self.of: list[int] = []
        self.pe: list[int] = []

    def grow(self, value: int, home: int, wanted: list[int]) -> dict[int, int]:
        """Senders of a value: the node from which each of the PEs that want it gets it; ``home``:
        the PE that sends to them.
        """
        if len(wanted) <= FAN:
            return dict.fromkeys(wanted, value)
        found = {}
        for group in self._groups(wanted):
            root = min(group, key=lambda p: (self._hops(home, p), p))
            found[root] = value
            others = [p for p in group if p != root]
            if others:
                copy = self.nodes + len(self.of)
                self.of.append(value)
                self.pe.append(root)
                found |= self.grow(copy, root, others)
        return found

    def _hops(self, p: int, q: int) -> int:
        return abs(p % self.cols - q % self.cols) + abs(p // self.cols - q // self.cols)

    def _groups(self, wanted: list[int]) -> list[list[int]]:
        """PEs halved along their longer side, the most first, until there are half as many groups
        as one may send to.
        """
        groups = [wanted]
        while len(groups) < max(2, FAN // 2):
            most = max(groups, key=len)
            groups.remove(most)
            x = [p % self.cols for p in most]
            y = [p // self.cols for p in most]
            wide = max(x) - min(x) >= max(y) - min(y)
            swap = [(p % self.cols, p) for p in most] if wide else [(p, p) for p in most]
            most = [p for _, p in sorted(swap)]
            groups += [most[: len(most) // 2], most[len(most) // 2 :]]
        return groups


def with_copies(task: Task, value: np.ndarray, pe: np.ndarray) -> Placed:
    """A placed graph with its copies, where a PE sends to more than FAN."""
    e = task.e
    n = len(task.op)
    trees = _Trees(task.overlay, n)
    a = task.a.astype(np.int64)
    b = task.b.astype(np.int64)
    for u in _wanted(task.overlay, e, pe, n):
        here = slice(e.start[u], e.start[u + 1])
        dst = e.dst[here]
        foreign = np.unique(pe[dst])
        found = trees.grow(u, int(pe[u]), [int(p) for p in foreign if p != pe[u]])
        for d, slot in zip(dst.tolist(), e.slot[here].tolist(), strict=True):
            operand = b if slot & 1 else a
            operand[d] = found.get(int(pe[d]), u)
    if not trees.of:
        own = np.arange(n)
        none = np.zeros(0, np.int64)
        return Placed(replace(task, a=a, b=b), value, pe, own, none, none)
    return _in_order(replace(task, a=a, b=b), trees, value, pe)


def _wanted(overlay: Overlay, e: Edges, pe: np.ndarray, nodes: int) -> list[int]:
    """Nodes whose values more PEs want than one may send to."""
    if not overlay.forwards or overlay.kinds == "specialised":
        return []
    away = pe[e.src] != pe[e.dst]
    pairs = np.unique(e.src[away].astype(np.int64) * overlay.pes + pe[e.dst[away]])
    wants = np.bincount(pairs // overlay.pes, minlength=nodes)
    return np.flatnonzero(wants > FAN).tolist()


def _in_order(task: Task, trees: _Trees, value: np.ndarray, pe: np.ndarray) -> Placed:
    """Copies stand behind what they copy."""
    n = len(task.op)
    of = np.array(trees.of, np.int64)
    count = len(of)
    origin = np.arange(n + count)
    for k in range(count):
        origin[n + k] = origin[of[k]]
    order = np.lexsort((np.arange(n + count), origin))
    at = np.empty(n + count + 1, np.int64)
    at[order] = np.arange(n + count)
    at[-1] = -1
    left = at[np.concatenate([task.a, of])][order]
    right = at[np.concatenate([task.b, of])][order]

    def longer(old: np.ndarray, new) -> np.ndarray:
        return np.concatenate([old, np.full(count, new, old.dtype)])[order]

    op = longer(task.op, COPY)
    copied = Task(
        task.overlay,
        op,
        longer(task.source, False),
        left,
        right,
        edges(op, left, right),
        longer(task.latency, task.overlay.latency(OP_CLASS[COPY])),
    )
    return Placed(
        copied,
        longer(value, 0),
        np.concatenate([pe, np.array(trees.pe, pe.dtype)])[order],
        at[:n],
        origin[n:],
        at[n : n + count],
    )
