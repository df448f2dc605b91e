"""Hybrid PEs: static PEs where nothing is dynamic; certain nodes beside conditional ones; contexts
that are too few for a static schedule.
"""

from dataclasses import replace

import numpy as np
import pytest
from penstock.machine.errors import ConfigError
from penstock.overlay.core.config import BARRIER, Overlay
from penstock.overlay.core.ops import Op
from penstock.overlay.graphs.source import graph_from
from penstock.overlay.model import simulate
from penstock.overlay.model.moves import moves
from penstock.overlay.runs import comparison
from penstock.scheduler.token import map_graph
from penstock.scheduler.token.hybrid import with_fewer_regions
from penstock.testing.token_graphs import random_graph, random_regions, random_stages

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
    graph = random_stages(3, seed) if seed % 2 else random_regions(100, seed)
    pe = np.random.default_rng(seed).integers(0, 4, len(graph))
    for overlay in (HYBRID, replace(HYBRID, alu="unit", memories={"context": 20})):
        m = map_graph(graph, overlay, pe=pe)
        (record,) = comparison.run(graph, overlay, mapped=m)
        assert record.values_ok
        assert 0 < record.overlay["dynamic_share"] < 1
        assert record.cycles >= m.bounds.best


def test_a_segment_begins_when_nothing_is_left_of_the_one_before():
    graph = random_stages(2, 6, 14)
    m = map_graph(graph, HYBRID, pe=np.arange(len(graph)) % 4)
    run = simulate(m.image)
    assert run.began is not None
    at = np.flatnonzero(np.diff(run.began) > 1)
    begins, last = run.began[at + 1], run.began[at]
    assert len(begins)
    for begin, passed in zip(begins, last, strict=True):
        before = run.written[run.written < begin]
        assert begin == max(before.max(), passed) + 1 + BARRIER


def test_it_runs_where_the_static_schedule_has_too_few_contexts():
    graph = random_graph(300, 30, 1)
    memories = {"context": 40, "switch": 40}
    with pytest.raises(ConfigError, match="memory context"):
        map_graph(graph, replace(HYBRID, pe="static", memories=memories))
    m = map_graph(graph, replace(HYBRID, memories=memories))
    (record,) = comparison.run(graph, m.overlay, mapped=m)
    assert record.values_ok and m.image.length <= 40
    assert 0 < record.overlay["dynamic_share"] < 1


def test_regions_that_do_not_pay_are_executed_on_both_sides():
    """Each form has the graph's values; the last has no region."""
    graph = random_regions(200, 3)
    forms = with_fewer_regions(graph)
    switches = [int(np.count_nonzero(g.op >= Op.THEN)) for g in forms]
    assert switches[0] > switches[1] > switches[-1] == 0 and len(forms) > 3
    inputs = np.random.default_rng(1).standard_normal((len(graph.inputs), 20)).astype(np.float32)
    for form in forms[1:]:
        for name, words in graph.results(graph.evaluate(inputs)).items():
            found = form.results(form.evaluate(inputs))[name]
            assert np.array_equal(words.view(np.uint32), found.view(np.uint32))
    overlay = replace(HYBRID, rows=1, cols=1)
    m = map_graph(graph, overlay)
    assert m.cycles <= min(map_graph(g, overlay, pe=np.zeros(len(g), int)).cycles for g in forms)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_never_slower_than_static_pes(seed):
    graph = random_stages(3, seed)
    kinds = {pe: map_graph(graph, replace(HYBRID, pe=pe)).cycles for pe in ("hybrid", "static")}
    assert kinds["hybrid"] <= kinds["static"]
