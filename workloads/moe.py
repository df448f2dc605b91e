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
from ..machine.errors import ProgramError
from .traffic import routing


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
    gate = [g.input(f"gate{i}", (per * dim, inter), dtype) for i in range(groups)]
    up = [g.input(f"up{i}", (per * dim, inter), dtype) for i in range(groups)]
    down = [g.input(f"down{i}", (per * inter, dim), dtype) for i in range(groups)]

    # route the rows, and each row's share of every expert
    chosen = Source(
        graph=g, shape=(tokens,), selector=experts, name="chosen"
    )  # multi-hot: the experts of a token
    returning = Fifo(
        chosen, depth=tokens, name="returning"
    )  # the same; it waits at the end while the rows go through
    each = Source(
        graph=g, shape=(tokens, top_k), selector=experts, name="each"
    )  # the same, one by one
    rows = Flatten(LinearOffChipLoad(x, tile=(1, dim), name="x"), lo=0, hi=2)
    routed = Partition(rows, chosen, rank=0, outputs=experts, name="rows")
    share = Flatten(LinearOffChipLoad(shares, tile=(1, 1), name="shares"), lo=1, hi=2)
    parts = Partition(share, each, rank=0, outputs=experts, name="parts")

    def pack(stream, i):
        """[D] rows {1, dim} -> [tiles] of {N, dim}, or one {D, dim}."""
        if tile_rows:
            return Accum(
                Reshape(stream, dim=0, chunk=tile_rows, pad=0)[0],
                fn=retile_row(),
                rank=1,
                name=f"pack{i}",
            ).stream
        return Accum(Promote(stream), fn=retile_row(), rank=1, name=f"pack{i}").stream

    if waiting is None:
        waiting = ceil_div(tokens, tile_rows) if 0 < tile_rows < tokens else 0

    def room(tiles):
        return Fifo(tiles, depth=waiting).stream if waiting else tiles

    def layer(tiles, gates, ups, downs, i):
        """The expert's layer on tiles of rows, in ``steps`` parts of the inner dimension: [n] ->
        [n].
        """
        xs = Expand(tiles, count=steps, name=f"again{i}")
        h = Map(
            Map(Map(xs, gates, fn=matmul(), name=f"gate_product{i}"), fn=silu()),
            Map(xs, ups, fn=matmul(), name=f"up_product{i}"),
            fn=mul(),
            name=f"gated{i}",
        )
        return Accum(cast(h, dtype), downs, fn=matmul(), rank=1, name=f"down_product{i}")

    def on_chip(tiles):
        """The same stream, each tile stored as a whole before it goes on."""
        return Flatten(Expand(tiles, count=1), lo=0, hi=1)

    packed = [room(pack(routed[i], i)) for i in range(experts)]
    done = []
    if not regions:
        for i, tiles in enumerate(packed):
            weights = [
                LinearOffChipLoad(
                    w[i], tile=t, shape=(steps,), stride=(1,), ref=tiles, name=w[i].name
                )
                for w, t in (
                    (gate, (dim, tile_inter)),
                    (up, (dim, tile_inter)),
                    (down, (tile_inter, dim)),
                )
            ]
            done.append(layer(tiles, *weights, i).stream)
    else:
        for r in range(regions):
            # a tile is on chip as a whole before it counts as arrived: a packer gives its first
            # rows long before its last
            merged = EagerMerge(
                [on_chip(t) for t in packed[r * per : (r + 1) * per]], name=f"region{r}"
            )
            addresses = FlatMap(merged[1], fn=expert_addresses(steps), rank=1, name=f"addresses{r}")
            weights = [
                RandomOffChipLoad(addresses, w[r], tile=t, name=w[r].name)
                for w, t in (
                    (gate, (dim, tile_inter)),
                    (up, (dim, tile_inter)),
                    (down, (tile_inter, dim)),
                )
            ]
            back = Partition(
                layer(merged[0], *weights, r), merged[1], rank=0, outputs=per, name=f"back{r}"
            )
            done += [
                room(on_chip(t))
                for t in back
                # an expert's rows wait here until their turn, and do not hold up the others of the
                # region
            ]

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
    for row, (experts, share) in enumerate(zip(each, shares, strict=False)):
        for e, s in zip(experts, share, strict=False):
            a = x[row] @ gate[e]
            y[row] += s * ((a / (1 + np.exp(-a)) * (x[row] @ up[e])) @ down[e])
    return {"y": y}
