"""Random dataflow graphs."""

from collections.abc import Sequence

import numpy as np

from ..overlay.core.dataflow import DataflowGraph
from ..overlay.core.ops import ARITY, FORMATS, Op


def random_graph(
    nodes: int,
    sources: int,
    seed: int,
    fmt: str = "fp32",
    reach: int = 40,
    hubs: int = 3,
    ops: Sequence[Op] = tuple(Op),
) -> DataflowGraph:
    """A graph with local and far operands, unary operations, squares, and a few nodes of large
    fan-out.
    """
    r = np.random.default_rng(seed)
    known = [op for op in ops if ARITY[op] and op in FORMATS[fmt].ops]
    op = np.zeros(nodes, np.uint8)
    a = np.full(nodes, -1)
    b = np.full(nodes, -1)
    op[:sources] = r.choice([Op.INPUT, Op.CONST], sources)
    for i in range(sources, nodes):
        op[i] = r.choice(known)

        def pick(i=i):
            return int(
                r.integers(0, min(i, hubs))
                if r.random() < 0.1
                else r.integers(max(0, i - reach), i)
                if r.random() < 0.6
                else r.integers(0, i)
            )

        a[i] = pick()
        if ARITY[op[i]] == 2:
            b[i] = a[i] if r.random() < 0.05 else pick()
    uses = np.bincount(np.concatenate([a[a >= 0], b[b >= 0]]), minlength=nodes)
    ends = np.flatnonzero(uses == 0)
    value = np.where(op < Op.ADD, r.standard_normal(nodes), 0)
    names = {int(i): f"i{i}" for i in np.flatnonzero(op == Op.INPUT)} | {
        int(i): f"o{i}" for i in ends if op[i] not in (Op.INPUT,)
    }
    return DataflowGraph(
        op, a, b, value, names, [int(i) for i in ends], [f"out{i}" for i in ends], f"random {seed}"
    )
