"""Reference of the error columns: a graph's values in float64 with NumPy, and SciPy's
factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ..core.dataflow import DataflowGraph
from ..core.ops import ARITY, Op
from ..graphs.factor import Factors
from ..graphs.lu import entry_values, read_factors

_MEANING = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: np.divide,
    Op.SQRT: np.sqrt,
    Op.EXP: np.exp,
    Op.LOG: np.log,
    Op.LT: lambda a, b: (a < b) * 1.0,
    Op.LE: lambda a, b: (a <= b) * 1.0,
    Op.EQ: lambda a, b: (a == b) * 1.0,
    Op.GATE: lambda c, x: np.where(c != 0, x, 0.0),
    Op.JOIN: lambda a, b: (a.view(np.uint64) | b.view(np.uint64)).view(np.float64),
    Op.THEN: lambda c, x: x,
    Op.ELSE: lambda c, x: x,
}


def float64(graph: DataflowGraph, sources: np.ndarray) -> np.ndarray:
    """float64 [nodes] from the sources' values (as the format rounded them; operations' entries are
    not read).
    """
    out = np.asarray(sources, np.float64).copy()
    with np.errstate(all="ignore"):
        for op, nodes in graph.groups:
            if op is Op.MERGE:
                out[nodes] = graph.regions.merged(nodes, out)
                continue
            out[nodes] = _MEANING[op](*(out[x[nodes]] for x in (graph.a, graph.b)[: ARITY[op]]))
    return out


def relative_error(got: np.ndarray, wanted: np.ndarray) -> float | None:
    """Largest error of the finite values, relative to the largest magnitude among those wanted;
    None where nothing is finite.
    """
    finite = np.isfinite(wanted)
    if not finite.any():
        return None
    scale = float(np.abs(wanted[finite]).max()) or 1.0
    return float(np.abs(got[finite] - wanted[finite]).max() / scale)


def beyond(graph: DataflowGraph, sources: np.ndarray, got: np.ndarray) -> np.ndarray:
    """The nodes whose values are beyond the format's range: infinite or no numbers where float64,
    from the sources before they were rounded, has a number.

    ``sources``: as the format rounded them; ``got``: all values.
    """
    wide = np.asarray(sources, np.float64)
    wide = np.where(np.isfinite(wide), wide, graph.value)
    return np.flatnonzero(np.isfinite(float64(graph, wide)) & ~np.isfinite(got))


def underflown(graph: DataflowGraph, sources: np.ndarray) -> np.ndarray:
    """The inputs and constants that the format rounds to 0, and that are not."""
    return np.flatnonzero((graph.op < Op.ADD) & (sources == 0) & (graph.value != 0))


def underflow_line(number: int, first: str | None, fmt: str) -> str:
    """The line about a number of sources that the format rounds to 0, of which one is named."""
    return (
        f"underflow: {number} inputs or constants, {first} the first, are 0 in {fmt}, and not in "
        "float64"
    )


def print_underflow(graph: DataflowGraph, fmt: str) -> None:
    """Print the line about the graph's sources that the format rounds to 0, if there are any."""
    tiny = underflown(graph, graph.sources(None, fmt))
    if len(tiny):
        print(underflow_line(len(tiny), graph.label(tiny[0]), fmt))


@dataclass(frozen=True)
class Factorised:
    """Distance of computed factors from SciPy's."""

    # largest difference from the entries of SciPy's L or U (a front solve: its column), relative to
    # the largest entry of the same factor; grows with the matrix' condition
    error: float
    # largest of |L U - A| / (|L| |U|), entry by entry, in units of the format's rounding (half a
    # unit in the last place of 1); A as the format rounds it. Whatever the condition, correct
    # roundings keep it below the operations on the longest way to an entry; an underflow counts as
    # one. None of a front solve.
    residual: float | None


def against_scipy(graph: DataflowGraph, values: np.ndarray) -> Factorised | None:
    """The values (floats, [nodes]) of a factorisation or front solve against SuperLU with the same
    pivots; None for other graphs, and where a value is not finite.
    """

    f = graph.meta.get("factors")
    results = graph.results(values)
    if f is None or not all(np.isfinite(v) for v in results.values()):
        return None
    lower, upper = scipy_factors(f)
    if "column" in graph.meta:
        k = graph.meta["column"]
        wanted = upper[:, [k]].toarray().ravel()
        below = lower[:, [k]].toarray().ravel() * wanted[k]
        wanted[k + 1 :] = below[k + 1 :]
        found = {int(name[2:-1]): float(v) for name, v in entry_values(results).items()}
        return Factorised(
            float(max(abs(v - wanted[i]) for i, v in found.items()) / np.abs(wanted).max()), None
        )
    mine = read_factors(results, f)
    error = max(
        float(abs(x - y).max() / abs(y).max()) for x, y in zip(mine, (lower, upper), strict=True)
    )
    exact = f.blocks()
    bound = (abs(mine[0]) @ abs(mine[1])).tocsr()
    exact.data = exact.data.astype(values.dtype).astype(np.float64)
    left = abs(mine[0] @ mine[1] - exact).tocoo()
    left.eliminate_zeros()
    if not left.nnz:
        return Factorised(error, 0.0)
    limits = np.finfo(values.dtype)
    rounding = limits.eps / 2
    size = (
        rounding * np.asarray(bound[left.row, left.col]).ravel() + limits.tiny
    )  # the smallest normal number: what an underflow loses
    return Factorised(error, float((left.data / size).max(initial=0)))


def scipy_factors(f: Factors) -> tuple[sp.csc_array, sp.csc_array]:
    """L and U of the same pivots in the same order from SciPy (SuperLU, float64, no scaling, no
    exchange of rows).
    """

    found = splu(f.blocks(), permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"Equil": False})
    if not np.array_equal(found.perm_r, found.perm_c):
        raise ValueError("SciPy has other pivots")
    back = found.perm_r  # SuperLU numbers independent columns anew
    return sp.csc_array(found.L)[back][:, back], sp.csc_array(found.U)[back][:, back]
