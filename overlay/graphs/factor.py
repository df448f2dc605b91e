"""Sparse LU factorisation with the pattern kept: which entries, in which order, and the pivots,
decided once on the host.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ...machine.errors import ProgramError
from .ordering import Order, named, order


@dataclass(frozen=True)
class Factors:
    """P A Q = L U block by block (entries above the diagonal blocks are not touched)."""

    a: sp.csc_array  # the matrix
    # rows, cols: pivot k is entry (rows[k], cols[k]) of ``a``
    rows: np.ndarray
    cols: np.ndarray
    starts: np.ndarray  # block b holds pivots starts[b] to starts[b + 1]
    # upper, lower: per column (pivot order), pivot indices of the entries of U above the diagonal,
    # ascending, and of L below it (in the order found)
    upper: list[np.ndarray]
    lower: list[np.ndarray]
    # below, u, pivot: their values in float64; ``pivot[k]`` is U's diagonal
    u: list[np.ndarray]
    below: list[np.ndarray]
    pivot: np.ndarray

    def matrices(self) -> tuple[sp.csc_array, sp.csc_array]:
        """L (unit diagonal) and U, float64."""
        n = len(self.pivot)

        def build(pattern, values, diagonal):
            count = [len(p) for p in pattern]
            rows = np.concatenate([np.arange(n), *pattern])
            cols = np.concatenate([np.arange(n), np.repeat(np.arange(n), count)])
            return sp.csc_array((np.concatenate([diagonal, *values]), (rows, cols)), shape=(n, n))

        return build(self.lower, self.below, np.ones(n)), build(self.upper, self.u, self.pivot)

    def blocks(self) -> sp.csc_array:
        """P A Q without the entries outside the diagonal blocks: the product of L and U."""
        entries = self.a[self.rows][:, self.cols].tocoo()
        block = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        inside = block[entries.row] == block[entries.col]
        return sp.csc_array(
            (entries.data[inside], (entries.row[inside], entries.col[inside])), shape=self.a.shape
        )

    def entries(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Column k of P A Q within its block: pivot indices (ascending) and values."""
        i, v = _column(self.a, self.inverse, self.starts, k, self.cols)
        o = np.argsort(i)
        return i[o], v[o]

    @cached_property
    def inverse(self) -> np.ndarray:
        """Pivot index of each row of ``a``."""
        inverse = np.empty(len(self.rows), np.int64)
        inverse[self.rows] = np.arange(len(self.rows))
        return inverse


def _column(a, place, starts, k, cols):
    part = slice(a.indptr[cols[k]], a.indptr[cols[k] + 1])
    i = place[a.indices[part]]
    v = a.data[part]
    block = np.searchsorted(starts, k, "right") - 1
    inside = (i >= starts[block]) & (i < starts[block + 1])
    return i[inside], v[inside]


def factorise(
    a: sp.csc_array,
    method: str = "amd",
    threshold: float = 1e-3,
    where: str = "matrix",
    given: Order | None = None,
    names: Sequence[str] | None = None,
) -> Factors:
    """Left-looking factorisation with partial pivoting that prefers the diagonal.

    The diagonal is the pivot unless it is below ``threshold`` times the largest candidate; rows
    count divided by their largest entry when pivots are compared. ProgramError names the column at
    which a singular matrix has no pivot, by its number or as one of ``names``.
    """
    o = given or order(a, method, where, names)
    n = a.shape[0]
    place = np.empty(n, np.int64)
    place[o.rows] = np.arange(n)  # position of a row before pivoting
    scale = np.zeros(n)
    np.maximum.at(scale, place[a.indices], np.abs(a.data))
    scale[scale == 0] = 1
    pivot_of = np.full(n, -1)  # position -> pivot index
    position = np.empty(n, np.int64)  # pivot index -> position
    upper = []
    lower = []
    u_values = []
    l_values = []
    pivots = np.empty(n)
    x = np.zeros(n)
    mark = np.zeros(n, bool)
    for k in range(n):
        rows, values = _column(a, place, o.starts, k, o.cols)
        x[rows] = values
        mark[rows] = True
        touched = [rows]
        found = []
        heap = [p for p in pivot_of[rows].tolist() if p >= 0]
        heapq.heapify(heap)
        while heap:
            p = heapq.heappop(heap)
            found.append(p)
            below = lower[p]  # positions, until the block is done
            x[below] -= l_values[p] * x[position[p]]
            new = below[~mark[below]]
            if len(new):
                mark[new] = True
                touched.append(new)
                for q in pivot_of[new].tolist():
                    if q >= 0:
                        heapq.heappush(heap, q)
        rows = np.concatenate(touched)
        open_ = rows[pivot_of[rows] < 0]
        size = np.abs(x[open_]) / scale[open_]
        if not len(open_) or size.max() == 0 or not np.isfinite(size).all():
            raise ProgramError(
                f"is singular: no pivot in {named(int(o.cols[k]), names)}",
                where,
                "after elimination every column keeps an entry that is not zero",
            )
        best = int(np.argmax(size))
        diagonal = np.flatnonzero(open_ == k)
        if len(diagonal) and size[diagonal[0]] >= threshold * size[best] and size[diagonal[0]] > 0:
            best = int(diagonal[0])
        chosen = open_[best]
        pivot_of[chosen] = k
        position[k] = chosen
        pivots[k] = x[chosen]
        rest = np.delete(open_, best)
        upper.append(np.array(found, np.int64))
        u_values.append(x[position[found]] if found else np.empty(0))
        lower.append(rest)
        l_values.append(x[rest] / pivots[k])
        x[rows] = 0
        mark[rows] = False
    lower = [pivot_of[rest] for rest in lower]
    return Factors(a, o.rows[position], o.cols, o.starts, upper, lower, u_values, l_values, pivots)
