"""Speed of the model on a hand-built SwiGLU unit graph of figure 8's shape: no front end involved.

    python bench/engine_speed.py [factor ...]

Prints, per batch factor: cycles, events, events/s, cycles/s, ns per event, and lines moved against the memory's peak.
"""

from __future__ import annotations

import sys
from math import ceil

import numpy as np

from penstock import model
from penstock.machine.beat import BufferRef, Tile
from penstock.machine.config import load
from penstock.machine.unitgraph import Channel, Tensor, Unit, UnitGraph


class Builder:
    def __init__(self, machine):
        self.m, self.units, self.channels = machine, [], []

    def unit(self, name, kind, **params):
        self.units.append(Unit(len(self.units), name, kind, params, name))
        return len(self.units) - 1

    def link(self, a, b, payload, src=0, dst=0):
        c = len(self.channels)
        self.channels.append(Channel(c, f"c{c}", (a, src), (b, dst), self.m.channel_depth, payload))


def swiglu(config, batch=64, dim=256, inter=512, tile_b=32, tile_inter=64) -> UnitGraph:
    m = config.machine
    t, size = m.t, m.element_bytes
    b = Builder(m)
    tensors, end = [], 0

    def tensor(name, rows, cols, role="input"):
        nonlocal end
        x = Tensor(name, rows, cols, m.dtype, end, ceil(cols * size / 64) * 64, role)
        tensors.append(x)
        end += x.bytes
        return x

    tile, wide = Tile(t, m.dtype), Tile(t, "fp32")
    nb, ni = batch // tile_b, inter // tile_inter

    def load_(x, rows, cols, shape, row_step, col_step):
        return b.unit(f"load_{x.name}", "load", tensor=x.name, base=x.base, pitch=x.pitch, tensor_rows=x.rows, tensor_cols=x.cols, rows=rows,
                      cols=cols, rank=len(shape), shape=shape, row_step=row_step, col_step=col_step)

    x, gate, up, down = tensor("x", batch, dim), tensor("gate", dim, inter), tensor("up", dim, inter), tensor("down", inter, dim)
    out = tensor("out", batch, dim, "output")
    lx = load_(x, tile_b, dim, [nb, ni, 1], [tile_b, 0, 0], [0, 0, 0])
    lg = load_(gate, dim, tile_inter, [nb, ni, 1], [0, 0, 0], [0, tile_inter, 0])
    lu = load_(up, dim, tile_inter, [nb, ni, 1], [0, 0, 0], [0, tile_inter, 0])
    ld = load_(down, tile_inter, dim, [nb, 1, ni], [0, 0, tile_inter], [0, 0, 0])
    fan = b.unit("fan", "broadcast", n=2, scratchpad=None)
    b.link(lx, fan, tile)

    def product(name, a, a_port, weights, m_tiles, n_tiles):
        """A [.., m, k] x B [.., k, n], reduced over k and over the innermost logical dimension."""
        rep = b.unit(f"{name}_repeat", "repeat", count=n_tiles)
        pad = b.unit(f"{name}_pad", "scratchpad", pages=m.pages, frames=m.frames, writers=[{"rank": 2}], readers=[{"rank": 2, "repeat_dim": True}], repeat=[m_tiles])
        mm = b.unit(f"{name}_matmul", "matmul", rows_per_cycle=m.rows_per_cycle, transposed=False)
        acc = b.unit(f"{name}_accum", "accum", fn="add", reduce=1 << 1 | 1 << 3, depth=m.accum_tiles, lanes=m.lanes_for("accum"))
        b.link(a, rep, tile, a_port, 0)
        b.link(weights, pad, tile)
        b.link(pad, pad, BufferRef(m.pages), 0, 1)
        b.link(rep, mm, tile, 0, 0)
        b.link(pad, mm, tile, 1, 1)
        b.link(mm, acc, wide)
        return acc

    ag = product("gate", fan, 0, lg, ceil(tile_b / t), ceil(tile_inter / t))
    au = product("up", fan, 1, lu, ceil(tile_b / t), ceil(tile_inter / t))
    silu = b.unit("silu", "map", fn="silu", arity=1, lanes=m.lanes_for("silu"), tuple_in=False)
    mul = b.unit("mul", "map", fn="mul", arity=2, lanes=m.lanes_for("mul"), tuple_in=False)
    b.link(ag, silu, wide)
    b.link(silu, mul, wide, 0, 0)
    b.link(au, mul, wide, 0, 1)
    # [nb, ni, m, n] after the accumulators; down reduces over n (= k) and ni.
    last = mul
    if m.dtype == "bf16":
        last = b.unit("cast", "map", fn="cast_bf16", arity=1, lanes=m.lanes_for("cast_bf16"), tuple_in=False)
        b.link(mul, last, wide)
    wrap = b.unit("wrap", "promote", level=3, outermost=False)
    b.link(last, wrap, tile)
    ad = product("down", wrap, 0, ld, ceil(tile_b / t), ceil(dim / t))
    if m.dtype == "bf16":
        cast = b.unit("cast_out", "map", fn="cast_bf16", arity=1, lanes=m.lanes_for("cast_bf16"), tuple_in=False)
        b.link(ad, cast, wide)
        ad = cast
    st = b.unit("store", "store", tensor="out", base=out.base, pitch=out.pitch, tensor_rows=out.rows, tensor_cols=out.cols, rows=tile_b, cols=dim)
    b.link(ad, st, tile)
    return UnitGraph("swiglu", t, tuple(b.units), tuple(b.channels), tuple(tensors), (lx, lg, lu, ld, st), end)


def inputs(graph: UnitGraph, seed=0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {x.name: rng.normal(0, 0.1, (x.rows, x.cols)).astype(np.float32) for x in graph.tensors if x.role == "input"}


def main() -> None:
    config = load("fig8")
    peak = config.machine.dram.bytes_per_cycle
    graph = swiglu(config)
    for factor in [int(a) for a in sys.argv[1:]] or [1, 8, 64]:
        graph = swiglu(config, batch=64 * factor)
        for values in (False, True) if factor <= 8 else (False,):
            runs = [model.run(graph, config, inputs(graph), values=values) for _ in range(4)]
            r = min(runs[1:], key=lambda r: r.wall_s)
            lines = r.lines_read + r.lines_written
            print(f"batch x{factor:<3d} {'values' if values else 'timing'}: {r.cycles} cycles (memory alone {lines * 64 / peak:.0f}), {r.events} events, "
                  f"{r.events / r.wall_s / 1e6:.1f} M events/s, {r.cycles / r.wall_s / 1e6:.2f} M cycles/s, {r.wall_s / r.events * 1e9:.1f} ns/event, "
                  f"{r.extra['evaluations']} evaluations, setup {r.setup_s * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
