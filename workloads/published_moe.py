"""The mixture-of-experts layer of the paper's figures 9, 10, 12 and 13, operator for operator as
its experiments build it for the published simulator.

``tile_rows`` N: rows of an expert are packed into tiles of N; 0: into one tile of as many rows as
the expert gets. ``regions`` R: the experts share R regions (configuration time-multiplexing); 0:
each has its own. ``trace``: an .npz file whose array ``data`` [tokens, top_k] has the experts of
each token; without one they are drawn with popularity 1 / rank^skew. ``compute_bw``: FLOP a cycle
of each operator (0: the configuration's). The defaults are Qwen3-30B-A3B with a batch of 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..frontend import (
    Accum,
    EagerMerge,
    Expand,
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
    expert_addresses,
    matmul,
    mul,
    retile_row,
    retile_streamify,
    silu,
)
from ..frontend.graph import Stream, TensorRef
from ..machine.errors import ProgramError
from ..system.reading import read_integers
from .traffic import routing


@dataclass(frozen=True)
class _Layer:
    """The parts of a layer.

    Attributes
    ----------
    weights, tile, steps
        The matrices of each expert or region, the size of their tiles, and tiles of each.
    compute_bw
        FLOP a cycle of each operator, as its argument.
    """

    tile_rows: int
    steps: int
    per: int  # experts of a region
    regions: int
    weights: dict[str, list[TensorRef]]
    tile: dict[str, tuple[int, int]]
    compute_bw: int | None
    dtype: str

    def pack(self, stream, i: int) -> Stream:
        """The rows of an expert in tiles: [D] -> [tiles]."""
        if self.tile_rows:
            chunks = Flatten(
                Promote(
                    Reshape(stream, dim=0, chunk=self.tile_rows, pad=0, name=f"chunks{i}")[0],
                    name=f"one{i}",
                ),
                lo=1,
                hi=2,
                name=f"packs{i}",
            )
        else:
            chunks = Promote(stream, name=f"packs{i}")
        return Accum(
            chunks, fn=retile_row(), rank=1, name=f"pack{i}", compute_bw=self.compute_bw
        ).stream

    def experts(self, packed: list[Stream]) -> list[Stream]:
        """The results of all experts, from their rows in tiles."""
        merged = [
            EagerMerge(packed[r * self.per : (r + 1) * self.per], name=f"region{r}")
            for r in range(self.regions)
        ]
        tiles = [m[0] for m in merged] or packed
        again = [Expand(t, count=self.steps, name=f"again{i}") for i, t in enumerate(tiles)]
        addresses = [
            FlatMap(m[1], fn=expert_addresses(self.steps), rank=1, name=f"addresses{r}")
            for r, m in enumerate(merged)
        ]
        starts = addresses or tiles
        up = self.products("up", again, starts)
        gate = [
            Map(p, fn=silu(), name=f"gated{i}", compute_bw=self.compute_bw)
            for i, p in enumerate(self.products("gate", again, starts))
        ]
        hidden = [
            cast(Map(u, v, fn=mul(), name=f"hidden{i}", compute_bw=self.compute_bw), self.dtype)
            for i, (u, v) in enumerate(zip(up, gate, strict=True))
        ]
        down = [
            Accum(
                h, w, fn=matmul(), rank=1, name=f"down_product{i}", compute_bw=self.compute_bw
            ).stream
            for i, (h, w) in enumerate(zip(hidden, self.load("down", starts), strict=True))
        ]
        if not self.regions:
            return down
        return [
            s
            for r, d in enumerate(down)
            for s in Partition(d, merged[r][1], rank=0, outputs=self.per, name=f"back{r}")
        ]

    def load(self, n: str, starts: Sequence) -> list[Flatten]:
        """The tiles of a weight for each tile of rows: [tiles, steps] for each expert or region.

        ``starts``: what a load waits for: addresses with regions, else tiles of rows.
        """
        tile = self.tile[n]
        if self.regions:
            loads = [
                RandomOffChipLoad(a, w, tile=tile, name=w.name)
                for a, w in zip(starts, self.weights[n], strict=True)
            ]
            return [Flatten(s, lo=0, hi=0, name=f"{n}_tiles{i}") for i, s in enumerate(loads)]
        shape = (self.steps, 1)
        loads = [
            LinearOffChipLoad(w, tile=tile, shape=shape, stride=(1, 1), ref=t, name=w.name)
            for t, w in zip(starts, self.weights[n], strict=True)
        ]
        return [Flatten(s, lo=0, hi=1, name=f"{n}_tiles{i}") for i, s in enumerate(loads)]

    def products(self, n: str, again: Sequence, starts: Sequence) -> list[Map]:
        """The products of rows and a weight's tiles."""
        return [
            Map(a, w, fn=matmul(), name=f"{n}_product{i}", compute_bw=self.compute_bw)
            for i, (a, w) in enumerate(zip(again, self.load(n, starts), strict=True))
        ]


