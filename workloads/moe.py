"""A mixture-of-experts layer with SwiGLU experts: y = sum over a token's experts of its weight
times down(silu(gate x) * up x).

``tile_rows`` N: rows of an expert are packed into tiles of N, the last one padded (static tiling);
0: into one tile of as many rows as the expert gets (dynamic tiling). ``regions`` 0: each expert has
hardware of its own; R: the experts share R regions, whose weights follow the tile that arrived
(configuration time-multiplexing).

Static tiles need room: an expert whose tile is not full yet waits for rows that are routed later,
and the rows of the other experts, which may not be gathered before its own, wait meanwhile.
``waiting`` is the number of tiles that may do so in front of each expert (and, with regions, behind
it); as many as an expert can get, the default, let every routing finish. A dynamic tile is the only
one of its expert and waits on chip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..frontend import (
    Accum,
    EagerMerge,
    Expand,
    Fifo,
    FlatMap,
    Flatten,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Partition,
    Promote,
    RandomOffChipLoad,
    Reassemble,
    Reshape,
    Source,
    add,
    cast,
    ceil_div,
    expert_addresses,
    matmul,
    mul,
    retile_row,
    retile_streamify,
    silu,
)
from ..frontend.graph import Stream, TensorRef
from ..machine.errors import ProgramError
from .traffic import routing


@dataclass(frozen=True)
class _Weights:
    """The matrices of all experts or, with regions, of the experts of each region."""

    gate: list[TensorRef]
    up: list[TensorRef]
    down: list[TensorRef]


@dataclass(frozen=True)
class _Layer:
    """The parts of a layer: sizes of its matrices and tiles, and how many tiles may wait."""

    dim: int
    tile_rows: int
    tile_inter: int
    steps: int  # parts of the inner dimension
    waiting: int
    dtype: str

    def pack(self, stream, i: int) -> Stream:
        """[D] rows {1, dim} -> [tiles] of {N, dim}, or one {D, dim}."""
        if self.tile_rows:
            groups = Reshape(stream, dim=0, chunk=self.tile_rows, pad=0)[0]
        else:
            groups = Promote(stream).stream
        return Accum(groups, fn=retile_row(), rank=1, name=f"pack{i}").stream

    def room(self, tiles: Stream) -> Stream:
        """The same stream, with places for as many tiles as may wait."""
        return Fifo(tiles, depth=self.waiting).stream if self.waiting else tiles

    @staticmethod
    def on_chip(tiles: Stream) -> Stream:
        """The same stream, each tile stored as a whole before it goes on."""
        return Flatten(Expand(tiles, count=1), lo=0, hi=1).stream

    def tiles_of(self, weights: _Weights, i: int) -> list[tuple[TensorRef, tuple[int, int]]]:
        """An expert's or a region's matrices, each with the size of its tiles."""
        inner = (self.dim, self.tile_inter)
        return [
            (weights.gate[i], inner),
            (weights.up[i], inner),
            (weights.down[i], (self.tile_inter, self.dim)),
        ]

    def expert(self, tiles, weights, i: int) -> Accum:
        """The expert's layer on tiles of rows, in ``steps`` parts of the inner dimension: [n] ->
        [n].
        """
        gates, ups, downs = weights
        xs = Expand(tiles, count=self.steps, name=f"again{i}")
        h = Map(
            Map(Map(xs, gates, fn=matmul(), name=f"gate_product{i}"), fn=silu()),
            Map(xs, ups, fn=matmul(), name=f"up_product{i}"),
            fn=mul(),
            name=f"gated{i}",
        )
        return Accum(cast(h, self.dtype), downs, fn=matmul(), rank=1, name=f"down_product{i}")

    def own_hardware(self, packed: list, weights: _Weights) -> list[Stream]:
        """The results of experts that have hardware of their own."""
        done = []
        for i, tiles in enumerate(packed):
            loads = [
                LinearOffChipLoad(
                    w, tile=t, shape=(self.steps,), stride=(1,), ref=tiles, name=w.name
                )
                for w, t in self.tiles_of(weights, i)
            ]
            done.append(self.expert(tiles, loads, i).stream)
        return done

    def region(self, packed: list, weights: _Weights, r: int) -> list[Stream]:
        """The results of the experts that share a region: its weights follow the tile that
        arrived.
        """
        # a tile is on chip as a whole before it counts as arrived: a packer gives its first
        # rows long before its last
        merged = EagerMerge([self.on_chip(t) for t in packed], name=f"region{r}")
        addresses = FlatMap(
            merged[1], fn=expert_addresses(self.steps), rank=1, name=f"addresses{r}"
        )
        loads = [
            RandomOffChipLoad(addresses, w, tile=t, name=w.name)
            for w, t in self.tiles_of(weights, r)
        ]
        result = self.expert(merged[0], loads, r)
        back = Partition(result, merged[1], rank=0, outputs=len(packed), name=f"back{r}")
        # an expert's rows wait here until their turn, and do not hold up the others of the region
        return [self.room(self.on_chip(t)) for t in back]


def program(
    tokens=64,
    dim=16,
    inter=32,
    experts=8,
    top_k=2,
    tile_rows=16,
    tile_inter=16,
    regions=0,
    waiting=None,
    skew=1.0,
    dtype="bf16",
):
    if regions and experts % regions:
        raise ProgramError(f"experts ({experts}) are not a multiple of the regions ({regions})")
    g = Graph("moe")
    steps = ceil_div(inter, tile_inter)
    x = g.input("x", (tokens, dim), dtype)
    y = g.output("y", (tokens, dim), dtype)
    shares = g.input("shares", (tokens, top_k), dtype)
    groups = regions or experts
    per = experts // groups
    weights = _Weights(
        gate=[g.input(f"gate{i}", (per * dim, inter), dtype) for i in range(groups)],
        up=[g.input(f"up{i}", (per * dim, inter), dtype) for i in range(groups)],
        down=[g.input(f"down{i}", (per * inter, dim), dtype) for i in range(groups)],
    )

    # route the rows, and each row's share of every expert: the experts of a token, multi-hot, once
    # more at the end, where they wait while the rows go through, and one by one
    chosen = Source(graph=g, shape=(tokens,), selector=experts, name="chosen")
    returning = Fifo(chosen, depth=tokens, name="returning")
    each = Source(graph=g, shape=(tokens, top_k), selector=experts, name="each")
    rows = Flatten(LinearOffChipLoad(x, tile=(1, dim), name="x"), lo=0, hi=2)
    routed = Partition(rows, chosen, rank=0, outputs=experts, name="rows")
    share = Flatten(LinearOffChipLoad(shares, tile=(1, 1), name="shares"), lo=1, hi=2)
    parts = Partition(share, each, rank=0, outputs=experts, name="parts")

    if waiting is None:
        waiting = ceil_div(tokens, tile_rows) if 0 < tile_rows < tokens else 0
    layer = _Layer(dim, tile_rows, tile_inter, steps, waiting, dtype)
    packed = [layer.room(layer.pack(routed[i], i)) for i in range(experts)]
    if regions:
        done = []
        for r in range(regions):
            done += layer.region(packed[r * per : (r + 1) * per], weights, r)
    else:
        done = layer.own_hardware(packed, weights)

    # rows again, weighted, gathered and summed for each token
    results = [
        Map(
            FlatMap(tiles, fn=retile_streamify(mask=True), name=f"unpack{i}"),
            cast(parts[i], "fp32"),
            fn=mul(),
            name=f"weighted{i}",
        )
        for i, tiles in enumerate(done)
    ]
    gathered = Reassemble(results, returning, rank=0, name="gather")
    LinearOffChipStore(cast(Accum(gathered, fn=add(), rank=1, name="sum"), dtype), y, name="y")
    return g


def streams(seed, tokens=64, experts=8, top_k=2, skew=1.0, **_):
    chosen = routing(seed, tokens, experts, top_k, skew)
    return dict.fromkeys(("chosen", "each"), chosen.tolist())


def inputs(seed, tokens=64, dim=16, inter=32, experts=8, top_k=2, regions=0, **_):
    rng = np.random.default_rng(seed)
    groups = regions or experts
    per = experts // groups
    out = {
        "x": rng.standard_normal((tokens, dim)),
        "shares": rng.uniform(0.1, 1.0, (tokens, top_k)),
    }
    gate, up, down = (
        rng.standard_normal((experts, *size)) * size[0] ** -0.5
        for size in ((dim, inter), (dim, inter), (inter, dim))
    )
    for i in range(groups):
        mine = slice(i * per, (i + 1) * per)
        out |= {
            f"gate{i}": gate[mine].reshape(-1, inter),
            f"up{i}": up[mine].reshape(-1, inter),
            f"down{i}": down[mine].reshape(-1, dim),
        }
    return out


def reference(x, shares, chosen, each, **weights):
    """The layer in float64."""
    dim = x.shape[1]
    gate, up = (
        np.concatenate(
            [
                weights[f"{n}{i}"].reshape(-1, dim, weights["gate0"].shape[1])
                for i in range(len(weights) // 3)
            ]
        )
        for n in ("gate", "up")
    )
    down = np.concatenate(
        [weights[f"down{i}"].reshape(-1, gate.shape[2], dim) for i in range(len(weights) // 3)]
    )
    y = np.zeros_like(x)
    for row, (experts, share) in enumerate(zip(each, shares, strict=True)):
        for e, s in zip(experts, share, strict=True):
            a = x[row] @ gate[e]
            y[row] += s * ((a / (1 + np.exp(-a)) * (x[row] @ up[e])) @ down[e])
    return {"y": y}
