"""Conditional regions: meaning, refusals; static PEs execute both sides, dynamic ones what is
taken.
"""

import numpy as np
import pytest
from penstock.machine.errors import ProgramError
from penstock.overlay import compare, variants
from penstock.overlay.core.config import Overlay
from penstock.overlay.core.dataflow import DataflowGraph
from penstock.overlay.core.image import DynamicImage
from penstock.overlay.core.ops import Op
from penstock.overlay.graphs import Builder, exp, merge
from penstock.overlay.model import simulate
from penstock.overlay.runs.comparison import run
from penstock.scheduler.token import map_graph
from penstock.testing.token_graphs import random_regions

TEXT = """graph two
x = input 1.5
y = input 2.0
c = lt x y
d = le y x
xt = then c x
yt = then c y
dt = then c d
xe = else c x
p = mul xt yt
pt = then dt p
pe = else dt p
q = merge pt pe
z = merge q xe
output out = z
"""


@pytest.mark.parametrize("seed", range(30))
def test_every_pe_computes_what_numpy_does(seed):
    graph = random_regions(120, seed)
    fires, _ = graph.regions.taken(graph.evaluate())
    assert graph.conditional and not fires.all()
    kinds = variants({"network": ["mesh", "hoplite"]}, alu="pipelined" if seed % 2 else "unit")
    records = compare(graph, [(1, 1), (2, 3)], kinds)
    assert all(r.values_ok for r in records)
    for r in records:
        assert r.cycles >= r.overlay["bounds"]["best"]


def test_both_ways_to_select_are_equal_in_every_bit():
    graph = random_regions(200, 1, depth=5)
    inputs = np.random.default_rng(2).standard_normal((len(graph.inputs), 50))
    inputs[0, :5] = np.nan, np.inf, -0.0, 1e-42, 0.0
    with np.errstate(all="ignore"):
        one, other = (g.results(g.evaluate(inputs)) for g in (graph, graph.selected()))
    for name in one:
        assert np.array_equal(one[name].view(np.uint32), other[name].view(np.uint32))


def test_a_condition_that_many_pes_want_is_passed_on():
    g = Builder("many")
    inputs = [g.input(f"i{k}", float(k)) for k in range(12)]
    for k, value in enumerate(inputs):
        there, here = g.switch(inputs[0] < inputs[1], value)
        g.output(f"o{k}", merge(there + there, here * here))
    graph = g.graph()
    overlay = Overlay(rows=8, cols=8, local="forward")
    m = map_graph(graph, overlay, pe=np.arange(len(graph)) % 64)
    assert isinstance(m.image, DynamicImage)
    assert np.isin(m.image.copy_node, graph.a[graph.op == Op.THEN]).any()
    (record,) = run(graph, overlay, mapped=m)
    assert record.values_ok


def test_a_region_that_is_not_taken_does_not_fire():
    g = Builder("one")
    a = g.input("a", 1.0)
    there, here = g.switch(a < 0.0, a)
    slow = there
    for _ in range(50):
        slow = exp(slow) * 0.5
    g.output("y", merge(slow, here + 1.0))
    graph = g.graph()
    cycles = {}
    for value in (-1.0, 1.0):
        image = map_graph(graph, Overlay(1, 1), inputs={"a": value}).image
        run = simulate(image)
        cycles[value] = run.cycles
        fired = (run.node_cycles(image) >= 0) & (graph.op == Op.EXP)
        assert fired.sum() == (50 if value < 0 else 0)
    assert cycles[1.0] < 0.2 * cycles[-1.0]
    assert DataflowGraph.parse(graph.text()).text() == graph.text()


@pytest.mark.parametrize(
    "change, message",
    [
        (("p = mul xt yt", "p = mul xt y"), "xt and y are of different regions"),
        (("pe = else dt p", "pe = then dt p"), "a merge has both sides of one condition"),
        (("z = merge q xe", "z = merge q x"), "a merge has both sides"),
        (("out = z", "out = q"), "output out is inside a conditional region"),
    ],
)
def test_a_value_that_crosses_without_a_switch_is_refused(change, message):
    DataflowGraph.parse(TEXT)
    with pytest.raises(ProgramError, match=message):
        DataflowGraph.parse(TEXT.replace(*change))
