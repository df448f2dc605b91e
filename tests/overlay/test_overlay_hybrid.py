"""Hybrid PEs: static PEs where nothing is dynamic; segments for the outcomes of conditions; tokens
where contexts are too few for a static schedule.
"""

from dataclasses import replace

import numpy as np
import pytest
from penstock.machine.errors import ConfigError
from penstock.overlay.core.config import DECISION, Overlay
from penstock.overlay.core.image import HybridImage
from penstock.overlay.core.ops import Op
from penstock.overlay.graphs import Builder, merge
from penstock.overlay.graphs.source import graph_from
from penstock.overlay.model import simulate
from penstock.overlay.model.moves import moves
from penstock.overlay.runs import comparison
from penstock.scheduler.token import MEAN, map_graph
from penstock.scheduler.token.hybrid import program_image, with_regions
from penstock.scheduler.token.mapping import source_bits, task_of
from penstock.testing.token_graphs import random_choices, random_graph, random_regions

HYBRID = Overlay(rows=2, cols=2, pe="hybrid", alu="pipelined")


@pytest.mark.parametrize("alu", ["unit", "pipelined"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_without_dynamic_nodes_it_is_the_static_pe_in_every_cycle(n, alu):
    for graph in (random_graph(200, 30, n), graph_from("device:diode"), graph_from("expr:y = a")):
        hybrid = replace(HYBRID, rows=n, cols=n, alu=alu)
        one, other = (map_graph(graph, o) for o in (hybrid, replace(hybrid, pe="static")))
        runs = [simulate(m.image) for m in (one, other)]
        assert runs[0].cycles == runs[1].cycles
        cycles = [run.node_cycles(m.image) for run, m in zip(runs, (one, other), strict=True)]
        assert np.array_equal(*cycles)
        for field in ("op", "write"):
            assert np.array_equal(one.image.context[field], other.image.context[field])
        links = [
            sorted((c, link % 2**20) for c, link in moves(m.image).tokens) for m in (one, other)
        ]
        assert links[0] == links[1]


@pytest.mark.parametrize("seed", range(10))
def test_values_are_numpys_wherever_nodes_are(seed):
    """Also with other inputs, whose conditions choose other segments."""
    graph = random_choices(100, 4, 0.5, seed) if seed % 2 else random_regions(100, seed)
    pe = np.random.default_rng(seed).integers(0, 4, len(graph))
    for overlay in (HYBRID, replace(HYBRID, alu="unit", memories={"context": 20})):
        m = map_graph(graph, overlay, pe=pe)
        assert isinstance(m.image, HybridImage)
        assert m.image.decides == (not overlay.memories)
        (record,) = comparison.run(graph, overlay, mapped=m)
        assert record.values_ok
        assert 0 < record.overlay["dynamic_share"] < 1
        assert record.cycles >= max(m.bounds.best, m.floor.best if m.floor else 0)
        inputs = np.random.default_rng(seed).standard_normal(len(graph.inputs))
        words = inputs.astype(np.float32).view(np.uint32).astype(np.uint64)
        other = replace(m, image=m.image.with_inputs(m.graph.inputs, words))
        assert comparison.run(graph, overlay, mapped=other)[0].values_ok


def test_a_segment_that_a_condition_chooses_begins_without_a_gap():
    """Every context holds in its cycle, decisions come in time, and a run takes one segment of each
    group.
    """
    graph = random_choices(100, 4, 0.5, 6)
    image = map_graph(graph, HYBRID, pe=np.arange(len(graph)) % 4).image
    assert isinstance(image, HybridImage)
    run = simulate(image)
    assert run.contexts is not None
    assert run.cycles == len(run.contexts) < image.length
    begins = np.append(0, 1 + np.flatnonzero(np.diff(run.contexts) != 1))
    ends = np.append(begins[1:], run.cycles)
    for begin, end in zip(begins[:-1], ends, strict=False):
        decides = image.context["decide"][:, run.contexts[begin:end]]
        assert decides.any() and np.nonzero(decides)[1].max() + DECISION <= end - begin
    assert set(run.contexts[begins]) <= set(image.segment["first"])


def test_it_runs_where_the_static_schedule_has_too_few_contexts():
    graph = random_graph(300, 30, 1)
    memories = {"context": 40, "switch": 40}
    with pytest.raises(ConfigError, match="memory context"):
        map_graph(graph, replace(HYBRID, pe="static", memories=memories))
    m = map_graph(graph, replace(HYBRID, memories=memories))
    (record,) = comparison.run(graph, m.overlay, mapped=m)
    assert record.values_ok and m.image.length <= 40
    assert 0 < record.overlay["dynamic_share"] < 1


def test_forms_with_fewer_regions_have_the_same_values():
    graph = random_regions(200, 3)
    forms = [form for form, _ in with_regions(graph)]
    merges = [int(np.count_nonzero(form.op == Op.MERGE)) for form in forms]
    assert merges == sorted(merges) and merges[0] < merges[-1] and len(forms) > 2
    inputs = np.random.default_rng(1).standard_normal((len(graph.inputs), 20)).astype(np.float32)
    for form in forms:
        for name, words in graph.results(graph.evaluate(inputs)).items():
            found = form.results(form.evaluate(inputs))[name]
            assert np.array_equal(words.view(np.uint32), found.view(np.uint32))


@pytest.mark.parametrize("seed", range(4))
def test_it_is_never_slower_than_static_pes(seed):
    graph = random_choices(100, 4, 0.5, seed)
    kinds = {pe: map_graph(graph, replace(HYBRID, pe=pe)).cycles for pe in ("hybrid", "static")}
    assert kinds["hybrid"] <= kinds["static"]


def test_inputs_that_vary_are_never_slower_than_on_static_pes():
    """With the form that is best for the first ones, some are."""
    graph = random_choices(300, 2, 0.7, 2)
    static = map_graph(graph, replace(HYBRID, pe="static")).cycles
    m = map_graph(graph, HYBRID, objective=MEAN)
    assert m.program is not None and m.program.cycles(max) <= static
    r = np.random.default_rng(0)
    cycles = []
    for _ in range(10):
        inputs = r.standard_normal(len(m.graph.inputs)).astype(np.float32)
        cycles.append(simulate(m.image.with_inputs(m.graph.inputs, inputs.view(np.uint32))).cycles)
    assert max(cycles) <= m.program.cycles(max) and np.mean(cycles) < static


def test_a_large_region_that_is_not_taken_costs_nothing():
    """Static PEs execute both sides, dynamic ones a token for each edge."""
    g = Builder("one")
    a = g.input("a", 1.0)
    x = [g.input(f"x{k}", float(k)) for k in range(64)]
    taken, other = zip(*(g.switch(a < 0.0, v) for v in x), strict=True)
    heavy = [v * v + v for v in taken for _ in range(4)]
    g.output("y", merge(sum(heavy[1:], heavy[0]), other[0]))
    cycles = {}
    for pe in ("hybrid", "static", "dynamic"):
        overlay = replace(HYBRID, pe=pe, local="forward" if pe == "dynamic" else "token")
        cycles[pe] = [map_graph(g.graph(), overlay, inputs={"a": v}).cycles for v in (1.0, -1.0)]
    assert cycles["hybrid"][0] < min(cycles["static"][0], cycles["dynamic"][0])
    assert cycles["hybrid"][1] <= cycles["static"][1]


def test_segments_of_a_smaller_mesh_run_in_the_corner_of_a_larger_one():
    """So a conditional graph is never slower there."""
    graph = random_choices(150, 2, 0.8, 3, 72)
    small = replace(HYBRID, rows=1, cols=2)
    one = map_graph(graph, small)
    assert one.program is not None
    other = map_graph(graph, HYBRID, smaller=[one])
    assert other.cycles <= one.cycles
    moved = one.program_onto(HYBRID)
    assert moved is not None
    bits = source_bits(one.graph, HYBRID)
    image = program_image(task_of(one.graph, HYBRID), bits, moved)
    assert simulate(image).cycles == one.cycles
    assert set(image.node_pe) <= {0, 1} and np.array_equal(image.node_pe, one.image.node_pe)
