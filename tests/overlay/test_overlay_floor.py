"""The floor is below every schedule, and exact where few PEs or hops decide."""

from itertools import permutations, product

import numpy as np
import pytest
from penstock.overlay.core.config import Overlay
from penstock.overlay.graphs import graph_from
from penstock.scheduler.token import METHODS, Effort, floors, map_graph
from penstock.scheduler.token.floors import floor as floor_of
from penstock.scheduler.token.mapping import task_of
from penstock.testing.token_graphs import random_graph


def shortest(task):
    """Cycles of the best of all placements and orders, with links and writes as many as are wanted:
    no schedule has fewer.
    """
    o = task.overlay
    operands = [[u for u in (task.a[v], task.b[v]) if u >= 0] for v in range(len(task.op))]
    read = np.diff(task.e.start) > 0
    nodes = [v for v in range(len(task.op)) if not task.source[v] or read[v]]
    orders = [
        p
        for p in permutations(nodes)
        if all(p.index(u) < p.index(v) for v in p for u in operands[v] if u in nodes)
    ]
    places = [divmod(p, o.cols) for p in range(o.pes)]
    least = None
    for pe in product(places, repeat=len(nodes)):
        at = dict(zip(nodes, pe, strict=True))
        for order in orders:
            length = _length(task, order, at, operands)
            least = length if least is None else min(least, length)
    return least


def _length(task, order, at, operands):
    used = set()
    done = {}
    length = 0
    for v in order:
        t = 0
        for u in operands[v]:
            if u in done:
                hops = sum(abs(p - q) for p, q in zip(at[u], at[v], strict=True))
                t = max(t, done[u] + (hops + 1 if hops else 0))
        while (at[v], t) in used:
            t += 1
        used.add((at[v], t))
        done[v] = t + (1 if task.source[v] else int(task.latency[v]))
        if not task.source[v]:
            length = max(length, done[v])
    return length


TINY = [
    "expr:y = a + b",
    "expr:y = (a + b) * (a - b)",
    "expr:y = (a + a) * (b + b)",
    "expr:p = a + a; q = a * a; r = a - a; y = p + q",
    "expr:p = a * a; q = p * p; y = q * p; z = p + p",
]


@pytest.mark.parametrize("spec", TINY)
@pytest.mark.parametrize("mesh", [(1, 1), (1, 2), (1, 3)])
@pytest.mark.parametrize("kw", [{}, {"alu": "pipelined"}], ids=str)
def test_the_floor_is_not_above_exhaustive_search(spec, mesh, kw):
    task = task_of(graph_from(spec), Overlay(*mesh, pe="static", **kw))
    best = shortest(task)
    found = floor_of(task)
    assert found.best <= best
    if mesh == (1, 1):
        assert found.best == best


def test_a_cone_finds_what_depth_and_work_do_not():
    """Two sources and their sum: three cycles on one PE, and on two the hop costs as much."""
    task = task_of(graph_from("expr:y = (a + a) * (b + b)"), Overlay(1, 3, pe="static"))
    found = floor_of(task)
    assert (found.depth, found.cones, shortest(task)) == (3, 5, 5)


@pytest.mark.parametrize("further", [{}, {"alu": "pipelined"}], ids=str)
def test_no_schedule_is_below_the_floor(further):
    r = np.random.default_rng(5)
    for seed in range(12):
        nodes = int(r.integers(10, 250))
        sources = int(r.integers(1, nodes // 2))
        graph = random_graph(nodes, sources, seed, reach=int(r.integers(2, 60)))
        mesh = tuple(int(x) for x in r.integers(1, 6, 2))
        for way in METHODS:
            effort = Effort(steps=20) if way == "time" else None
            m = map_graph(
                graph, Overlay(*mesh, pe="static", **further), objective=way, effort=effort
            )
            assert m.floor.best <= m.schedule.length
            assert max(m.floor.depth, 1) <= max(m.floor.cones, 1)


def test_a_floor_that_is_too_high_is_found(monkeypatch):
    """The fault: a consumer that reads a value twice is counted twice."""

    def twice(nodes, e):
        return e.start, e.dst.astype(np.int64)

    monkeypatch.setattr(floors, "_consumers", twice)
    task = task_of(graph_from(TINY[-1]), Overlay(1, 1, pe="static"))
    assert floor_of(task).best > shortest(task)
