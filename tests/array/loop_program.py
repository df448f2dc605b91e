"""A sum that comes back in a loop: each tile waits for the sum of those before it."""

import numpy as np
from penstock.frontend import Flatten, Graph, Loop, Map, Partition, Reassemble, Sink, Source, add


def program(rounds=8, first=False):
    """``first``: whether the sum is the first operand, as on a local wire."""
    g = Graph("summed")
    n = rounds + 1
    x = Source(graph=g, shape=(n,), tile=(4, 4), name="x")
    begins = Source(graph=g, shape=(n,), selector=2, name="begins")
    ends = Source(graph=g, shape=(n,), selector=2, name="ends")
    start, more = Partition(x, begins, rank=0, outputs=2, name="parts")
    so_far = Loop(more.type, graph=g, name="so_far")
    operands = (so_far, more) if first else (more, so_far)
    added = Map(*operands, fn=add(), name="added")
    sums = Flatten(Reassemble(start, added, begins, rank=0, name="sums"), lo=0, hi=1)
    back, done = Partition(sums, ends, rank=0, outputs=2, name="parted")
    so_far.close(back)
    Sink(done, name="y")
    return g


def inputs(seed, **_params):
    return {}


def streams(seed, rounds=8, **_params):
    rng = np.random.default_rng(seed)
    return {
        "x": list(rng.integers(-4, 4, (rounds + 1, 4, 4)).astype(np.float32)),
        "begins": [0] + [1] * rounds,
        "ends": [0] * rounds + [1],
    }
