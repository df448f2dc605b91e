"""Placement that knows time: schedules of lists and moves keep every rule, and none is longer than
those of partitions.
"""

import time

import numpy as np
import pytest
from penstock.machine.errors import ConfigError, RunError
from penstock.overlay import compare, variants
from penstock.overlay.core.config import Overlay
from penstock.overlay.core.ops import format_of
from penstock.overlay.graphs import graph_from
from penstock.overlay.model import simulate, values
from penstock.scheduler.token import OBJECTIVES, Effort, check, map_graph, mapping
from penstock.scheduler.token.mapping import task_of
from penstock.scheduler.token.schedule import _scheduled
from penstock.scheduler.token.search import Search, scheduled
from penstock.testing.token_graphs import random_graph


def right(m):
    """True if an image computes the graph's values, in the cycles of its schedule."""
    outcome = simulate(m.image)
    f = format_of(m.overlay.format)
    wanted = m.graph.evaluate(fmt=m.overlay.format).view(f.word).astype(np.uint64)
    assert outcome.cycles == m.schedule.length
    return np.array_equal(values(m.image, outcome), wanted)


@pytest.mark.parametrize("further", [{}, {"alu": "pipelined"}, {"kinds": "specialised"}], ids=str)
def test_lists_and_moves_keep_the_rules(further):
    for seed, mesh in enumerate([(1, 1), (2, 2), (3, 5)]):
        graph = random_graph(300, 40, seed)
        o = Overlay(*mesh, pe="static", **further)
        m = map_graph(graph, o, seed, effort=Effort(steps=30))
        assert right(m)
        given = map_graph(graph, o, objective="time", pe=m.pe)
        assert right(given)


@pytest.mark.parametrize("spec", ["device:hbt", "gen:gates:25", "gen:ladder:60", "expr:y = a + b"])
@pytest.mark.parametrize("side", [1, 2, 4, 8])
def test_no_placement_for_time_is_longer_than_a_partition(spec, side):
    graph = graph_from(spec)
    o = Overlay(side, side, pe="static")
    best = map_graph(graph, o).schedule.length
    others = [map_graph(graph, o, objective=way).schedule.length for way in OBJECTIVES]
    assert best <= 1.01 * min(others)


@pytest.mark.parametrize("side,tried", [(1, 0), (2, 1), (4, 0)])
def test_few_pes_have_a_partition_of_large_graphs_among_their_starts(side, tried):
    task = task_of(graph_from("gen:gates:60"), Overlay(side, side, pe="static"))
    assert len(task.op) > mapping.PARTITIONED
    starts = mapping._starts(task, 0, None)
    assert len(starts) == tried
    for start in starts:
        assert set(start()) == set(range(side * side))


@pytest.mark.parametrize("spec", ["gen:gates:25", "device:mos"])
def test_writes_limit_few_pes_and_hops_many(spec):
    """docs/overlay.md section 10: so the best price of a copy is high on few PEs, low on many."""
    searches = [Search(task_of(graph_from(spec), Overlay(k, k, pe="static"))) for k in (2, 16)]
    for search in searches:
        search.ladder()
    few, many = (search.price for search in searches)
    assert many <= 2 < 8 <= few
    s = searches[0].best()
    source = searches[0].task.source
    writes = np.bincount(s.pe[~source], minlength=4) + np.bincount(s.copy_pe, minlength=4)
    sends = np.bincount(s.pe[s.send_node], minlength=4)
    assert writes.max() > 0.9 * s.length > 2 * sends.max()


@pytest.mark.parametrize("spec", ["gen:ring:30", "device:bjt"])
def test_a_mesh_that_contains_a_smaller_one_is_never_slower(spec):
    meshes = [(4, 4), (8, 8), (2, 3), (3, 3)]
    records = compare(graph_from(spec), meshes, variants())
    count = len(variants())
    cycles = [[r.cycles for r in records[k * count : (k + 1) * count]] for k in range(len(meshes))]
    middle, large, small, square = cycles
    for chain in zip(small, square, middle, large, strict=True):
        assert list(chain) == sorted(chain, reverse=True)


def test_a_multicast_is_never_longer_than_a_send_for_each_pe():
    graph = graph_from("gen:gates:25")
    m = map_graph(graph, Overlay(6, 6, pe="static"), objective="connectivity")
    task = task_of(graph, m.overlay)
    together, alone = (_scheduled(task, m.pe, joins).length for joins in (True, False))
    assert alone < together and m.schedule.length == alone


def test_moves_only_improve_and_a_seed_fixes_the_result():
    graph = graph_from("device:bjt")
    o = Overlay(4, 4, pe="static")
    found = [map_graph(graph, o, 3, effort=Effort(steps=n)) for n in (0, 300, 300)]
    assert found[1].schedule.length <= found[0].schedule.length
    assert np.array_equal(found[1].pe, found[2].pe)
    assert np.array_equal(found[1].schedule.issue, found[2].schedule.issue)


def test_seconds_end_a_search_and_are_reported():
    graph = graph_from("device:mos")
    lines = []
    map_graph(graph, Overlay(4, 4, pe="static"), effort=Effort(steps=1))
    begun = time.monotonic()
    map_graph(graph, Overlay(4, 4, pe="static"), effort=Effort(seconds=3.0), tell=lines.append)
    assert time.monotonic() - begun >= 3.0
    assert lines and "cycles" in lines[0]


def test_a_placement_for_time_fits_fixed_memories():
    graph = graph_from("device:hbt")
    free = map_graph(graph, Overlay(4, 4, pe="static"))
    words = max(
        map_graph(graph, Overlay(4, 4, pe="static"), objective=way).image.sizes.nodes
        for way in OBJECTIVES
    )
    assert words < free.image.sizes.nodes
    tight = map_graph(graph, Overlay(4, 4, pe="static", memories=(("value", words),)))
    assert tight.image.sizes.nodes <= words


def test_dynamic_pes_take_the_placement_of_static_ones():
    graph = graph_from("gen:gates:25")
    static = map_graph(graph, Overlay(4, 4, pe="static"))
    dynamic = map_graph(graph, Overlay(4, 4), objective="time")
    assert np.array_equal(static.pe, dynamic.pe)
    assert map_graph(graph, Overlay(4, 4)).cycles == dynamic.cycles
    cut = map_graph(graph, Overlay(4, 4), objective="cut")
    assert dynamic.cycles < cut.cycles
    with pytest.raises(ConfigError, match="objective must be one of cut, connectivity, time"):
        map_graph(graph, Overlay(4, 4), objective="best")


def test_a_list_that_forgets_a_rule_is_found():
    graph = random_graph(200, 30, 1)
    task = task_of(graph, Overlay(3, 3, pe="static"))
    plan = scheduled(task, np.arange(200) % 9)
    check(plan, task)
    plan.copy_cycle[3] += 1
    with pytest.raises(RunError, match="a value does not arrive when it is written"):
        check(plan, task)
