"""Every unit kind, model against RTL on every beat, under every pair of stall patterns."""

import re
from dataclasses import replace

import pytest

from penstock import model
from penstock.machine import config as configs
from penstock.machine.beat import Scalar
from penstock.machine.errors import RunError
from penstock.machine.faults import Fault
from penstock.tb import api, check, rerun, routing, units
from penstock.tb.agents import beats
from penstock.tb.design import MUTATIONS


PAIRS = [(source, sink) for source in ("always", "random", "bursty") for sink in ("always", "random", "late")]


def machine(t, dtype, **dram):
    base = configs.load("small_fpga")
    m = replace(base.machine, t=t, dtype=dtype, rows_per_cycle=t, lanes={"default": t * t}, port_lanes=min(2, t), load_lines=32)
    return configs.check(replace(base, machine=replace(m, dram=replace(m.dram, **dram)) if dram else m))


def agree(name, config, points):
    for case, rtl in zip(points, api.run_many(points, config)):
        want = model.run(case.graph, config, case.tensors, trace=True, sources=case.sources, sinks=case.sinks)
        report = check.compare(want, rtl, case.graph)
        assert report.ok, f"{name}\n{report}"


def sizes(t, dtype, n):
    return [units.memory(t, dtype, seed).point(seed, sink=("always", "late", "random")[seed % 3]) for seed in range(n)]


@pytest.mark.parametrize("make", [units.shapes, units.rows, units.arithmetic, units.buffers, routing.routing])
def test_stream_units(make):
    zoo = make(2, "fp32")
    agree(zoo.name, machine(2, "fp32"), zoo.points())


@pytest.mark.parametrize("regions, requests", [(3, 14), pytest.param(4, 3, marks=pytest.mark.deep)])
def test_feedback_loop(regions, requests):
    agree("loop", machine(2, "fp32"), routing.loop(2, regions, requests).points())


def test_offchip_units():
    agree("memory", machine(2, "fp32", kind="pipe", channels=4), sizes(2, "fp32", 24))


def test_offchip_units_in_listed_orders():
    zoo = units.listed()
    agree("listed", machine(2, "fp32", kind="pipe", channels=4), [zoo.point(0), zoo.point(1, sink="random")])


def test_triggered_loads():
    agree("triggered", machine(2, "fp32", kind="pipe", channels=4),
          [units.triggered(seed=seed).point(seed, *PAIRS[seed % len(PAIRS)]) for seed in range(18)])


def test_random_stores():
    agree("scattered", machine(2, "fp32", kind="pipe", channels=4),
          [units.scattered(seed=seed).point(seed, *PAIRS[seed % len(PAIRS)]) for seed in range(18)])


def test_a_number_of_no_tile_is_told_on_both_sides():
    zoo, config = units.triggered(seed=1), machine(2, "fp32", kind="pipe", channels=4)
    right = zoo.point(1)
    source = next(c.src[0] for c in zoo.channels if c.payload == Scalar(12))
    wrong = replace(right, sources={**right.sources, source: beats(Scalar(12), [(0, 0), (4000, 1)])})
    with pytest.raises(RunError, match="lies outside tensor in1"):
        model.run(wrong.graph, config, wrong.tensors, sources=wrong.sources, sinks=wrong.sinks)
    with pytest.raises(RunError, match=Fault.ADDRESS.what):
        api.run_many([wrong], config)


@pytest.mark.deep
@pytest.mark.parametrize("make", [units.shapes, units.rows, units.arithmetic, units.buffers, routing.routing])
@pytest.mark.parametrize("t, dtype", [(4, "bf16"), (8, "fp32")])
def test_stream_units_wider(make, t, dtype):
    zoo = make(t, dtype)
    agree(zoo.name, machine(t, dtype), [p for seed in range(0, 300, 12) for p in zoo.points(seed)])


@pytest.mark.deep
@pytest.mark.parametrize("t, dtype, dram", [(4, "bf16", {"kind": "ideal", "latency": 5}), (4, "fp32", {"kind": "pipe", "channels": 2, "interval": 3})])
def test_offchip_units_wider(t, dtype, dram):
    agree("memory", machine(t, dtype, **dram), sizes(t, dtype, 200))


EACH = units.each()
CAUGHT = [(kind, what) for kind in sorted({u.kind for u in EACH.graph().units}) for what in MUTATIONS if (kind, what) != ("sink", "value")]  # nobody sees what a sink makes of a beat


@pytest.fixture(scope="module")
def mutated():
    """One fabric with a unit of every kind; the runs with nothing wrong, and with each kind a cycle slower or wrong."""
    config = machine(2, "fp32", kind="pipe", channels=4)
    right = EACH.point(1)
    points = [replace(right, mutate={kind: what}) for kind, what in CAUGHT]
    want = model.run(right.graph, config, right.tensors, trace=True, sources=right.sources, sinks=right.sinks)
    return right.graph, want, dict(zip([None, *CAUGHT], api.run_many([right, *points], config, keep_going=True)))


def test_units_that_are_right_pass(mutated):
    graph, want, runs = mutated
    report = check.compare(want, runs[None], graph)
    assert report.ok, str(report)


@pytest.mark.parametrize("kind, what", CAUGHT)
def test_one_cycle_more_or_a_wrong_bit_is_caught(mutated, kind, what):
    graph, want, runs = mutated
    if isinstance(runs[kind, what], RunError):
        assert what == "value", f"{kind}: {runs[kind, what]}"  # a wrong selector, count or stop is a fault of the unit that reads it
        return
    report = check.compare(want, runs[kind, what], graph)
    assert not report.ok
    names = [u.name for u in graph.units if u.kind == kind] + [graph.name]  # the graph's: a sink is late for the end of the run
    assert any(name in str(d) for d in report.differences for name in names), f"the {kind} is not among those named\n{report}"


@pytest.mark.parametrize("kind, told", [
    ("map", r"channel \S+ beat 0: payload digest \(24 of 25 beats\): .*\n +map\d+ \(map\) -> sink\d+ \(sink\), accepted in cycle \d+, taken in cycle \d+; "
            r"1 of 4 elements differ: \[0,0\] model \S+ \([0-9a-f]{8}\), RTL \S+ \([0-9a-f]{8}\)$"),
    ("load", r"channel \S+ beat 0: payload digest .*\n +in00 \(load\) -> sink\d+ \(sink\), .*; 1 of 4 elements differ: \[0,0\] model"),
])
def test_a_wrong_bit_is_unfolded(mutated, kind, told):
    graph, want, runs = mutated
    config, point = machine(2, "fp32", kind="pipe", channels=4), replace(EACH.point(1), mutate={kind: "value"})
    report = check.compare(want, runs[kind, "value"], graph)
    assert "to see the payloads" in str(report)
    assert re.search(told, str(rerun.unfold(report, point, config)), re.M)
