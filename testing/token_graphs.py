"""Random dataflow graphs."""

import numpy as np

from ..overlay.core.dataflow import DataflowGraph
from ..overlay.core.ops import ARITY, Op, format_of


def random_graph(
    seed: int, *, sources: int, operations: int, fmt: str = "fp32", reach: int = 40
) -> DataflowGraph:
    """Operations on recent nodes (at most ``reach`` back) or any; one in four sources is a
    constant; values of every magnitude.
    """
    rng = np.random.default_rng(seed)
    known = [op for op in Op if ARITY[op] and op in format_of(fmt).ops]
    op = []
    a = []
    b = []
    value = []
    for _ in range(sources):
        op.append(Op.CONST if rng.random() < 0.25 else Op.INPUT)
        a.append(-1)
        b.append(-1)
        value.append(float(rng.standard_normal() * 2.0 ** rng.integers(-3, 4)))
    weight = np.array([4.0 if o in (Op.ADD, Op.MUL, Op.SUB) else 1.0 for o in known])
    for i in range(sources, sources + operations):
        o = known[rng.choice(len(known), p=weight / weight.sum())]
        low = max(0, i - reach) if rng.random() < 0.7 else 0
        op.append(o)
        a.append(int(rng.integers(low, i)))
        b.append(int(rng.integers(low, i)) if ARITY[o] == 2 else -1)
        value.append(0.0)
    n = len(op)
    return DataflowGraph(
        np.array(op),
        np.array(a),
        np.array(b),
        np.array(value),
        {i: f"in{i}" for i in range(n) if op[i] == Op.INPUT} | {n - 1: "out"}
        if op[-1] != Op.INPUT
        else {i: f"in{i}" for i in range(n)},
        [n - 1],
        title=f"random{seed}",
    )
