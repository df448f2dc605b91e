"""A decoder layer of the paper's figure 17: RMSNorm, queries, keys and values with rotary position
embeddings, attention over KV caches with write-back, output projection, residual, RMSNorm, experts,
residual.

The batch lies in ``chunks`` tiles for queries, keys and values, and is spread over as many regions
for attention (``parallel``: interleaved or dynamic), whose heads of one request stay together;
experts are those of `published_moe`. ``shared``: one load of each matrix for all chunks, in place
of one for each. ``ahead``: requests that a region may finish before those in front of them.
``trace``, ``lengths``: files of the experts of each token, and of the lengths of the caches. The
defaults are Qwen3-30B-A3B with a batch of 64.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    Loop,
    Map,
    Partition,
    Promote,
    Reassemble,
    Reshape,
    SelectorType,
    Sink,
    Source,
    StreamType,
    add,
    all_read,
    cast,
    function,
    immediate,
    matmul,
    mul,
    retile_col,
    retile_row,
    retile_streamify,
    row_sum,
    scale,
)
from ..frontend import dim as size
from ..frontend.graph import Stream, TensorRef
from ..machine.errors import ProgramError
from . import published_attention, published_moe
from .published_attention import Attention, Given, lengths

EPSILON = 1e-6
NUMBERS = (*published_attention.NUMBERS, "last")
"""Numbers of each head of a request: those of its attention, and the index of its last tile."""


def norm(x: Stream, width: int, name: str) -> Stream:
    """Each row of fp32 tiles over the root of its mean square."""
    mean = Map(
        Map(Map(x, fn=function("square"), name=f"{name}_square"), fn=scale(1 / width)),
        fn=row_sum(),
        name=f"{name}_mean",
    )
    root = Map(Map(mean, fn=immediate("add", EPSILON)), fn=function("rsqrt"), name=f"{name}_root")
    return Map(Fifo(x, depth=1), root, fn=mul(), name=name).stream


@dataclass(frozen=True)
class _Layer:
    """The parts of a layer in front of its experts."""

    graph: Graph
    requests: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    chunks: int
    tile_out: int
    rows_out: int
    ahead: int
    shared: bool
    project_bw: int | None
    dtype: str

    @property
    def rows(self) -> int:
        """Rows of a chunk."""
        return self.requests // self.chunks

    def source(self, shape: tuple[int, ...], name: str, **element: int) -> Stream:
        return Source(graph=self.graph, shape=shape, name=name, **element).stream

    def inputs(self, x: TensorRef) -> list[Stream]:
        """The rows in chunks, each [1] of a tile."""
        loads = [
            LinearOffChipLoad(
                x, tile=(self.rows, self.dim), order=[(c * self.rows, 0)], name=f"x{c}"
            )
            for c in range(self.chunks)
        ]
        return [Flatten(load, lo=0, hi=1).stream for load in loads]

    def weights(self, tensor: TensorRef, heads: int) -> list[Stream]:
        """Tiles of a matrix, [1, heads], for each chunk."""
        loads = [
            LinearOffChipLoad(
                tensor,
                tile=(self.dim, self.head_dim),
                shape=(heads,),
                stride=(1,),
                name=f"{tensor.name}{c}",
            ).stream
            for c in range(1 if self.shared else self.chunks)
        ]
        return loads * self.chunks if self.shared else loads

    def product(self, x: Expand, weight: Stream | Flatten, name: str) -> Stream:
        return Map(x, weight, fn=matmul(), compute_bw=self.project_bw, name=name).stream

    def turned(self, x: Stream, heads: int, angles: dict[str, Stream], name: str) -> Stream:
        """Rotary embeddings of heads [1, heads]: x cos + (-second half, first half) sin."""
        shape = (1, heads, 2)
        halves = FlatMap(
            x,
            fn=retile_streamify(along="cols", size=self.head_dim // 2),
            rank=1,
            name=f"cut_{name}",
        )
        first, second = Partition(
            halves,
            self.source(shape, f"half_{name}", selector=2),
            rank=0,
            outputs=2,
            in_turn=True,
            name=f"halves_{name}",
        )
        swapped = Reassemble(
            Map(second, fn=scale(-1.0), name=f"minus_{name}"),
            Fifo(first, depth=1),
            self.source(shape, f"swap_{name}", selector=2),
            rank=0,
            name=f"swapped_{name}",
        ).stream.assert_shape((*shape, 1))
        whole = Accum(Flatten(swapped, lo=0, hi=1), fn=retile_col(), rank=1, name=f"turned_{name}")
        cos, sin = (Expand(angles[a], count=heads, name=f"{a}_{name}") for a in ("cos", "sin"))
        return Map(
            Map(Fifo(x, depth=2), cos, fn=mul(), name=f"cos_part_{name}"),
            Map(whole, sin, fn=mul(), name=f"sin_part_{name}"),
            fn=add(),
            name=f"rotary_{name}",
        ).stream

    def by_request(self, x: Stream, heads: int, per: int, name: str) -> Stream:
        """Heads [1, heads] of a chunk as [rows, heads / per] of {per, head_dim}."""
        beside = Accum(cast(x, self.dtype), fn=retile_col(), rank=1, name=f"beside_{name}")
        each = FlatMap(beside, fn=retile_streamify(), name=f"rows_{name}")
        apart = FlatMap(
            each,
            fn=retile_streamify(along="cols", size=self.head_dim),
            rank=1,
            name=f"apart_{name}",
        )
        if per == 1:
            return apart.stream
        groups = Reshape(apart, dim=0, chunk=per, name=f"groups_{name}")
        return Accum(groups[0], fn=retile_row(), rank=1, name=f"group_{name}").stream

    def collect(self, parts: Sequence[Stream], name: str) -> Stream:
        """The chunks' rows one after the other."""
        rank = parts[0].rank
        total = len(parts) * (parts[0].shape[0].value or 0)
        to = self.source((total,), f"chunk_{name}", selector=len(parts))
        found = Reassemble(*parts, to, rank=rank, name=f"all_{name}").stream
        found = found.assert_shape((total, 1, *found.shape[2:]))
        return Flatten(found, lo=rank, hi=rank + 1, name=name).stream

    def project(self, chunks: list[Stream], matrices: dict[str, TensorRef]) -> dict[str, Stream]:
        """Queries, keys and values of all requests: [requests, kv_heads]."""
        per = self.heads // self.kv_heads
        heads = {"q": self.heads, "k": self.kv_heads, "v": self.kv_heads}
        loads = {n: self.weights(matrices[f"w{n}"], h) for n, h in heads.items()}
        made: dict[str, list[Stream]] = {n: [] for n in heads}
        for c, x in enumerate(chunks):
            normal = cast(norm(cast(x, "fp32"), self.dim, f"norm{c}"), self.dtype)
            for n, h in heads.items():
                name = f"{n}{c}"
                again = Expand(normal, count=h, name=f"again_{name}")
                head = self.product(again, loads[n][c], f"project_{name}")
                if n != "v":
                    angles = {a: self.angle(matrices[a], c, name) for a in ("cos", "sin")}
                    head = norm(head, self.head_dim, f"norm_{name}")
                    head = self.turned(head, h, angles, name)
                made[n].append(self.by_request(head, h, per if n == "q" else 1, name))
        return {n: self.collect(parts, n) for n, parts in made.items()}

    def angle(self, table: TensorRef, c: int, name: str) -> Stream:
        """Cosines or sines of a chunk's positions, [1]."""
        load = LinearOffChipLoad(
            table,
            tile=(self.rows, self.head_dim),
            order=[(c * self.rows, 0)],
            name=f"{table.name}_{name}",
        )
        return Flatten(cast(load, "fp32"), lo=0, hi=1).stream

    def attend(self, parts: Attention, streams: Given, parallel: str) -> Stream:
        """Results of all requests, [requests] of {1, heads x head_dim}."""
        streams = streams | {
            name: self.source((self.requests, self.kv_heads), name, scalar=32) for name in NUMBERS
        }
        to, loop, given = self.deal(streams, parallel)
        found = []
        for r, by_head in enumerate(given):
            flat = {n: Flatten(s, lo=0, hi=1).stream for n, s in by_head.items() if n != "tiles"}
            rows = {name: Promote(flat[name], level=0).stream for name in ("q", "new_k", "new_v")}
            out, loaded = parts.attend(r, flat | rows, by_head)
            each = FlatMap(out, fn=retile_streamify(), name=f"heads{r}")
            whole = Reshape(each, dim=0, chunk=self.heads, pad=0, name=f"whole{r}")
            row = Accum(whole[0], fn=retile_col(), rank=1, name=f"row{r}")
            found.append((Fifo(row, depth=self.ahead), loaded))
        if loop is not None:
            self.close(loop, [loaded for _, loaded in found])
        rows = Reassemble(*(row for row, _ in found), to, rank=0, name="attended").stream
        return Flatten(rows.assert_shape((self.requests, 1)), lo=0, hi=1).stream

    def deal(self, streams: Given, parallel: str) -> tuple[Stream, Loop | None, list[Given]]:
        """The region of each request, the loop that says so, and the streams of each region."""
        if parallel == "interleaved":
            to, loop = self.source((self.requests,), "order", selector=self.chunks), None
        else:
            to, loop = self.dispatch()
        dealt = {
            name: Partition(
                s,
                to if loop else self.source((self.requests,), f"to_{name}", selector=self.chunks),
                rank=1,
                outputs=self.chunks,
                in_turn=not loop,
                name=f"deal_{name}",
            )
            for name, s in streams.items()
        }
        given = [{name: d[r] for name, d in dealt.items()} for r in range(self.chunks)]
        return Fifo(to, depth=self.requests).stream, loop, given

    def dispatch(self) -> tuple[Stream, Loop]:
        """The next request goes to the region that has read its keys first."""
        n, more = self.chunks, self.requests - self.chunks
        again = Loop(StreamType(SelectorType(n), (size(more),)), graph=self.graph, name="again")
        turn = self.source((self.requests,), "turn", selector=2)
        first = self.source((n,), "first", selector=n)
        chosen = Reassemble(first, again, turn, rank=0, name="dispatch").stream
        to = Flatten(chosen.assert_shape((self.requests, 1)), lo=0, hi=1, name="to")
        return to.stream, again

    def close(self, again: Loop, loads: Sequence[Stream]) -> None:
        ready = EagerMerge(
            [Accum(k, fn=all_read(), rank=2, name=f"read{r}") for r, k in enumerate(loads)],
            name="ready",
        )
        Sink(ready[0], name="tokens")
        feed = self.source((self.requests,), "feed", selector=2)
        rest, back = Partition(ready[1], feed, rank=0, outputs=2, name="feedback")
        Sink(rest, name="idle")
        again.close(back)

    def packed(self, rows: Stream, name: str) -> Stream:
        """Single rows in tiles of ``rows_out``."""
        groups = Reshape(rows, dim=0, chunk=self.rows_out, name=f"{name}_rows")
        return Accum(groups[0], fn=retile_row(), rank=1, name=name).stream

    def output(self, rows: Stream, tensor: TensorRef) -> Stream:
        """The output projection in fp32: tiles of ``rows_out`` rows."""
        tiles = self.dim // self.tile_out
        chunks = self.packed(rows, "chunk")
        load = LinearOffChipLoad(
            tensor,
            tile=(self.heads * self.head_dim, self.tile_out),
            shape=(self.requests // self.rows_out, tiles),
            stride=(0, 1),
            name=tensor.name,
        )
        again = Expand(chunks, count=tiles, name="again_out")
        parts = self.product(again, Flatten(load, lo=1, hi=2), "project_out")
        return Accum(parts, fn=retile_col(), rank=1, name="out").stream


def program(
    requests=64,
    dim=2048,
    heads=32,
    kv_heads=4,
    head_dim=128,
    chunks=4,
    tile_out=64,
    rows_out=64,
    kv_tile=32,
    most=202,
    parallel="dynamic",
    shared=False,
    ahead=1,
    project_bw=0,
    inter=768,
    experts=128,
    top_k=8,
    tile_rows=0,
    tile_inter=48,
    regions=32,
    compute_bw=0,
    skew=1.0,
    trace="",
    lengths="",
    dtype="bf16",
):
    if parallel not in ("interleaved", "dynamic") or requests % chunks or requests == chunks:
        raise ProgramError(
            f"parallel must be interleaved or dynamic, not {parallel!r}, and the requests "
            f"({requests}) a larger multiple of the chunks ({chunks})"
        )
    g = Graph("published_layer")
    layer = _Layer(
        g,
        requests,
        dim,
        heads,
        kv_heads,
        head_dim,
        chunks,
        tile_out,
        rows_out,
        ahead,
        shared,
        project_bw or None,
        dtype,
    )
    x = g.input("x", (requests, dim), dtype)
    y = g.output("y", (requests, dim), dtype)
    sizes = {
        "wq": (dim, heads * head_dim),
        "wk": (dim, kv_heads * head_dim),
        "wv": (dim, kv_heads * head_dim),
        "cos": (requests, head_dim),
        "sin": (requests, head_dim),
        "wo": (heads * head_dim, dim),
    }
    matrices = {n: g.input(n, shape, dtype) for n, shape in sizes.items()}
    held = (requests * most * kv_tile, kv_heads * head_dim)
    parts = Attention(
        graph=g,
        y=y,
        cache={n: g.inout(f"cache_{n}", held, dtype) for n in "kv"},
        room=most,
        heights={"q": heads // kv_heads, "new_k": 1, "new_v": 1},
        head_dim=head_dim,
        kv_tile=kv_tile,
        dtype=dtype,
    )

    chunked = layer.inputs(x)
    made = layer.project(chunked, matrices)
    streams = {"q": made["q"], "new_k": made["k"], "new_v": made["v"]}
    attended = layer.attend(parts, streams, parallel)
    before = layer.collect([cast(c, "fp32") for c in chunked], "before")
    if rows_out != layer.rows:
        before = layer.packed(
            FlatMap(before, fn=retile_streamify(), name="single").stream, "residual"
        )
    middle = Map(
        layer.output(attended, matrices["wo"]),
        Fifo(before, depth=requests // rows_out),
        fn=add(),
        name="middle",
    ).stream
    normal = cast(norm(middle, dim, "norm"), dtype)
    split = FlatMap(normal, fn=retile_streamify(), name="split")
    tokens = Reshape(split, dim=0, chunk=requests, name="tokens")[0]
    total = published_moe.mixture(
        tokens,
        requests,
        dim,
        inter,
        experts,
        top_k,
        tile_rows,
        tile_inter,
        regions,
        compute_bw,
        dtype,
    )
    kept = FlatMap(Fifo(middle, depth=requests // rows_out), fn=retile_streamify(), name="kept")
    last = Map(total, Reshape(kept, dim=0, chunk=requests), fn=add(), name="last")
    LinearOffChipStore(cast(Reshape(last, dim=0, chunk=1, name="lines"), dtype), y, name="y")
    return g


def streams(
    seed,
    requests=64,
    kv_heads=4,
    heads=32,
    chunks=4,
    kv_tile=32,
    most=202,
    parallel="dynamic",
    experts=128,
    top_k=8,
    skew=1.0,
    trace="",
    **more,
):
    rows = lengths(seed, requests, kv_tile, most, skew, more.get("lengths", ""))
    each = np.arange(requests * kv_heads).reshape(requests, kv_heads)

    def by_head(numbers):
        return np.repeat(numbers[:, None], kv_heads, 1).tolist()

    found = published_moe.streams(seed, requests, experts, top_k, skew, trace)
    found |= {
        "request": each.tolist(),
        "tiles": by_head((rows + kv_tile) // kv_tile),
        "valid": by_head(rows % kv_tile),
        "last": by_head(rows // kv_tile),
    }
    for c in range(chunks):
        for n, h in (("q", heads), ("k", kv_heads)):
            found |= {f"{which}_{n}{c}": [[[0, 1]] * h] for which in ("half", "swap")}
    per = requests // chunks
    for n in "qkv":
        found[f"chunk_{n}"] = np.repeat(np.arange(chunks), per).tolist()
    found["chunk_before"] = list(range(chunks))
    turns = [i % chunks for i in range(requests)]
    after = requests - chunks
    if parallel == "interleaved":
        return (
            found | {f"to_{n}": turns for n in ("q", "new_k", "new_v", *NUMBERS)} | {"order": turns}
        )
    return found | {
        "first": list(range(chunks)),
        "turn": [0] * chunks + [1] * after,
        "feed": [1] * after + [0] * chunks,
    }


def inputs(
    seed,
    requests=64,
    dim=2048,
    heads=32,
    kv_heads=4,
    head_dim=128,
    kv_tile=32,
    most=202,
    inter=768,
    experts=128,
    top_k=8,
    regions=32,
    **_,
):
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0, 2 * np.pi, (requests, head_dim // 2)).repeat(2, 0).reshape(requests, -1)
    wide = {"q": heads, "k": kv_heads, "v": kv_heads}
    out = {f"w{n}": rng.standard_normal((dim, h * head_dim)) * dim**-0.5 for n, h in wide.items()}
    out |= {
        "x": rng.standard_normal((requests, dim)),
        "cos": np.cos(angles),
        "sin": np.sin(angles),
        "wo": rng.standard_normal((heads * head_dim, dim)) * (heads * head_dim) ** -0.5,
        "shares": rng.uniform(0.1, 1.0, (requests, top_k)),
    }
    held = (requests * most * kv_tile, kv_heads * head_dim)
    out |= {f"cache_{n}": 0.3 * rng.standard_normal(held) for n in "kv"}
    groups = regions or experts
    for n, rows, cols in (("up", dim, inter), ("gate", dim, inter), ("down", inter, dim)):
        for i in range(groups):
            w = rng.standard_normal((experts // groups * rows, cols)) * rows**-0.5
            out[f"{n}{i}"] = w
    return out


def reference(x, cos, sin, wq, wk, wv, wo, cache_k, cache_v, shares, params, **more):
    """The layer in float64, and the tiles of the caches that it writes."""
    n, d, kv_tile, kv = (params[name] for name in ("requests", "head_dim", "kv_tile", "kv_heads"))

    def normal(a):
        return a / np.sqrt((a**2).mean(-1, keepdims=True) + EPSILON)

    def turned(a):
        first, second = np.split(a, 2, -1)
        return a * cos[:, None] + np.concatenate([-second, first], -1) * sin[:, None]

    q, k, v = ((normal(x) @ w).reshape(n, -1, d) for w in (wq, wk, wv))
    new = {"k": turned(normal(k)), "v": v}
    q = turned(normal(q)).reshape(n, kv, -1, d)

    def tiled(cache):  # [request, head, tile, row, column]: tiles lie row by row
        tiles = cache.reshape(-1, kv_tile, kv, d).transpose(0, 2, 1, 3)
        return tiles.reshape(n, kv, -1, kv_tile, d).copy()

    held = {"k": tiled(cache_k), "v": tiled(cache_v)}
    attended = np.zeros_like(q)
    for r, (tiles, valid) in enumerate(zip(more["tiles"], more["valid"], strict=True)):
        last, row = tiles[0] - 1, valid[0]
        for name, rows in new.items():
            held[name][r, :, last, row] = rows[r]
        keys, values = (
            a[r].reshape(kv, -1, d)[:, : last * kv_tile + row + 1] for a in held.values()
        )
        p = np.exp(q[r] @ keys.transpose(0, 2, 1))
        attended[r] = p @ values / p.sum(-1, keepdims=True)
    middle = attended.reshape(n, -1) @ wo + x
    y, h = middle.copy(), normal(middle)
    up, gate, down = (
        np.concatenate(
            [more[f"{name}{i}"] for i in range(params["regions"] or params["experts"])]
        ).reshape(params["experts"], -1, cols)
        for name, cols in (("up", params["inter"]), ("gate", params["inter"]), ("down", len(wo[0])))
    )
    for row, (chosen, share) in enumerate(zip(more["each"][0], shares, strict=True)):
        for e, s in zip(chosen, share, strict=True):
            a = h[row] @ gate[e]
            y[row] += s * ((a / (1 + np.exp(-a)) * (h[row] @ up[e])) @ down[e])
    found = {
        f"cache_{name}": a.reshape(-1, kv, kv_tile, d).transpose(0, 2, 1, 3).reshape(cache_k.shape)
        for name, a in held.items()
    }
    return {"y": y} | found
