"""Small graphs for the rules of the `stepsim` timing."""

from dataclasses import replace

from ..machine.config import load as load_config
from ..machine.stepsim_kinds import STEPSIM_KINDS, TOKEN
from ..machine.unitgraph import Channel, Unit, UnitGraph
from ..model.stepsim import run

FIG8 = load_config("fig8")


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
        self.units.append(Unit(u, name, STEPSIM_KINDS[kind].of(params)))
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
        loads = [u.id for u in self.units if u.kind.offchip == "read"]
        stores = [u.id for u in self.units if u.kind.offchip == "write"]
        return UnitGraph(
            self.name, 16, tuple(self.units), tuple(self.channels), ports=(*loads, *stores)
        )


def function(fn, rule, flops, **more):
    return {"fn": fn, "rule": rule, "flops": flops, "compute_bw": 0, "write_back_mu": False} | more


def map_of(fn, rule, flops, arity, **more):
    return function(fn, rule, flops, arity=arity, tuple_in=False, **more)


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
