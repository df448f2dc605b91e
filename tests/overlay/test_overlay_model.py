"""Images compute their graphs' values on the model; cycles that are known beforehand."""

from functools import reduce

import numpy as np
import pytest
from penstock.machine.errors import RunError
from penstock.overlay.core.config import CHAINED, Overlay
from penstock.overlay.core.dataflow import DataflowGraph
from penstock.overlay.core.ops import FORMATS, Op
from penstock.overlay.graphs import Builder
from penstock.overlay.model import simulate
from penstock.overlay.model import values as model_values
from penstock.overlay.runs.regression import DYNAMIC, VARIANTS
from penstock.scheduler.token import copies, map_graph
from penstock.testing.token_graphs import random_graph


def words(graph, overlay, inputs=None):
    """Every node's value as the NumPy reference has it."""
    return (
        graph.evaluate(inputs, overlay.format).view(FORMATS[overlay.format].word).astype(np.uint64)
    )


def checked(graph, overlay, seed=0):
    """A run whose image computes the graph's values, at its bound or above."""
    m = map_graph(graph, overlay, seed)
    run = simulate(m.image)
    assert run.cycles == 1 + run.written.max()
    assert np.array_equal(model_values(m.image, run), words(graph, overlay))
    assert run.cycles >= m.bounds.best
    return m, run


@pytest.mark.parametrize("mesh", [(1, 1), (1, 4), (3, 2), (4, 4)])
@pytest.mark.parametrize(
    "fmt,latency", [("fp32", "unit"), ("fp32", "pipelined"), ("fp64", "pipelined")]
)
def test_images_compute_the_values_of_their_graphs(mesh, fmt, latency):
    for i, kw in enumerate(VARIANTS):
        overlay = Overlay(*mesh, **kw, fifo_depth=2, alu=latency, format=fmt)
        checked(random_graph(150, 40, i, fmt), overlay, seed=i)


@pytest.mark.parametrize("kw", VARIANTS, ids=str)
def test_specialised_pes(kw):
    checked(
        random_graph(200, 60, 1), Overlay(2, 3, **(kw | dict(kinds="specialised", alu="pipelined")))
    )


@pytest.mark.parametrize("kw", DYNAMIC, ids=str)
def test_one_dynamic_pe_takes_a_cycle_an_edge(kw):
    graph = random_graph(3000, 900, 2, reach=2000)
    run = simulate(map_graph(graph, Overlay(1, 1, **kw)).image)
    if "local" in kw:
        assert run.cycles < 0.85 * len(graph.edges)
    else:
        assert run.cycles == len(graph.edges) + 2


def test_a_forwarded_level_takes_the_cycles_of_its_operation():
    """A chain of k operations on one PE: a source's word is chosen, then served, then each
    operation follows the one before.
    """
    k = 30
    op = np.array([Op.INPUT] + [Op.SQRT] * k)
    none = np.full(k + 1, -1)
    names = {0: "x", k: "y"}
    graph = DataflowGraph(op, np.arange(-1, k), none, none + 3.0, names, [k], ["y"], "chain")
    cycles = [checked(graph, Overlay(1, 1, local=way))[1].cycles for way in ("token", "forward")]
    assert cycles == [2 * k + 1, k + 2]


def test_copies_spread_a_value_that_every_pe_wants(monkeypatch):
    g = Builder("hub")
    hub = g.input("hub", 2.0)
    for i in range(64):
        g.output(f"y{i}", hub * g.input(f"x{i}", i))
    graph = g.graph()
    place = np.array([0] + [k // 2 for k in range(len(graph) - 1)])
    cycles = []
    for fan in (64, 4):
        monkeypatch.setattr(copies, "FAN", fan)
        m = map_graph(graph, Overlay(8, 8, local="forward"), pe=place)
        run = simulate(m.image)
        assert np.array_equal(model_values(m.image, run), words(graph, m.overlay))
        cycles.append(run.cycles)
        # 63 PEs: 2 x 31 and 32; of each group of more than 4 the first passes it on
        assert len(m.image.copy_node) == (0 if fan == 64 else 30)
    assert cycles[1] < 0.7 * cycles[0]


def test_full_chains_hold_up_tokens():
    """Values with many consumers each, so that more than CHAINED wait in both banks, on one PE and
    over a mesh.
    """
    g = Builder("hubs")
    hubs = [g.input(f"hub{i}", 1.0 + i) for i in range(4 * CHAINED)]
    sums = [
        reduce(lambda x, y: x + y, [hubs[(i + j) % len(hubs)] for j in range(9)])
        for i in range(len(hubs))
    ]
    for i, s in enumerate(sums):
        g.output(f"y{i}", s * hubs[i])
    for mesh in ((1, 1), (2, 2)):
        checked(g.graph(), Overlay(*mesh, local="forward"))


def test_one_static_pe_takes_a_cycle_a_node():
    graph = random_graph(3000, 900, 2, reach=2000)
    fires = (graph.op >= Op.ADD) | (graph.fan_out > 0)
    run = simulate(map_graph(graph, Overlay(1, 1, pe="static")).image)
    assert run.cycles == np.count_nonzero(fires)


@pytest.mark.parametrize("kw", VARIANTS, ids=str)
def test_new_inputs_need_only_their_words(kw):
    graph = random_graph(100, 30, 3)
    m = map_graph(graph, Overlay(2, 2, **kw))
    inputs = np.random.default_rng(0).standard_normal(len(graph.inputs)).astype(np.float32)
    again = m.image.with_inputs(graph.inputs, inputs.view(np.uint32).astype(np.uint64))
    values = model_values(again, simulate(again))
    assert np.array_equal(values, words(graph, m.overlay, inputs))


def test_a_lost_token_is_reported():
    m = map_graph(random_graph(100, 30, 4), Overlay(2, 2))
    for words in (m.image.first, m.image.rest):
        words["slot"] = 0  # every second operand comes as a first one
    m.image.first["pe"][:5] = 3
    m.image.first["node"][:5] = 0
    with pytest.raises(RunError, match="nothing moves any more after cycle"):
        simulate(m.image)
