"""A program of tiles that come and go as streams: the array it runs on has no other work for the
bench.
"""

import numpy as np
from penstock.frontend import Graph, Map, Sink, Source, silu


def program(beats=5):
    g = Graph("streamed")
    x = Source(graph=g, shape=(beats,), tile=(2, 2), name="x")
    Sink(Map(x, fn=silu()), name="y")
    return g


def inputs(seed, **_params):
    return {}


def streams(seed, beats=5):
    rng = np.random.default_rng(seed)
    return {"x": [rng.integers(-4, 4, (2, 2)).astype(np.float32) for _ in range(beats)]}
