"""Networks under the worst traffic that placements can make: every token arrives, with the smallest
FIFOs (docs/overlay.md sections 4 and 5).
"""

import numpy as np
import pytest
from penstock.overlay.core.config import Overlay
from penstock.overlay.core.dataflow import DataflowGraph
from penstock.overlay.core.ops import Op
from penstock.overlay.model import simulate, values
from penstock.overlay.runs.regression import DYNAMIC
from penstock.overlay.runs.traffic import TRAFFIC
from penstock.scheduler.token import map_graph
from penstock.testing.token_graphs import random_graph

SIDE = 5


def served(image, graph):
    """Operands that PEs meet: those of the graph's nodes, and two of each copy."""
    return len(graph.edges) + 2 * len(image.copy_node)


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize("alu", ["unit", "pipelined"])
def test_every_token_arrives(traffic, alu):
    for i, kw in enumerate(DYNAMIC):
        graph = random_graph(1500, 500, i, reach=400, hubs=2)
        m = map_graph(
            graph,
            Overlay(SIDE, SIDE, fifo_depth=2, alu=alu, **kw),
            pe=TRAFFIC[traffic](graph, SIDE, np.random.default_rng(i)),
        )
        run = simulate(m.image)
        assert run.consumed.sum() == served(m.image, graph)
        assert run.generated.sum() == len(m.image.first) + len(m.image.rest)
        assert np.array_equal(
            values(m.image, run), graph.evaluate().view(np.uint32).astype(np.uint64)
        )


@pytest.mark.parametrize("kw", DYNAMIC, ids=str)
def test_one_value_for_everyone(kw):
    """A value with a thousand consumers everywhere, whose results all come back to one PE."""
    n = 1000
    op = np.r_[[Op.INPUT], np.full(n, Op.ADD), np.full(n - 1, Op.ADD)]
    a = np.r_[[-1], np.zeros(n, int), 1, np.arange(n + 1, 2 * n - 1)]
    b = np.r_[[-1], np.zeros(n, int), np.arange(2, n + 1)]
    graph = DataflowGraph(
        op, a, b, np.r_[[1.0], np.zeros(2 * n - 1)], {0: "x", 2 * n - 1: "sum"}, [2 * n - 1]
    )
    pe = np.r_[[7], np.arange(n) % (SIDE * SIDE), np.full(n - 1, SIDE * SIDE - 1)]
    m = map_graph(graph, Overlay(SIDE, SIDE, fifo_depth=2, **kw), pe=pe)
    run = simulate(m.image)
    assert run.consumed.sum() == served(m.image, graph)
    assert values(m.image, run)[-1] == np.float32(2 * n).view(np.uint32)
