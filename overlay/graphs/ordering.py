"""The static order of a circuit matrix: block triangular form, then a fill-reducing order of each
block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import networkx as nx
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.sparse.linalg import splu

from ...machine.errors import ProgramError

AMD_LIMIT = 25_000
"""Rows of a block up to which AMD is used: its Python interface wants the pattern as a dense array
of bytes.
"""


@dataclass(frozen=True)
class Order:
    """A[rows][:, cols] is block upper triangular; block b is rows and columns starts[b] to starts[b
    + 1]. Its diagonal has no structural zero.
    """

    rows: np.ndarray
    cols: np.ndarray
    starts: np.ndarray


def order(
    a: sp.csc_array, method: str = "amd", where: str = "matrix", names: Sequence[str] | None = None
) -> Order:
    """Block triangular form by a maximum matching and strong components, then each block ordered by
    ``method`` on its pattern + transposed pattern.

    ``amd``: approximate minimum degree (SuiteSparse); ``mmd``: multiple minimum degree (SuperLU);
    ``natural``: as it stands. ProgramError if the matrix is structurally singular, naming a column
    without a row, by its number or as one of ``names``.
    """
    if method not in ("amd", "mmd", "natural"):
        raise ProgramError(f"unknown ordering {method!r}", where, remedy="use amd, mmd or natural")
    n = a.shape[0]
    pattern = sp.csr_array(
        (np.ones(a.nnz, np.int8), a.indices, a.indptr), shape=(n, n)
    ).T.tocsr()  # rows of A
    if a.nnz and (_entries_on_diagonal(a) == n):
        match = np.arange(n)
    else:
        match = maximum_bipartite_matching(pattern, perm_type="row")  # of each column its row
    if (match < 0).any():
        raise ProgramError(
            f"is structurally singular: {named(int(np.argmax(match < 0)), names)} has no row of "
            "its own",
            where,
            "every column needs an entry in a row that no other column claims",
        )
    column = np.empty(n, np.int64)  # of each row its column
    column[match] = np.arange(n)
    square = sp.csc_array(a[:, column])  # the diagonal is full
    square.data = np.ones_like(square.data)  # a zero that is an entry counts
    # Row j leads to the rows of its column; components come out when all they lead to is out, so
    # above the diagonal.
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(
        zip(
            np.repeat(np.arange(n), np.diff(square.indptr)).tolist(),
            square.indices.tolist(),
            strict=True,
        )
    )
    blocks = [np.sort(np.fromiter(b, np.int64)) for b in nx.strongly_connected_components(graph)]
    rows = np.concatenate(
        [m if len(m) < 3 else m[_fill_reducing(square[m][:, m], method)] for m in blocks]
    )
    return Order(rows, column[rows], np.cumsum([0] + [len(m) for m in blocks]))


def named(column: int, names: Sequence[str] | None) -> str:
    """A column in a message."""
    return names[column] if names else f"column {column}"


def _entries_on_diagonal(a: sp.csc_array) -> int:
    return int((a.indices == np.repeat(np.arange(a.shape[1]), np.diff(a.indptr))).sum())


def _fill_reducing(block: sp.csc_array, method: str) -> np.ndarray:
    n = block.shape[0]
    if method == "natural":
        return np.arange(n)
    if method == "amd" and n <= AMD_LIMIT:
        from suitesparse_amd.amd import amd

        dense = np.zeros((n, n), np.bool_)
        rows, cols = block.nonzero()
        dense[rows, cols] = True
        permutation, _ = amd(dense, dense_permutation=False)
        return np.array(permutation)
    both = (block + block.T).astype(np.float64)
    dominant = sp.csc_array(both + sp.diags_array(np.full(n, 2.0 * n)))
    return np.argsort(
        splu(dominant, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).perm_c
    )
