"""Advice on channel depths is what a program with the named Fifo takes."""

from penstock import model
from penstock.cli import main
from penstock.frontend import *
from penstock.machine.config import load
from penstock.runs.advice import advise
from penstock.runs.point import Point

SMALL = load("small_fpga")


def ahead(fifo=0, beside=None, functions=8):
    """Tiles added to what functions make of them; ``beside``: also to the sum, by a Fifo of that
    depth.
    """
    g = Graph("ahead")
    x = g.input("x", (48, 8), "bf16")
    y = g.output("y", (48, 8), "bf16")
    xs = cast(LinearOffChipLoad(x, tile=(4, 8), shape=(1, 12), stride=(0, 1)), "fp32")
    slow = xs
    for _ in range(functions):
        slow = Map(slow, fn=scale(0.5)).stream

    def through(depth):
        return Fifo(xs, depth=depth).stream if depth else xs

    total = Map(through(fifo), slow, fn=add(), name="total").stream
    if beside is not None:
        total = Map(through(beside), total, fn=add(), name="again").stream
    LinearOffChipStore(cast(total, "bf16"), y)
    return g


def cycles(g, config=SMALL):
    return model.run(lower(g, config), config, values=False).cycles


def fifos(advice):
    """The depth of the Fifo on the way to each operator."""
    return {
        s.rpartition(" ")[2]: int(s.partition("depth=")[2].partition(")")[0])
        for s in advice.settings
    }


def test_one_fifo_brings_the_cycles_that_are_shown():
    (best,) = advise(Point(ahead(), SMALL, {})).alone
    assert best.before == cycles(ahead()) == 583
    assert best.cycles == cycles(ahead(fifos(best)["total"])) == 210
    assert cycles(ahead(fifos(best)["total"] - 1)) > 210


def test_branches_that_wait_for_each_other_are_deepened_together():
    found = advise(Point(ahead(beside=0), SMALL, {}))
    depths = fifos(found.together)
    together = cycles(ahead(depths["total"], depths["again"]))
    assert found.together.cycles == together < min(a.cycles for a in found.alone) - 100


def test_the_depth_of_all_channels_that_brings_as_much_is_named():
    found = advise(Point(ahead(beside=0, functions=5), SMALL, {}))
    depth = int(found.machine.settings[0].removeprefix("--machine channel_depth="))
    assert depth in (4, 8)
    deep = load("small_fpga", {"channel_depth": depth})
    assert found.machine.cycles == cycles(ahead(beside=0, functions=5), deep)
    assert found.machine.cycles <= found.together.cycles


def test_no_channel_of_a_deep_enough_program_is_advised():
    found = advise(Point(ahead(16), SMALL, {}))
    assert not (found.alone or found.together or found.machine or found.cut)


def test_advice_ends_with_its_time():
    found = advise(Point(ahead(), SMALL, {}), seconds=0)
    assert found.cut
    assert not found.alone


def test_a_stored_record_has_the_advice_of_its_program(tmp_path, capsys):
    stored = str(tmp_path / "run.json")
    assert main(["run", "swiglu", "--config", "small_fpga", "--no-values", "--json", stored]) == 0
    assert main(["explain", "swiglu", "--config", "small_fpga", "--quiet"]) == 0
    advice = capsys.readouterr().out.partition("channels to deepen")[2]
    assert main(["explain", stored]) == 0
    assert "by a run" in advice
    assert capsys.readouterr().out.partition("channels to deepen")[2] == advice
