"""Random dataflow graphs."""

from collections.abc import Sequence

import numpy as np

from ..overlay.core.dataflow import DataflowGraph
from ..overlay.core.ops import ARITY, FORMATS, Op
from ..overlay.graphs import Builder, merge
from ..overlay.graphs.builder import Value


def random_graph(
    nodes: int,
    sources: int,
    seed: int,
    fmt: str = "fp32",
    reach: int = 40,
    hubs: int = 3,
    ops: Sequence[Op] = tuple(op for op in Op if op < Op.THEN),
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


def random_regions(
    nodes: int, seed: int, ops: Sequence[Op] = (Op.ADD, Op.SUB, Op.MUL), depth: int = 3
) -> DataflowGraph:
    """A graph of conditional regions, up to ``depth`` in one another."""
    r = np.random.default_rng(seed)
    g = Builder(f"regions {seed}")
    binary = [op for op in ops if ARITY[op] == 2]

    def block(given: list[Value], size: int, deep: int) -> Value:
        made = list(given)
        while size > 0:
            x, y = (made[-1 - int(r.integers(min(8, len(made))))] for _ in range(2))
            inside = int(r.integers(1, max(2, size // 2)))
            if deep and size > 8 and (r.random() < 0.3 or deep == depth):
                sides = zip(*(g.switch(x < y, v) for v in (x, made[-1])), strict=True)
                made.append(merge(*(block(list(side), inside, deep - 1) for side in sides)))
                size -= 2 * inside
            else:
                made.append(g.op(binary[int(r.integers(len(binary)))], x, y))
                size -= 1
        return made[-1]

    sources = [g.input(f"i{k}", float(r.standard_normal())) for k in range(6)]
    for k in range(3):
        g.output(f"o{k}", block(sources, nodes // 3, depth))
    return g.graph()


def random_choices(
    nodes: int,
    regions: int,
    share: float,
    seed: int,
    width: int = 24,
    ops: Sequence[Op] = (Op.ADD, Op.SUB, Op.MUL),
) -> DataflowGraph:
    """A graph of about ``nodes`` operations, of which a ``share`` is in conditional regions, as
    much on either side: they read what a first part computes, and a last part reads them, beside
    another. About ``width`` values are alive at a time, and each value is read.
    """
    r = np.random.default_rng(seed)
    g = Builder(f"choices {nodes} {regions} {share:.2f} {seed}")

    def block(given: list[Value], size: int, ends: int) -> list[Value]:
        made = list(given)
        waiting = list(range(len(made)))  # not read yet
        for left in range(size, 0, -1):
            pair = []
            for _ in range(2):
                spare = len(waiting) - ends
                if spare > 0 and (len(waiting) > width or left <= spare + 1):
                    pair.append(waiting.pop(0))
                    continue
                pair.append(len(made) - 1 - int(r.integers(min(width, len(made)))))
                if pair[-1] in waiting and spare > 0:
                    waiting.remove(pair[-1])
            made.append(g.op(ops[int(r.integers(len(ops)))], *(made[k] for k in pair)))
            waiting.append(len(made) - 1)
        return [made[k] for k in waiting]

    sources = [g.input(f"i{k}", float(r.standard_normal())) for k in range(12)]
    inside = int(nodes * share / regions / 2)
    rest = nodes - 2 * inside * regions
    entries = block(sources, rest // 3, 4 * regions)
    merged = []
    for k in range(regions):
        given = entries[4 * k : 4 * k + 4]
        sides = zip(*(g.switch(given[0] < given[1], v) for v in given), strict=True)
        one, other = (block(list(side), inside, 2) for side in sides)
        merged += [merge(one[-k], other[-k]) for k in (1, 2)]
    beside = block(sources, rest // 3, 4)
    for k, value in enumerate(block([*beside, *merged], rest - 2 * (rest // 3), 3)):
        g.output(f"o{k}", value)
    return g.graph()
