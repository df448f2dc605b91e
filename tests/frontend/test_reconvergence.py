"""Paths that part and join again: what the check refuses deadlocks, and what its remedy says runs."""

from dataclasses import replace

import pytest

from penstock import model
from penstock.frontend import (Accum, Expand, Fifo, Graph, LinearOffChipLoad, LinearOffChipStore, Map, add, cast, div, exp, lower, sub)
from penstock.frontend import reconvergence
from penstock.machine.config import load
from penstock.machine.deadlock import DeadlockError
from penstock.machine.errors import LoweringError
from penstock.model import published

SMALL = load("small_fpga")


def softmax(parts=6, fifo=0, long=False, tile=4):
    """Each of ``parts`` tiles divided by the sum of them all; ``long``: a function in the shorter way."""
    g = Graph("softmax")
    x, y = g.input("x", (4, parts * tile), "bf16"), g.output("y", (4, parts * tile), "bf16")
    xs = cast(LinearOffChipLoad(x, tile=(4, tile), shape=(1, parts), stride=(1, 1)), "fp32")
    each = Expand(Accum(xs, fn=add(), rank=1, name="total"), count=parts)
    ahead = Fifo(xs, depth=fifo).stream if fifo else xs
    LinearOffChipStore(cast(Map(Map(ahead, fn=exp()) if long else ahead, each.stream, fn=div(), name="share"), "bf16"), y)
    return g


def runs(g, timing, monkeypatch):
    """Whether a program finishes when the check is left out."""
    monkeypatch.setattr(reconvergence, "check", lambda low: None)
    units = lower(g, SMALL, timing)
    monkeypatch.undo()
    try:
        published.run(units, SMALL, search=False) if timing == "published" else model.run(units, SMALL, values=False)
    except DeadlockError:
        return False
    return True


def refused(g, timing):
    try:
        lower(g, SMALL, timing)
    except LoweringError as e:
        assert "parts and joins again in share" in str(e)
        return True
    return False


@pytest.mark.parametrize("timing", ["machine", "published"])
@pytest.mark.parametrize("long", [False, True])
def test_what_is_refused_deadlocks_and_nearly_all_that_deadlocks_is_refused(timing, long, monkeypatch):
    verdicts = [(refused(softmax(n, long=long), timing), runs(softmax(n, long=long), timing, monkeypatch)) for n in range(2, 24, 3)]
    assert (True, True) not in verdicts
    assert verdicts[0] == (False, True) and verdicts[-1] == (True, False)
    assert verdicts.count((False, False)) <= 1


@pytest.mark.parametrize("timing", ["machine", "published"])
@pytest.mark.parametrize("tile", [4, 8])
def test_the_remedy_runs(timing, tile, monkeypatch):
    g = softmax(12, tile=tile)
    with pytest.raises(LoweringError, match=r"Fifo\(.*, depth=12\) on the way to input 0") as e:
        lower(g, SMALL, timing)
    assert "operator share (Map) at " in str(e.value) and "total gives after 12; the other way holds " in str(e.value)
    assert not runs(g, timing, monkeypatch)
    assert not refused(softmax(12, fifo=12, tile=tile), timing) and runs(softmax(12, fifo=12, tile=tile), timing, monkeypatch)


def test_deeper_channels_are_enough_too():
    deep = replace(SMALL, machine=replace(SMALL.machine, channel_depth=16))
    lower(softmax(12), deep)


def shifted(tile=16, far=False, fifo=0):
    """Each tile less a column that is spread by the tiles themselves; ``far``: a function on the tiles' own way."""
    g = Graph("shifted")
    x, c, y = g.input("x", (2 * tile, 2 * tile), "bf16"), g.input("c", (2 * tile, 1), "bf16"), g.output("y", (2 * tile, 2 * tile), "bf16")
    xs = cast(LinearOffChipLoad(x, tile=(tile, tile), shape=(2, 2), stride=(2, 1)), "fp32")
    column = cast(LinearOffChipLoad(c, tile=(tile, 1), shape=(2, 1), stride=(1, 1)), "fp32")
    ahead = Fifo(xs, depth=fifo).stream if fifo else xs
    LinearOffChipStore(cast(Map(Map(ahead, fn=exp()) if far else ahead, Expand(column, ref=xs), fn=sub(), name="share"), "bf16"), y)
    return g


@pytest.mark.parametrize("tile", [4, 8, 12, 16])
def test_a_tile_whose_reference_is_itself_has_room(tile, monkeypatch):
    """The reference is told of a tile with its last physical one; the others wait in the channel."""
    assert not refused(shifted(tile), "machine") and runs(shifted(tile), "machine", monkeypatch)


def test_a_way_too_short_for_a_whole_tile_is_refused(monkeypatch):
    with pytest.raises(LoweringError, match=r"share, which waits for a whole element of 36 beats; the other way holds \d+ .*Fifo\(.*, depth=1\) on the way to input 0"):
        lower(shifted(24, far=True), SMALL)
    assert not runs(shifted(24, far=True), "machine", monkeypatch)
    assert not refused(shifted(24, far=True, fifo=1), "machine") and runs(shifted(24, far=True, fifo=1), "machine", monkeypatch)
    assert not refused(shifted(24, far=True), "published") and runs(shifted(24, far=True), "published", monkeypatch)
