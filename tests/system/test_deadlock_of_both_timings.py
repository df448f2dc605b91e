"""A program that gathers its rows in another order than it deals them deadlocks in both timings, for one reason and with one cure."""

import numpy as np
import pytest

from penstock import deadlock
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore, Flatten, Partition, Reassemble, Source
from penstock.frontend.program import Program

ROWS = 8


def dealt(first):
    """Rows to output 0 and then 1; gathered from 1 first: those of output 0 have to wait in their channel."""
    g = Graph("dealt")
    x, y = g.input("x", (ROWS, 4), "bf16"), g.output("y", (ROWS, 4), "bf16")
    to, back = (Source(graph=g, shape=(ROWS,), selector=2, name=n) for n in ("to", "back"))
    parts = Partition(Flatten(LinearOffChipLoad(x, tile=(1, 4)), lo=0, hi=2), to, rank=0, outputs=2, name="deal")
    gathered = Flatten(Reassemble(parts[0], parts[1], back, rank=0, name="gather"), lo=0, hi=1).stream.assert_shape((ROWS,))
    LinearOffChipStore(gathered, y)
    zeros, ones = np.zeros(ROWS // 2, int).tolist(), np.ones(ROWS // 2, int).tolist()
    return Program("dealt", {}, g, None, None, lambda seed: {"to": zeros + ones, "back": ones + zeros if first else zeros + ones})


@pytest.mark.parametrize("timing", ["machine", "published"])
def test_found_explained_and_freed(timing):
    (found,) = deadlock.find(dealt(True), "small_fpga", [{}], timing=timing)
    d = found.deadlock
    assert found.cycles is None and d.cycle > 0
    assert [(s.unit, s.why, s.on) for s in d.circle] == [("deal", "room", "gather"), ("gather", "beat", "deal")]
    (relief,) = d.reliefs
    assert relief.channel == "deal:0->gather:0" and relief.count == 2  # its other output is of the same kind
    assert relief.depth == d.uniform == ROWS // 2
    for depth in (d.uniform - 1, d.uniform):
        (again,) = deadlock.find(dealt(True), "small_fpga", [{}], timing=timing, depth=depth)
        assert (again.deadlock is None) == (depth == d.uniform)
    (right,) = deadlock.find(dealt(False), "small_fpga", [{}], timing=timing)
    assert right.deadlock is None and right.cycles > 0
