"""Attention of one new token per request over a KV cache of any length, spread over parallel
regions.

``softmax``: "published" sums exp(s) as it is; "stable" keeps a request's scores on chip until their
maximum is known; "online" goes over them once, with a running maximum, and rescales the sums so far
when it grows. ``parallel``: "coarse" gives each region as many consecutive requests; "interleaved"
deals them round robin; "dynamic" gives the next request to the region that has used up its cache
first, by a feedback loop.

The cache of a request is ``most`` tiles of ``kv_tile`` rows; a request of length L reads L //
kv_tile + 1 of them. The new row of K and V is put below the valid rows of the last one, which is
written back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..frontend import (
    Accum,
    Bufferize,
    Expand,
    Fifo,
    FlatMap,
    Flatten,
    Graph,
    LinearOffChipLoad,
    Loop,
    Map,
    Partition,
    Promote,
    RandomOffChipLoad,
    RandomOffChipStore,
    Reassemble,
    Scan,
    Sink,
    Source,
    Streamify,
    add,
    address,
    address_range,
    all_read,
    cast,
    div,
    exp,
    last_tile_filter,
    matmul,
    maximum,
    mul,
    row_append,
    row_max,
    row_offset,
    row_sum,
    scale,
    sub,
)
from ..frontend.graph import Operator, Stream, TensorRef
from ..machine.errors import ProgramError
from .dealing import deal, turns
from .traffic import kv_lengths

PARALLEL = ("coarse", "interleaved", "dynamic")
SOFTMAX = ("published", "stable", "online")
NUMBERS = (
    "request",
    "tiles",
    "valid",
    "last",
)  # of each request: its index, KV tiles, valid rows of the last one, index of the last one


Numbers = dict[str, Stream]
"""Numbers of each request, and its rows, by name: [n] streams."""


@dataclass(frozen=True)
class _Attention:
    """The parts of the program.

    Attributes
    ----------
    q, new, cache
        Queries of all requests, one row of keys and values each, and their caches.
    y, kept
        Results, and the caches' tiles that are written back.
    """

    graph: Graph
    q: TensorRef
    y: TensorRef
    new: dict[str, TensorRef]
    cache: dict[str, TensorRef]
    kept: dict[str, TensorRef]
    heads: int
    head_dim: int
    kv_tile: int
    most: int
    parallel: str
    softmax: str
    dtype: str

    def updated(self, name: str, loaded: Operator, numbers: Numbers, r: int) -> Flatten:
        """The cache with the new row in its last tile, which is also stored: [n, tiles]."""
        which = FlatMap(numbers["tiles"], fn=last_tile_filter(), rank=1, name=f"which_{name}{r}")
        last, rest = Partition(loaded, which, rank=0, outputs=2, name=f"split_{name}{r}")
        filled = Map(
            Map(last, numbers["valid"], fn=row_offset(), name=f"cut_{name}{r}"),
            numbers[f"new_{name}"],
            fn=row_append(),
            name=f"append_{name}{r}",
        )
        place = Map(
            numbers["request"], numbers["last"], fn=address(self.most), name=f"place_{name}{r}"
        )
        RandomOffChipStore(place, filled, self.kept[name], name=f"keep_{name}{r}")
        return Flatten(Reassemble(filled, rest, which, rank=0, name=f"whole_{name}{r}"), lo=0, hi=1)

    def online(
        self, scores: Operator, v: Operator, numbers: Numbers, r: int
    ) -> tuple[Stream, Stream]:
        """Sums of exp(s - maximum) V and of exp(s - maximum) over a request's tiles: with m the
        maximum so far, sum = sum exp(m before - m) + exp(s - m) V.
        """
        begins = numbers["begins"]
        which = FlatMap(numbers["tiles"], fn=last_tile_filter(), rank=1, name=f"ends{r}")
        m = Scan(Map(scores, fn=row_max(), name=f"top{r}"), fn=maximum(), rank=1, name=f"tops{r}")
        p = Map(Map(scores, m, fn=sub(), name=f"shifted{r}"), fn=exp(), name=f"exp{r}")
        ended, before = Partition(m, which, rank=0, outputs=2, name=f"before{r}")
        begun, now = Partition(m, begins, rank=0, outputs=2, name=f"now{r}")
        Sink(ended, name=f"ended{r}")
        Sink(begun, name=f"begun{r}")
        less = Map(Map(before, now, fn=sub(), name=f"grown{r}"), fn=exp(), name=f"less{r}")

        def summed(x: Stream, name: str) -> Stream:
            """The sum over a request's tiles: its first one as it is, each later one added to the
            sum before, rescaled, which comes back in a loop.
            """
            start, more = Partition(x, begins, rank=0, outputs=2, name=f"{name}_parts{r}")
            so_far = Loop(more.type, graph=self.graph, name=f"{name}_so_far{r}")
            added = Map(
                Map(so_far, less, fn=mul(), name=f"{name}_rescaled{r}"),
                more,
                fn=add(),
                name=f"{name}_added{r}",
            )
            sums = Reassemble(start, added, begins, rank=0, name=f"{name}_sums{r}").stream
            # one sum for each tile: none waits for the next, which is made of it
            sums = Flatten(sums.assert_shape((*begins.shape, 1)), lo=0, hi=1)
            done, back = Partition(sums, which, rank=0, outputs=2, name=f"{name}_done{r}")
            so_far.close(Fifo(back, depth=1))  # room for a whole tile in the loop
            return done

        product = Map(cast(p, self.dtype), v, fn=matmul(), name=f"product{r}")
        weighted = summed(product.stream, "weighted")
        return weighted, summed(Map(p, fn=row_sum(), name=f"row_total{r}").stream, "total")

    @staticmethod
    def less_maximum(scores: Operator, r: int) -> Map:
        """The scores less the maximum of their request, kept on chip until that is known."""
        top = Map(
            Accum(scores, fn=maximum(), rank=1, name=f"tops{r}"), fn=row_max(), name=f"top{r}"
        )
        held = Streamify(Bufferize(scores, rank=1, name=f"held{r}"), name=f"held_scores{r}")
        return Map(
            held,
            Expand(Promote(top, level=0), ref=held, rank=1, name=f"every_top{r}"),
            fn=sub(),
            name=f"shifted{r}",
        )

    def region(self, numbers: Numbers, r: int) -> Operator | None:
        """Attention of the requests of one region; returns a token for each cache that has been
        used up.
        """
        addresses = FlatMap(
            numbers["request"],
            numbers["tiles"],
            fn=address_range(self.most),
            rank=1,
            name=f"addresses{r}",
        )
        # V is not read before the maximum over K is known: so long its addresses wait
        where = {
            "k": addresses,
            "v": Fifo(addresses, depth=self.most) if self.softmax == "stable" else addresses,
        }
        raw = {
            n: RandomOffChipLoad(
                where[n], self.cache[n], tile=(self.kv_tile, self.head_dim), name=f"cache_{n}{r}"
            )
            for n in "kv"
        }
        k, v = (self.updated(n, raw[n], numbers, r) for n in "kv")
        qs = Expand(Promote(numbers["q"], level=0), ref=k, rank=1, name=f"q{r}")
        product = Map(qs, k, fn=matmul(transposed=True), name=f"scores{r}")
        scores = Map(product, fn=scale(self.head_dim**-0.5), name=f"scaled{r}")
        if self.softmax == "stable":
            scores = self.less_maximum(scores, r)
        if self.softmax == "online":
            weighted, total = self.online(scores, v, numbers, r)
        else:
            p = Map(scores, fn=exp(), name=f"exp{r}")
            total = Map(
                Accum(p, fn=add(), rank=1, name=f"totals{r}"), fn=row_sum(), name=f"total{r}"
            )
            weighted = Accum(cast(p, self.dtype), v, fn=matmul(), rank=1, name=f"weighted{r}")
        out = Map(weighted, total, fn=div(), name=f"out{r}")
        RandomOffChipStore(numbers["request"], cast(out, self.dtype), self.y, name=f"y{r}")
        return (
            Accum(product, fn=all_read(), rank=1, name=f"read{r}")
            if self.parallel == "dynamic"
            else None
        )

    def arrive(self, places: Sequence[int], suffix: str = "") -> Numbers:
        """Facts about each request, in the order of ``places``: [n] streams."""
        n = len(places)
        rows = {"q": (self.q, self.heads), "new_k": (self.new["k"], 1), "new_v": (self.new["v"], 1)}
        out = {
            name: Flatten(
                LinearOffChipLoad(
                    t,
                    tile=(height, self.head_dim),
                    order=[(i * height, 0) for i in places],
                    name=f"{name}{suffix}",
                ),
                lo=0,
                hi=1,
            ).stream
            for name, (t, height) in rows.items()
        }
        if self.softmax == "online":
            out["begins"] = Source(
                graph=self.graph,
                shape=(n, self.graph.ragged(f"tiles_of_a_request{suffix}", most=self.most)),
                selector=2,
                name=f"begins{suffix}",
            ).stream
        return out | {
            name: Source(graph=self.graph, shape=(n,), scalar=32, name=f"{name}{suffix}").stream
            for name in NUMBERS
        }


def program(
    requests=16,
    regions=4,
    heads=4,
    head_dim=16,
    kv_tile=16,
    most=32,
    parallel="dynamic",
    softmax="published",
    skew=1.0,
    dtype="bf16",
):
    if parallel not in PARALLEL or softmax not in SOFTMAX:
        raise ProgramError(
            f"parallel must be one of {', '.join(PARALLEL)} and softmax one of "
            f"{', '.join(SOFTMAX)}, not {parallel!r} and {softmax!r}"
        )
    if regions < 1 or requests % regions:
        raise ProgramError(f"requests ({requests}) are not a multiple of the regions ({regions})")
    g = Graph("attention")
    cache_rows = requests * most * kv_tile
    parts = _Attention(
        graph=g,
        q=g.input("q", (requests * heads, head_dim), dtype),
        y=g.output("y", (requests * heads, head_dim), dtype),
        new={n: g.input(f"new_{n}", (requests, head_dim), dtype) for n in "kv"},
        cache={n: g.input(f"cache_{n}", (cache_rows, head_dim), dtype) for n in "kv"},
        kept={n: g.output(f"kept_{n}", (cache_rows, head_dim), dtype) for n in "kv"},
        heads=heads,
        head_dim=head_dim,
        kv_tile=kv_tile,
        most=most,
        parallel=parallel,
        softmax=softmax,
        dtype=dtype,
    )
    if parallel == "coarse":
        for r in range(regions):
            share = requests // regions
            parts.region(parts.arrive(range(r * share, (r + 1) * share), f"_{r}"), r)
        return g

    if parallel == "interleaved":
        to = Source(graph=g, shape=(requests,), selector=regions, name="to").stream
    else:
        to, close = deal(g, requests, regions)
    # room for a whole request in front of each region: one that waits there does not hold up those
    # of the others
    dealt = {
        name: [
            Fifo(d, depth=2).stream
            for d in Partition(s, to, rank=s.rank, outputs=regions, name=f"deal_{name}")
        ]
        for name, s in parts.arrive(range(requests)).items()
    }
    tokens = [parts.region({name: d[r] for name, d in dealt.items()}, r) for r in range(regions)]
    if parallel == "dynamic":
        close(tokens)
    return g


def lengths(seed, requests, kv_tile, most, skew):
    """Rows in the cache of each request before the new one."""
    return kv_lengths(seed, requests, most * kv_tile, skew)


def streams(
    seed,
    requests=16,
    regions=4,
    kv_tile=16,
    most=32,
    parallel="dynamic",
    softmax="published",
    skew=1.0,
    **_,
):
    rows = lengths(seed, requests, kv_tile, most, skew)
    numbers = {
        "request": np.arange(requests),
        "tiles": rows // kv_tile + 1,
        "valid": rows % kv_tile,
        "last": rows // kv_tile,
    }
    if softmax == "online":  # which tile is the first of its request
        numbers["begins"] = [[0] + [1] * n for n in rows // kv_tile]
    if parallel == "coarse":
        share = requests // regions
        return {
            f"{n}_{r}": v[r * share : (r + 1) * share]
            for n, v in numbers.items()
            for r in range(regions)
        }
    if parallel == "interleaved":
        return numbers | {"to": np.arange(requests) % regions}
    return numbers | turns(requests, regions)


def inputs(seed, requests=16, heads=4, head_dim=16, kv_tile=16, most=32, skew=1.0, **_):
    rng = np.random.default_rng(seed)
    rows = lengths(seed, requests, kv_tile, most, skew)
    out = {"q": rng.standard_normal((requests * heads, head_dim))}
    for n in "kv":
        cache = np.zeros((requests, most * kv_tile, head_dim))
        for i, length in enumerate(rows):
            cache[i, :length] = rng.standard_normal((length, head_dim))
        out |= {
            f"cache_{n}": cache.reshape(-1, head_dim),
            f"new_{n}": rng.standard_normal((requests, head_dim)),
        }
    return out


def reference(q, new_k, new_v, cache_k, cache_v, params, **numbers):
    """Attention in float64, and the tiles of the cache that were written."""
    (requests, dim_), kv_tile = new_k.shape, params["kv_tile"]
    order = np.concatenate(
        [np.asarray(v) for n, v in sorted(numbers.items()) if n.startswith("request")]
    )
    tiles, valid = (
        np.concatenate([np.asarray(v) for n, v in sorted(numbers.items()) if n.startswith(name)])
        for name in ("tiles", "valid")
    )
    heads = len(q) // requests
    per = len(cache_k) // requests
    y = np.zeros_like(q)
    kept = {n: np.zeros_like(cache_k) for n in "kv"}
    for i, n, off in zip(order, tiles, valid, strict=True):
        rows = (n - 1) * kv_tile + off
        k, v = (
            np.concatenate([c.reshape(requests, per, dim_)[i, :rows], new[i : i + 1]])
            for c, new in ((cache_k, new_k), (cache_v, new_v))
        )
        s = q[i * heads : (i + 1) * heads] @ k.T * dim_**-0.5
        p = np.exp(s - s.max(1, keepdims=True))
        y[i * heads : (i + 1) * heads] = p @ v / p.sum(1, keepdims=True)
        first = i * per + (n - 1) * kv_tile
        for name, a in (("k", k), ("v", v)):
            kept[name][first : first + off + 1] = a[rows - off :]
    return {"y": y, "kept_k": kept["k"], "kept_v": kept["v"]}
