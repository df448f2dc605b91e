"""Dataflow graphs of sparse LU factorisation: the whole of it, or the front solve of one column.

Signs cost nothing: a node may hold minus an entry. Additions and subtractions are chosen so that
the sums come out right, and an output that holds minus its entry has a name that starts with ``-``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from ...machine.errors import ProgramError
from ..core.dataflow import DataflowGraph
from ..core.forms import SHAPES
from ..core.ops import Op
from .builder import Row, columns
from .factor import Factors


class _Arrays:
    """Nodes, appended in blocks."""

    def __init__(self):
        self.blocks: list[list[np.ndarray]] = []
        self.n = 0

    def add(
        self,
        op: int | np.ndarray,
        a: int | np.ndarray,
        b: int | np.ndarray,
        count: int,
        value: float | np.ndarray = 0.0,
    ) -> np.ndarray:
        """Indices of ``count`` new nodes."""
        self.blocks.append([np.broadcast_to(column, count) for column in (op, a, b, value)])
        self.n += count
        return np.arange(self.n - count, self.n, dtype=np.int32)

    def columns(self) -> list[np.ndarray]:
        """The nodes so far, as arrays of a DataflowGraph."""
        return [np.concatenate(column) for column in zip(*self.blocks, strict=True)]


def whole_lu(f: Factors, title: str = "lu") -> DataflowGraph:
    """The whole left-looking factorisation: every entry of A that it reads an input, one mul, add
    or sub, or div per operation.

    The first product that fills an empty place needs no addition, so there are exactly two edges
    per operation. Inputs ``A[row,col]`` (indices of the matrix, from 0; defaults its values);
    outputs ``L[row,col]`` and ``U[row,col]`` in pivot order, ``-L[..]`` and ``-U[..]`` where the
    node holds minus the entry. A block of one row has nothing to compute and is left out.
    """
    n = len(f.pivot)
    g = _Arrays()
    names: dict[int, str] = {}
    outputs: list[np.ndarray] = []
    output_names: list[str] = []
    node = np.full(n, -1, np.int32)
    positive = np.ones(n, bool)
    l_nodes: dict[int, np.ndarray] = {}
    l_positive: dict[int, np.ndarray] = {}
    size = np.diff(f.starts)
    alone = np.repeat(size == 1, size)
    for k in range(n):
        if alone[k]:
            continue
        rows, values = f.entries(k)
        inputs = g.add(Op.INPUT, -1, -1, len(rows), values)
        col = f.cols[k]
        names.update(
            (i, f"A[{r},{col}]")
            for i, r in zip(inputs.tolist(), f.rows[rows].tolist(), strict=True)
        )
        node[rows] = inputs
        positive[rows] = True
        for p in f.upper[k].tolist():
            below = f.lower[p]
            if not len(below):
                continue
            product = g.add(Op.MUL, l_nodes[p], node[p], len(below))
            plus = l_positive[p] != positive[p]  # the sign of -(l u)
            fresh = node[below] < 0
            filled = below[fresh]
            node[filled] = product[fresh]
            positive[filled] = plus[fresh]
            if len(filled) < len(below):
                old = ~fresh
                target = below[old]
                term = product[old]
                term_plus = plus[old]
                have = node[target]
                have_plus = positive[target]
                same = have_plus == term_plus
                swap = ~same & term_plus  # -x + term = term - x
                node[target] = g.add(
                    np.where(same, Op.ADD, Op.SUB),
                    np.where(swap, term, have),
                    np.where(swap, have, term),
                    len(target),
                )
                positive[target] = have_plus | ~same
        upper = f.upper[k]
        lower = f.lower[k]
        if len(lower):
            l_nodes[k] = g.add(Op.DIV, node[lower], node[k], len(lower))
        else:
            l_nodes[k] = np.empty(0, np.int32)
        l_positive[k] = positive[lower] == positive[k]
        above = np.append(upper, k)
        outputs += [node[above], l_nodes[k]]
        output_names += [
            f"{'' if s else '-'}U[{i},{k}]"
            for i, s in zip(above.tolist(), positive[above].tolist(), strict=True)
        ]
        output_names += [
            f"{'' if s else '-'}L[{i},{k}]"
            for i, s in zip(lower.tolist(), l_positive[k].tolist(), strict=True)
        ]
        node[above] = -1
        node[lower] = -1
        node[rows] = -1
    if not outputs:
        raise ProgramError("is triangular after permutation: there is nothing to factorise", title)
    return DataflowGraph(
        *g.columns(),
        name=names,
        outputs=np.concatenate(outputs).tolist(),
        output_names=output_names,
        title=title,
        meta={"factors": f},
    )


def front_solve(
    f: Factors, column: int, depth: int = 1, shape: str = "balanced", title: str = "column"
) -> DataflowGraph:
    """The front solve x = L \\ A(:, k) of one column (k in pivot order), as left-looking
    factorisation does it: entries of U, and of L before division.

    Rows are taken ``depth`` at a time in pivot order. Within such a group a row's solution is
    written out in terms of what comes before the group (substitution), without common
    sub-expressions: the group's rows do not wait for each other. Sums and products are then built
    in the given ``shape``. Inputs ``L[i,j]`` and ``b[i]`` (only those used; defaults the matrix'
    own values), outputs ``x[i]``, or ``-x[i]`` for a node that holds minus it; all indices in pivot
    order.
    """
    n = len(f.pivot)
    if not 0 <= column < n:
        raise ProgramError(f"there is no column {column}", title, f"columns are 0 to {n - 1}")
    if depth < 1:
        raise ProgramError(f"substitution depth must be at least 1, not {depth}", title)
    if shape not in SHAPES:
        raise ProgramError(f"unknown shape {shape!r}", title, remedy=f"use {', '.join(SHAPES)}")
    rows, values = f.entries(column)
    uses: dict[int, list[tuple[int, float]]] = {}  # row -> the (column, value) of L it reads
    for p in f.upper[column].tolist():
        for i, v in zip(f.lower[p].tolist(), f.below[p].tolist(), strict=True):
            uses.setdefault(i, []).append((p, v))
    if not uses:
        raise ProgramError(
            f"column {column} needs no operation",
            title,
            "a front solve reads at least one entry of L",
            "choose another column",
        )
    g = _Build(shape)
    b = {int(i): float(v) for i, v in zip(rows, values, strict=True)}
    solved: dict[int, tuple[int, bool]] = {}  # row -> node, sign
    pattern = sorted(set(b) | set(uses))
    for start in range(0, len(pattern), depth):
        group = pattern[start : start + depth]
        expanded: dict[int, list[tuple[list[int], bool]]] = {}  # row -> products of (nodes, sign)
        for i in group:
            terms = [([g.input(f"b[{i}]", b[i])], True)] if i in b else []
            for j, v in uses.get(i, ()):
                entry = g.input(f"L[{i},{j}]", v)
                if j in expanded:
                    terms += [([entry, *factors], not s) for factors, s in expanded[j]]
                else:
                    x, s = solved[j]
                    terms.append(([entry, x], not s))
            expanded[i] = terms
        for i in group:
            solved[i] = g.sum([(g.product(factors), s) for factors, s in expanded[i]])
    outputs = [i for i in pattern if i in uses]
    return g.graph(
        [(f"{'' if solved[i][1] else '-'}x[{i}]", solved[i][0]) for i in outputs],
        title,
        {"factors": f, "column": column},
    )


Item = TypeVar("Item")


class _Build:
    """Nodes one at a time, with their depth; inputs shared by name."""

    def __init__(self, shape: str):
        self.shape = shape
        self.nodes: list[Row] = []
        self.depth: list[int] = []
        self.names: dict[str, int] = {}

    def input(self, name: str, value: float) -> int:
        if name not in self.names:
            self.names[name] = self._node((Op.INPUT, -1, -1, value), 1)
        return self.names[name]

    def _node(self, row: Row, depth: int) -> int:
        self.nodes.append(row)
        self.depth.append(depth)
        return len(self.nodes) - 1

    def _join(self, op: Op, x: int, y: int) -> int:
        return self._node((op, x, y, 0.0), 1 + max(self.depth[x], self.depth[y]))

    def _signed(self, x: tuple[int, bool], y: tuple[int, bool]) -> tuple[int, bool]:
        (p, s), (q, t) = x, y
        if s == t:
            return self._join(Op.ADD, p, q), s
        return (self._join(Op.SUB, p, q) if s else self._join(Op.SUB, q, p)), True

    def _tree(
        self, items: list[Item], join: Callable[[Item, Item], Item], node: Callable[[Item], int]
    ) -> Item:
        """The items joined in the graph's shape; ``node``: of an item."""
        if self.shape == "chains":
            first, *rest = items
            for item in rest:
                first = join(first, item)
            return first
        if self.shape == "balanced":
            while len(items) > 1:
                items = [
                    join(items[i], items[i + 1]) if i + 1 < len(items) else items[i]
                    for i in range(0, len(items), 2)
                ]
            return items[0]
        heap = [(self.depth[node(item)], i, item) for i, item in enumerate(items)]
        heapq.heapify(heap)
        serial = len(heap)
        while len(heap) > 1:
            item = join(heapq.heappop(heap)[2], heapq.heappop(heap)[2])
            heapq.heappush(heap, (self.depth[node(item)], serial, item))
            serial += 1
        return heap[0][2]

    def product(self, factors: list[int]) -> int:
        return self._tree(factors, lambda x, y: self._join(Op.MUL, x, y), lambda x: x)

    def sum(self, terms: list[tuple[int, bool]]) -> tuple[int, bool]:
        return self._tree(terms, self._signed, lambda x: x[0])

    def graph(self, outputs: list[tuple[str, int]], title: str, meta: Mapping) -> DataflowGraph:
        return DataflowGraph(
            *columns(self.nodes),
            {i: s for s, i in self.names.items()},
            [i for _, i in outputs],
            [s for s, _ in outputs],
            title,
            meta,
        )


def entry_values(results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by the entry's own name, with the sign put back."""
    return {
        s.lstrip("-"): -np.asarray(v) if s.startswith("-") else np.asarray(v)
        for s, v in results.items()
    }


def read_factors(
    results: Mapping[str, np.ndarray], f: Factors
) -> tuple[sp.csc_array, sp.csc_array]:
    """L (unit diagonal) and U, float64 in pivot order, from the outputs of :func:`whole_lu`; a
    block of one row has its entry of A.
    """
    n = len(f.pivot)
    alone = np.flatnonzero(np.repeat(np.diff(f.starts) == 1, np.diff(f.starts)))
    parts = {
        "L": (list(range(n)), list(range(n)), [1.0] * n),
        "U": (alone.tolist(), alone.tolist(), f.pivot[alone].tolist()),
    }
    for name, v in entry_values(results).items():
        rows, cols, values = parts[name[0]]
        i, j = name[2:-1].split(",")
        rows.append(int(i))
        cols.append(int(j))
        values.append(float(v))

    def make(k):
        return sp.csc_array((parts[k][2], (parts[k][0], parts[k][1])), shape=(n, n))

    return make("L"), make("U")
