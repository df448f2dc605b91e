"""Board with one of everything: tensors, a stream in, one out, run-time registers."""

from penstock.frontend import *


def program(rows=6, cols=8, beats=5, dtype="bf16"):
    g = Graph("tiny")
    x = g.input("x", (rows, cols), dtype)
    y = g.output("y", (rows, cols), dtype)
    shape = (rows // 2, cols // 2)
    tiles = LinearOffChipLoad(x, tile=(2, 2), shape=shape, stride=(cols // 2, 1), name="x")
    wide = cast(tiles, "fp32")
    double = Map(wide, wide, fn=add(), name="double")
    LinearOffChipStore(cast(double, dtype), y, name="y")
    if beats:
        Sink(Source(graph=g, shape=(beats,), selector=40, name="given"), name="seen")
    return g


def streams(seed, beats=5, **_):
    return {"given": [(7 * k + seed) % 40 for k in range(beats)]} if beats else {}
