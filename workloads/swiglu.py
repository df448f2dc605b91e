"""A SwiGLU layer, y = (silu(x gate) * (x up)) down: the program of the paper's figure 8.

``silu``: "unit", the one function; "spelled", the same from sub, exp, add and div, with a rounding
each (what an ALU without that function does).
"""

import numpy as np

from ..frontend import (
    Accum,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Reshape,
    cast,
    ceil_div,
    function,
    matmul,
    mul,
)
from ..machine.errors import ProgramError


def program(batch=64, dim=256, inter=512, tile_b=16, tile_inter=64, dtype="fp32", silu="unit"):
    if silu not in ("unit", "spelled"):
        raise ProgramError(f"silu must be unit or spelled, not {silu!r}")
    g = Graph("swiglu")
    x = g.input("x", (batch, dim), dtype)
    gate = g.input("gate", (dim, inter), dtype)
    up = g.input("up", (dim, inter), dtype)
    down = g.input("down", (inter, dim), dtype)
    y = g.output("y", (batch, dim), dtype)
    nb = ceil_div(batch, tile_b)
    ni = ceil_div(inter, tile_inter)

    # every tile of x meets every column tile of gate and up: [1, nb, ni, 1]
    xs = LinearOffChipLoad(x, tile=(tile_b, dim), shape=(nb, ni, 1), stride=(1, 0, 1), name="x")
    gates = LinearOffChipLoad(
        gate, tile=(dim, tile_inter), shape=(nb, ni, 1), stride=(0, 1, ni), name="gate"
    )
    ups = LinearOffChipLoad(
        up, tile=(dim, tile_inter), shape=(nb, ni, 1), stride=(0, 1, ni), name="up"
    )
    a = Accum(xs, gates, fn=matmul(), rank=1, name="gate_product")
    b = Accum(xs, ups, fn=matmul(), rank=1, name="up_product")
    h = Map(
        spelled_silu(a) if silu == "spelled" else Map(a, fn=function("silu"), name="silu"),
        b,
        fn=mul(),
        name="gated",
    )

    # the products are tiles of the inner dimension: summed over it, [1, nb, 1, ni] -> [1, nb, 1]
    h = Reshape(cast(h, dtype), dim=1, chunk=1, name="rows")
    downs = LinearOffChipLoad(
        down, tile=(tile_inter, dim), shape=(nb, 1, ni), stride=(0, 0, 1), name="down"
    )
    out = Accum(h, downs, fn=matmul(), rank=1, write_back=True, name="down_product")
    LinearOffChipStore(cast(out, dtype), y, name="store")
    return g


def spelled_silu(a):
    """a / (1 + e**(0 - a)); 0 is a - a, 1 is e**0."""
    zero = Map(a, a, fn=function("sub"), name="zero")
    e = Map(Map(zero, a, fn=function("sub"), name="minus"), fn=function("exp"), name="exp")
    return Map(
        a,
        Map(Map(zero, fn=function("exp"), name="one"), e, fn=function("add"), name="denominator"),
        fn=function("div"),
        name="silu",
    )


def inputs(seed, batch=64, dim=256, inter=512, **_):
    """Normal values; the weights scaled so that every sum has a deviation of about 1."""
    rng = np.random.default_rng(seed)

    def normal(rows, cols, scale):
        return (rng.standard_normal((rows, cols)) * scale).astype(np.float32)

    return {
        "x": normal(batch, dim, 1.0),
        "gate": normal(dim, inter, dim**-0.5),
        "up": normal(dim, inter, dim**-0.5),
        "down": normal(inter, dim, inter**-0.5),
    }


def reference(x, gate, up, down):
    """The layer in float64."""
    a = x @ gate
    return {"y": (a / (1 + np.exp(-a)) * (x @ up)) @ down}
