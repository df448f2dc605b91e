"""The floor is below every schedule, and exact where few PEs or hops decide."""

from itertools import permutations, product

import numpy as np
import pytest
from penstock.overlay.core.config import Overlay
from penstock.overlay.graphs import graph_from
from penstock.scheduler.token import METHODS, Effort, crossings, floors, map_graph
from penstock.scheduler.token.floors import Lists
from penstock.scheduler.token.mapping import floor_of, task_of
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


def products(side):
    """Every product of two of ``side`` + ``side`` inputs: no placement keeps values together."""
    terms = [f"y{i}_{j} = x{i} * z{j}" for i in range(side) for j in range(side)]
    return graph_from(f"expr:{'; '.join(terms)}")


def star(consumers):
    """A value that all want."""
    return graph_from("expr:" + "; ".join(f"y{i} = (a + b) * z{i}" for i in range(consumers)))


def known(task):
    """The paths of a task."""
    return floors.paths(task.overlay, task.source, task.a, task.b, task.e, task.latency)


def partitions(nodes):
    """All partitions, each as the part of every node."""
    found = [[]]
    for _ in range(nodes):
        found = [[*p, k] for p in found for k in range(max(p, default=-1) + 2)]
    return np.array(found)


@pytest.mark.parametrize("spec", [*TINY, "expr:p = a * b; q = a * c; r = b * c; y = p + q"])
def test_demands_are_not_above_any_partition(spec):
    task = task_of(graph_from(spec), Overlay(1, 2, pe="static"))
    n = len(task.op)
    none = crossings.Values(np.zeros(n, int), np.zeros(n + 1, int), np.zeros(0, int))
    parts = partitions(n)
    fullest = np.stack([(parts == k)[:, known(task).takes].sum(axis=1) for k in range(n)]).max(
        axis=0
    )
    away = parts[:, task.e.src] != parts[:, task.e.dst]
    sent = np.stack([away[:, task.e.src == u].any(axis=1) for u in range(n)]).sum(axis=0)
    for length in range(1, n):
        for most in range(1, n + 1):
            found = crossings.moved(length, 1, none, known(task).demands(most))
            assert found.values <= sent[fullest <= length].min()


def test_no_schedule_moves_less_than_the_floor_says():
    """Copies, sent values and values over the middle, of schedules of their lengths."""
    r = np.random.default_rng(6)
    graphs = [star(30), products(6), products(9)]
    graphs += [random_graph(80, 20, seed, reach=80) for seed in range(3)]
    told = 0
    for graph, side in product(graphs, (2, 4)):
        task = task_of(graph, Overlay(1, side, pe="static"))
        places = [np.sort(np.arange(len(graph)) % side), r.integers(0, side, len(graph))]
        plans = [task.push(pe.astype(np.int32)) for pe in places]
        plans += [map_graph(graph, task.overlay, objective=way).schedule for way in METHODS]
        p = known(task)
        every = p.demands(len(graph))
        for s in plans:
            here = crossings.moved(s.length, 1, p.values, every)
            half = crossings.moved(s.length, side // 2, p.values, every)
            away = s.pe[task.e.src] // (side // 2) != s.pe[task.e.dst] // (side // 2)
            assert here.fits
            assert here.values <= len(set(s.send_node))
            assert here.copies <= len(s.copy_pe)
            assert half.values <= len(set(task.e.src[away]))
            told += here.values + half.values
    assert told > 0


def test_writes_decide_where_values_are_wanted_everywhere():
    found = floor_of(task_of(star(40), Overlay(4, 4, pe="static")))
    assert (found.by, found.writes, found.work) == ("writes", 8, 7)


def test_demands_that_are_too_high_are_found(monkeypatch):
    """The fault: of the units that pass a value a quarter is counted."""
    task = task_of(products(3), Overlay(1, 2, pe="static"))
    d = known(task).demands(len(task.op))
    assert crossings.moved(5, 1, known(task).values, d).values <= 6
    low = d._replace(load=d.load // 4)
    assert crossings.moved(5, 1, known(task).values, low).values > 6


def test_a_floor_that_is_too_high_is_found(monkeypatch):
    """The fault: a consumer that reads a value twice is counted twice."""

    def twice(nodes, e):
        return Lists(e.start, e.dst.astype(np.int64))

    monkeypatch.setattr(floors, "_consumers", twice)
    task = task_of(graph_from(TINY[-1]), Overlay(1, 1, pe="static"))
    assert floor_of(task).best > shortest(task)
