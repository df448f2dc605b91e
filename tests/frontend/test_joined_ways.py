"""Ways that have joined before a buffer: it needs no room for them."""

from penstock import model
from penstock.frontend import *
from penstock.machine.config import load

SMALL = load("dag_tiny")
TILES = 6


def kept():
    """x + silu(x) as a whole in a buffer, which is read once."""
    g = Graph("kept")
    x = g.input("x", (8 * TILES, 8), "fp32")
    y = g.output("y", (8 * TILES, 8), "fp32")
    xs = LinearOffChipLoad(x, tile=(8, 8), shape=(1, TILES), stride=(0, 1)).stream
    total = Map(xs, Map(xs, fn=silu()), fn=add())
    LinearOffChipStore(Streamify(Bufferize(total, rank=1)), y)
    return g


def test_ways_that_have_joined_need_no_room():
    """The reads of the buffer wait for its writes, on either way."""
    model.run(lower(kept(), SMALL), SMALL, values=False)
