"""A graph's values in float64 with NumPy: what the error columns are measured against."""

from __future__ import annotations

import numpy as np

from penstock.machine.dataflow import DataflowGraph
from penstock.machine.token_ops import ARITY, Op

_MEANING = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide, Op.SQRT: np.sqrt, Op.EXP: np.exp, Op.LOG: np.log,
    Op.LT: lambda a, b: (a < b) * 1.0, Op.LE: lambda a, b: (a <= b) * 1.0, Op.EQ: lambda a, b: (a == b) * 1.0,
    Op.GATE: lambda c, x: np.where(c != 0, x, 0.0), Op.JOIN: lambda a, b: (a.view(np.uint64) | b.view(np.uint64)).view(np.float64),
}


def float64(graph: DataflowGraph, sources: np.ndarray) -> np.ndarray:
    """float64 [nodes] from the sources' values (as the format rounded them; operations' entries are not read)."""
    out = np.asarray(sources, np.float64).copy()
    order = np.lexsort((graph.op, graph.level))
    order = order[graph.op[order] >= Op.ADD]
    key = graph.level[order].astype(np.int64) * len(Op) + graph.op[order]
    with np.errstate(all="ignore"):
        for nodes in np.split(order, np.flatnonzero(np.diff(key)) + 1):
            if len(nodes):
                op = Op(int(graph.op[nodes[0]]))
                out[nodes] = _MEANING[op](*(out[x[nodes]] for x in (graph.a, graph.b)[: ARITY[op]]))
    return out


def relative_error(got: np.ndarray, wanted: np.ndarray) -> float | None:
    """Largest error of the finite values, relative to the largest magnitude among those wanted; None where nothing is finite."""
    finite = np.isfinite(wanted)
    if not finite.any():
        return None
    scale = float(np.abs(wanted[finite]).max()) or 1.0
    return float(np.abs(got[finite] - wanted[finite]).max() / scale)
