"""Small graphs for the rules of the `stepsim` timing, and figure 8's graph, unit by unit, as the
published program builds it.
"""

from dataclasses import replace

from ..machine import config
from ..machine.stepsim_kinds import STEPSIM_KINDS, TOKEN
from ..machine.unitgraph import Channel, Unit, UnitGraph
from ..model.stepsim import run


class Builder:
    """Collects units and the channels between them."""

    def __init__(self, name: str):
        self.name = name
        self.units = []
        self.channels = []
        self.free = {}

    def unit(self, name: str, kind: str, inputs=(), **params) -> int:
        """Add a unit, joined to the next free output of each unit in ``inputs``."""
        u = len(self.units)
        self.units.append(Unit(u, name, kind, params))
        for port, v in enumerate(inputs):
            out = self.free[v] = self.free.get(v, -1) + 1
            self.channels.append(
                Channel(
                    len(self.channels),
                    f"{self.units[v].name}.{out}->{name}",
                    (v, out),
                    (u, port),
                    0,
                    TOKEN,
                )
            )
        return u

    def graph(self) -> UnitGraph:
        loads = [u.id for u in self.units if STEPSIM_KINDS[u.kind].offchip == "read"]
        stores = [u.id for u in self.units if STEPSIM_KINDS[u.kind].offchip == "write"]
        return UnitGraph(
            self.name, 16, tuple(self.units), tuple(self.channels), ports=(*loads, *stores)
        )


def function(fn, rule, flops, **more):
    return {"fn": fn, "rule": rule, "flops": flops, "compute_bw": 0, "write_back_mu": False} | more


def map_of(fn, rule, flops, arity, **more):
    return function(fn, rule, flops, arity=arity, tuple_in=False, **more)


def swiglu(
    tile_b: int, tile_inter: int, batch: int = 64, dim: int = 256, inter: int = 512
) -> UnitGraph:
    b = batch // tile_b
    i = inter // tile_inter
    g = Builder(f"swiglu {tile_b} x {tile_inter}")
    matmul = function("matmul", "matmul", 2, rank=1)

    def load(name, rows, cols, shape):
        return g.unit(name, "load", rows=rows, cols=cols, shape=shape, par_dispatch=0)

    x = load("x", tile_b, dim, [b, i, 1])
    gate = load("gate", dim, tile_inter, [b, i, 1])
    up = load("up", dim, tile_inter, [b, i, 1])
    copies = g.unit("x copies", "broadcast", [x], n=2)
    gated = g.unit(
        "x gate", "map_accum", [copies, gate], **matmul, init_rows=tile_b, init_cols=tile_inter
    )
    upped = g.unit(
        "x up", "map_accum", [copies, up], **matmul, init_rows=tile_b, init_cols=tile_inter
    )
    silu = g.unit("silu", "map", [gated], **map_of("silu", "elementwise", 8, 1))
    mul = g.unit("mul", "map", [silu, upped], **map_of("mul", "elementwise", 1, 2))
    rows = g.unit("rows", "reshape", [mul], dim=1, chunk=1, pad=False, add_outer=False)
    down = load("down", tile_inter, dim, [b, 1, i])
    result = g.unit(
        "down projection",
        "map_accum",
        [rows, down],
        **matmul | {"write_back_mu": True},
        init_rows=tile_b,
        init_cols=dim,
    )
    g.unit("out", "store", [result], par_dispatch=0)
    return g.graph()


FIG8 = config.load("fig8")


def machine(depth=2, channels=8, **stepsim):
    """Figure 8's machine with 64 B a cycle on chip, 64 FLOP a cycle and one request a chunk,
    changed as said.
    """
    base = dict(
        compute_bw=64,
        fifo_depth=depth,
        par_dispatch=1,
        onchip_bw=64,
        dram=replace(FIG8.stepsim.dram, channels=channels),
    )
    return replace(FIG8, stepsim=replace(FIG8.stepsim, **base | stepsim))


def source(g, stop, name="source", rows=1, cols=16, stamp=None):
    return g.unit(name, "source", stamp=stamp or [0] * len(stop), stop=stop, rows=rows, cols=cols)


def load(g, tiles, rows=1, cols=16, name="load"):
    return g.unit(name, "load", rows=rows, cols=cols, shape=[tiles], par_dispatch=0)


def sink(g, u, name="sink"):
    return g.unit(name, "sink", [u])


def chain(*steps, stop=(0,), on=None, **kw):
    """Trace of source -> steps -> sink."""
    g = Builder("chain")
    u = source(g, list(stop), **kw)
    for i, (kind, params) in enumerate(steps):
        u = g.unit(f"{kind}{i}", kind, [u], **params)
    sink(g, u)
    return run(g.graph(), on or machine(), trace=True)


def out(result):
    return list(result.channels[-1].stop)
