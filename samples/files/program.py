"""A linear layer with an activation, y = silu(x w): a program to start from.

    penstock show program.py --config small_fpga              # shapes, traffic, memory
    penstock run program.py --config small_fpga               # cycles of the model, values checked
    penstock run program.py --config small_fpga --on both     # also the RTL, compared in every beat

Change it, run it again. `--set NAME=VALUE` gives the parameters of program() other values.
"""

import numpy as np
from penstock.frontend import (
    Accum,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    cast,
    ceil_div,
    function,
    matmul,
)


def program(rows=16, dim=32, out=16, tile_rows=8, tile_dim=16, tile_out=8, dtype="fp32"):
    """The graph. A parameter called dtype takes the machine's, whatever its default."""
    g = Graph("program")

    # Tensors in the off-chip memory.
    x = g.input("x", (rows, dim), dtype)
    w = g.input("w", (dim, out), dtype)
    y = g.output("y", (rows, out), dtype)

    # How many tiles each dimension has; the last one may be cut.
    n_rows = ceil_div(rows, tile_rows)
    n_dim = ceil_div(dim, tile_dim)
    n_out = ceil_div(out, tile_out)

    # Two streams of tiles of the shape [rows, out, dim], outermost first. A stride is the step
    # in tiles of the tensor, row by row: 0 reads the same tiles again.
    shape = (n_rows, n_out, n_dim)
    xs = LinearOffChipLoad(
        x, tile=(tile_rows, tile_dim), shape=shape, stride=(n_dim, 0, 1), name="x"
    )
    ws = LinearOffChipLoad(
        w, tile=(tile_dim, tile_out), shape=shape, stride=(0, 1, n_out), name="w"
    )

    # Products summed over the innermost dimension: [rows, out]. Sums are fp32.
    product = Accum(xs, ws, fn=matmul(), rank=1, name="product")
    active = Map(product, fn=function("silu"), name="silu")

    # Back to the tensor's numbers, and into the memory.
    LinearOffChipStore(cast(active, dtype), y, name="store")
    return g


def inputs(seed, rows=16, dim=32, out=16, **_):
    """The input tensors by name. Without this function they are standard normal."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((rows, dim)),
        "w": rng.standard_normal((dim, out)) / np.sqrt(dim),
    }


def reference(x, w):
    """Result of the program in float64: it shows whether the program itself is right.

    Without this function the graph is evaluated in float64.
    """
    a = x @ w
    return {"y": a / (1 + np.exp(-a))}
