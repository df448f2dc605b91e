"""Networks under the worst traffic that placements can make: every token arrives, with the smallest FIFOs (docs/overlay.md sections 4 and 5)."""

import numpy as np
import pytest
from overlay_graphs import DYNAMIC, random_graph

from penstock.machine.dataflow import DataflowGraph
from penstock.machine.overlay import Overlay
from penstock.machine.token_ops import Op
from penstock.model.overlay import simulate, values
from penstock.scheduler.token import map_graph

SIDE = 5


def scattered(graph, r):
    """Every node anywhere."""
    return r.integers(0, SIDE * SIDE, len(graph))


def hotspot(graph, r):
    """All operations in the middle, all sources around it."""
    pe = r.integers(0, SIDE * SIDE, len(graph))
    pe[graph.op >= Op.ADD] = SIDE * SIDE // 2
    return pe


def opposite(graph, r):
    """Neighbouring levels in opposite corners: all traffic crosses the whole mesh, both ways."""
    return np.where(graph.level % 2 == 1, 0, SIDE * SIDE - 1)


def transpose(graph, r):
    """A consumer lies mirrored to its producer as often as can be."""
    pe = r.integers(0, SIDE * SIDE, len(graph))
    for n in np.flatnonzero(graph.op >= Op.ADD):
        pe[n] = pe[graph.a[n]] % SIDE * SIDE + pe[graph.a[n]] // SIDE
    return pe


def ring(graph, r):
    """Each level one step on around the rim: the turns that would make a cycle of a mesh without XY order."""
    rim = [(x, 0) for x in range(SIDE)] + [(SIDE - 1, y) for y in range(1, SIDE)] + [(x, SIDE - 1) for x in range(SIDE - 2, -1, -1)] + [(0, y) for y in range(SIDE - 2, 0, -1)]
    corner = graph.level % len(rim) // 4 * 4 + r.integers(0, 4, len(graph))
    return np.array([rim[i % len(rim)][1] * SIDE + rim[i % len(rim)][0] for i in corner])


@pytest.mark.parametrize("traffic", [scattered, hotspot, opposite, transpose, ring], ids=lambda f: f.__name__)
@pytest.mark.parametrize("alu", ["unit", "pipelined"])
def test_every_token_arrives(traffic, alu):
    for i, kw in enumerate(DYNAMIC):
        graph = random_graph(1500, 500, i, reach=400, hubs=2)
        m = map_graph(graph, Overlay(SIDE, SIDE, fifo_depth=2, alu=alu, **kw), pe=traffic(graph, np.random.default_rng(i)))
        run = simulate(m.image)
        assert run.consumed.sum() == len(graph.edges)
        assert run.generated.sum() == len(m.image.first_pe) + len(m.image.rest_pe)
        assert np.array_equal(values(m.image, run), graph.evaluate().view(np.uint32).astype(np.uint64))


@pytest.mark.parametrize("kw", DYNAMIC, ids=str)
def test_one_value_for_everyone(kw):
    """A value with a thousand consumers everywhere, whose results all come back to one PE."""
    n = 1000
    op = np.r_[[Op.INPUT], np.full(n, Op.ADD), np.full(n - 1, Op.ADD)]
    a = np.r_[[-1], np.zeros(n, int), 1, np.arange(n + 1, 2 * n - 1)]
    b = np.r_[[-1], np.zeros(n, int), np.arange(2, n + 1)]
    graph = DataflowGraph(op, a, b, np.r_[[1.0], np.zeros(2 * n - 1)], {0: "x", 2 * n - 1: "sum"}, [2 * n - 1])
    pe = np.r_[[7], np.arange(n) % (SIDE * SIDE), np.full(n - 1, SIDE * SIDE - 1)]
    m = map_graph(graph, Overlay(SIDE, SIDE, fifo_depth=2, **kw), pe=pe)
    run = simulate(m.image)
    assert run.consumed.sum() == len(graph.edges)
    assert values(m.image, run)[-1] == np.float32(2 * n).view(np.uint32)
