"""Advice on channel depths is what a program with the named Fifo takes."""

from penstock import model
from penstock.frontend import (
    Fifo,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    add,
    cast,
    lower,
    scale,
)
from penstock.machine.config import load
from penstock.runs.advice import advise
from penstock.runs.point import Point

SMALL = load("small_fpga")


def ahead(fifo=0):
    """Tiles added to what six functions make of them."""
    g = Graph("ahead")
    x = g.input("x", (256, 8), "bf16")
    y = g.output("y", (256, 8), "bf16")
    xs = cast(LinearOffChipLoad(x, tile=(8, 8), shape=(1, 32), stride=(0, 1)), "fp32")
    slow = xs
    for _ in range(6):
        slow = Map(slow, fn=scale(0.5)).stream
    short = Fifo(xs, depth=fifo).stream if fifo else xs
    LinearOffChipStore(cast(Map(short, slow, fn=add(), name="total"), "bf16"), y)
    return g


def cycles(g):
    return model.run(lower(g, SMALL), SMALL, values=False).cycles


def test_the_advised_fifo_brings_the_cycles_that_are_told():
    best = advise(Point(ahead(), SMALL, {}))[0]
    name, depth = best.setting.removeprefix("Fifo(").split(")")[0].split(", depth=")
    assert best.setting.endswith("on the way to total")
    assert name == ahead().nodes[1].name
    assert best.before == cycles(ahead()) > best.cycles == cycles(ahead(int(depth)))


def test_no_channel_of_a_deep_enough_program_is_advised():
    assert not advise(Point(ahead(16), SMALL, {}))