def program(
    tokens=64,
    dim=2048,
    inter=768,
    experts=128,
    top_k=8,
    tile_rows=32,
    tile_inter=64,
    regions=0,
    compute_bw=0,
    skew=1.0,
    trace="",
    dtype="bf16",
):
    g = Graph("published_moe")
    x = g.input("x", (tokens, dim), dtype)
    y = g.output("y", (tokens, dim), dtype)
    rows = Flatten(
        LinearOffChipLoad(x, tile=(1, dim), shape=(tokens, 1), stride=(1, 1), name="x"),
        lo=0,
        hi=1,
        name="rows",
    ).stream
    total = mixture(
        rows, tokens, dim, inter, experts, top_k, tile_rows, tile_inter, regions, compute_bw, dtype
    )
    LinearOffChipStore(cast(Reshape(total, dim=0, chunk=1, name="lines"), dtype), y, name="y")
    return g


def mixture(
    rows: Stream,
    tokens: int,
    dim: int,
    inter: int,
    experts: int,
    top_k: int,
    tile_rows: int,
    tile_inter: int,
    regions: int,
    compute_bw: int,
    dtype: str,
) -> Stream:
    """The layer on ``rows`` [1, tokens] of {1, dim}, in a stream of the same shape, fp32."""
    if inter % tile_inter or (regions and experts % regions):
        raise ProgramError(
            f"inter ({inter}) must be a multiple of tile_inter ({tile_inter}), experts "
            f"({experts}) of the regions ({regions})"
        )
    g = rows.node.graph
    steps = inter // tile_inter
    groups = regions or experts
    per = experts // groups
    bandwidth = compute_bw or None
    shares = g.input("shares", (tokens, top_k), dtype)
    weights = {
        n: [g.input(f"{n}{i}", (per * rows, cols), dtype) for i in range(groups)]
        for n, rows, cols in (("up", dim, inter), ("gate", dim, inter), ("down", inter, dim))
    }
    tile = {"up": (dim, tile_inter), "gate": (dim, tile_inter), "down": (tile_inter, dim)}

    # every token to its experts, and its weights
    chosen = Source(graph=g, shape=(1, tokens), selector=experts, name="chosen")
    each = Source(graph=g, shape=(1, tokens, top_k), selector=experts, name="each")
    routed = Partition(rows, chosen, rank=0, outputs=experts, name="route")
    layer = _Layer(tile_rows, steps, per, regions, weights, tile, bandwidth, dtype)
    packed = [layer.pack(routed[i], i) for i in range(experts)]
    down = layer.experts(packed)

    # rows again, weighted, and summed for each token
    parts = Partition(
        LinearOffChipLoad(
            shares, tile=(1, 1), shape=(tokens, top_k), stride=(top_k, 1), name="shares"
        ),
        each,
        rank=0,
        outputs=experts,
        name="parts",
    )
    done = [
        FlatMap(d, fn=retile_streamify(mask=True), name=f"unpack{i}") for i, d in enumerate(down)
    ]
    weighted = [
        Map(d, cast(parts[i], "fp32"), fn=mul(), name=f"weighted{i}", compute_bw=bandwidth)
        for i, d in enumerate(done)
    ]
    returning = Source(graph=g, shape=(1, tokens), selector=experts, name="returning")
    return Accum(
        Reassemble(weighted, returning, rank=0, name="gather"),
        fn=add(),
        rank=1,
        name="sum",
        compute_bw=bandwidth,
    ).stream


def streams(seed, tokens=64, experts=128, top_k=8, skew=1.0, trace="", **_):
    chosen = (
        traced(trace, tokens, experts, top_k)
        if trace
        else routing(seed, tokens, experts, top_k, skew)
    )
    given = [chosen.tolist()]
    return {"chosen": given, "returning": given, "each": given}


def traced(trace, tokens, experts, top_k):
    """Experts of each token from a file."""
    chosen = read_integers(trace, "data")
    if not chosen.size:
        raise ProgramError(f"trace {trace} has no experts")
    if chosen.shape != (tokens, top_k) or chosen.min() < 0 or chosen.max() >= experts:
        raise ProgramError(
            f"trace {trace} has {list(chosen.shape)} experts from {chosen.min()} to {chosen.max()}",
            rule=f"[tokens, top_k] = [{tokens}, {top_k}] of {experts} experts",
            remedy="set tokens, top_k and experts as the trace has them",
        )
    return chosen
