"""Ways that have joined before a buffer: it needs no room for them."""

import pytest
from penstock import model
from penstock.frontend import (
    Bufferize,
    Fifo,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Streamify,
    add,
    lower,
    silu,
)
from penstock.machine.config import load
from penstock.machine.errors import LoweringError

SMALL = load("dag_tiny")
TILES = 6


def kept(fifo=0):
    """x + silu(x) as a whole in a buffer, which is read once."""
    g = Graph("kept")
    x = g.input("x", (8 * TILES, 8), "fp32")
    y = g.output("y", (8 * TILES, 8), "fp32")
    xs = LinearOffChipLoad(x, tile=(8, 8), shape=(1, TILES), stride=(0, 1)).stream
    ahead = Fifo(xs, depth=fifo) if fifo else xs
    total = Map(ahead, Map(xs, fn=silu()), fn=add())
    LinearOffChipStore(Streamify(Bufferize(total, rank=1)), y)
    return g


@pytest.mark.xfail(
    raises=LoweringError,
    strict=True,
    reason="lowering compares ways that have joined: the reads of the buffer wait for its writes",
)
def test_ways_that_have_joined_need_no_room():
    model.run(lower(kept(), SMALL), SMALL, values=False)


def test_the_remedy_of_the_message_runs():
    with pytest.raises(LoweringError, match=f"depth={TILES}"):
        lower(kept(), SMALL)
    model.run(lower(kept(TILES), SMALL), SMALL, values=False)
