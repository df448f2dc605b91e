"""Attention of the paper's figures 14, 15 and 21, operator for operator as its experiments build it
for the published simulator: one KV head, one new token per request.

``parallel``: "coarse" gives each region as many consecutive requests (``share``: groups of so many,
to one region after the other, which may leave some without); "interleaved" deals them in turn;
"dynamic" gives the next request to the region that has read its keys first. ``trace``: an .npy file
with the lengths of the requests' caches (more requests than asked for: the first ones;
``a.npy+b.npy``: those of both); without one they are drawn. The defaults are Qwen3-30B-A3B with a
batch of 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ..frontend import (
    Accum,
    Broadcast,
    EagerMerge,
    Expand,
    FlatMap,
    Flatten,
    Graph,
    LinearOffChipLoad,
    Loop,
    Map,
    Partition,
    RandomOffChipLoad,
    RandomOffChipStore,
    Reassemble,
    SelectorType,
    Sink,
    Source,
    StreamType,
    add,
    address,
    address_range,
    all_read,
    cast,
    dim,
    div,
    exp,
    last_tile_filter,
    matmul,
    row_append,
    row_offset,
    row_sum,
)
from ..frontend.graph import Stream, TensorRef
from ..machine.errors import ProgramError
from ..system.reading import read_integers
from .traffic import kv_lengths

NUMBERS = (
    "request",
    "tiles",
    "valid",
)  # of each request: its index, KV tiles, valid rows of the last one


Given = dict[str, Stream]
"""Rows and numbers of requests, by name."""


@dataclass(frozen=True)
class Attention:
    """The parts of the program."""

    graph: Graph
    # y, cache: results, and the caches of keys and values
    y: TensorRef
    cache: dict[str, TensorRef]
    # tiles of a request's cache: the most that it reads, and one behind them, for there the
    # published experiments store the last tile again (a layer's own with its number ``last``)
    room: int
    heights: dict[str, int]  # rows of each request, by what they are
    head_dim: int
    kv_tile: int
    dtype: str

    def path(
        self, n: str, r: int, given: Given, by_head: Given | None
    ) -> tuple[Flatten, RandomOffChipLoad]:
        """Keys or values of the requests, the new row in the last tile, which is also stored: [n,
        tiles], and the tiles as they are loaded, with ``by_head`` in the shape of its numbers.
        """
        numbers = by_head or given
        addresses = FlatMap(
            numbers["request"],
            numbers["tiles"],
            fn=address_range(self.room),
            rank=1,
            name=f"addresses_{n}{r}",
        )
        loaded = RandomOffChipLoad(
            addresses, self.cache[n], tile=(self.kv_tile, self.head_dim), name=f"cache_{n}{r}"
        )
        which = FlatMap(numbers["tiles"], fn=last_tile_filter(), rank=1, name=f"which_{n}{r}")
        tiles = loaded
        if by_head:
            tiles, which = (Flatten(x, lo=1, hi=2, name=f"{x.name}_all") for x in (loaded, which))
        last, rest = Partition(tiles, which, rank=0, outputs=2, name=f"split_{n}{r}")
        row = Flatten(given[f"new_{n}"], lo=0, hi=1, name=f"row_{n}{r}")
        filled = Map(
            Map(last, given["valid"], fn=row_offset(), name=f"cut_{n}{r}"),
            row,
            fn=row_append(),
            name=f"append_{n}{r}",
        )
        whole = Flatten(
            Reassemble(filled, rest, which, rank=0, name=f"whole_{n}{r}"),
            lo=0,
            hi=1,
            name=f"{n}{r}",
        )
        at = given["last"] if by_head else given["tiles"]
        place = Map(given["request"], at, fn=address(self.room), name=f"place_{n}{r}")
        RandomOffChipStore(
            place, Broadcast(filled, n=1, name=f"back_{n}{r}"), self.cache[n], name=f"keep_{n}{r}"
        )
        return whole, loaded

    def region(self, r: int, given: Given) -> RandomOffChipLoad:
        """Attention of one region's requests, stored; returns the keys as they are loaded."""
        out, loaded = self.attend(r, given)
        RandomOffChipStore(given["request"], out, self.y, name=f"y{r}")
        return loaded

    def attend(
        self, r: int, given: Given, by_head: Given | None = None
    ) -> tuple[Stream, RandomOffChipLoad]:
        """Attention of one region's requests: the results, and the keys as they are loaded.

        ``by_head``: the numbers as [n, heads], those of ``given`` being flat.
        """
        (k, loaded), (v, _) = (self.path(n, r, given, by_head) for n in "kv")
        q = Expand(given["q"], ref=k, rank=1, name=f"every_q{r}")
        p = Map(Map(q, k, fn=matmul(transposed=True), name=f"scores{r}"), fn=exp(), name=f"exp{r}")
        weighted = Accum(cast(p, self.dtype), v, fn=matmul(), rank=1, name=f"weighted{r}")
        total = Map(Accum(p, fn=add(), rank=1, name=f"totals{r}"), fn=row_sum(), name=f"total{r}")
        out = Map(weighted, total, fn=div(), write_back=True, name=f"out{r}")
        return cast(out, self.dtype), loaded

    def load(self, name: str, n: int, suffix: str = "") -> Stream:
        t = self.graph.input(f"{name}{suffix}", (n * self.heights[name], self.head_dim), self.dtype)
        return LinearOffChipLoad(
            t,
            tile=(self.heights[name], self.head_dim),
            shape=(n, 1),
            stride=(1, 1),
            name=f"load_{name}{suffix}",
        ).stream

    def numbers(self, name: str, n: int, suffix: str = "") -> Stream:
        return Source(graph=self.graph, shape=(1, n), scalar=32, name=f"{name}{suffix}").stream

    def selectors(self, shape: tuple[int, ...], targets: int, name: str) -> Stream:
        return Source(graph=self.graph, shape=shape, selector=targets, name=name).stream

    def coarse(self, shares: Sequence[Sequence[int]]) -> None:
        """Each region has requests of its own."""
        given: list[Given] = [{} for _ in shares]
        for name in (*self.heights, *NUMBERS):
            for r, mine in enumerate(shares):
                given[r][name] = (
                    Flatten(self.load(name, len(mine), f"_{r}"), lo=1, hi=2).stream
                    if name in self.heights
                    else Flatten(self.numbers(name, len(mine), f"_{r}"), lo=0, hi=1).stream
                )
        for r, each in enumerate(given):
            self.region(r, each)

    def all_requests(self, requests: int) -> Given:
        """Rows and numbers of all requests."""
        rows = {name: self.load(name, requests) for name in self.heights}
        return rows | {name: self.numbers(name, requests) for name in NUMBERS}

    def deal(self, streams: Given, to: Stream, regions: int) -> list[Given]:
        """Requests given to each region, where a stream of selectors says whose each request is."""
        dealt = {
            name: Partition(
                s, to, rank=int(name in self.heights), outputs=regions, name=f"deal_{name}"
            )
            for name, s in streams.items()
        }
        return [{name: d[r] for name, d in dealt.items()} for r in range(regions)]

    def interleaved(self, requests: int, regions: int) -> None:
        """Regions get requests in turn."""
        dealt = {}
        for name, s in self.all_requests(requests).items():
            rank = int(name in self.heights)
            dealt[name] = Partition(
                Flatten(s, lo=rank, hi=rank + 1, name=f"all_{name}"),
                self.selectors((requests,), regions, f"to_{name}"),
                rank=rank,
                outputs=regions,
                in_turn=True,
                name=f"deal_{name}",
            )
        for r in range(regions):
            self.region(r, {name: d[r] for name, d in dealt.items()})

    def dynamic(self, requests: int, regions: int) -> None:
        """The next request goes to the region that has read its keys first."""
        streams = self.all_requests(requests)
        first = Flatten(self.selectors((1, regions), regions, "first"), lo=0, hi=1)
        again = Loop(
            StreamType(SelectorType(regions), (dim(requests - regions),)),
            graph=self.graph,
            name="again",
        )
        turn = self.selectors((1, requests), 2, "turn")
        chosen = Reassemble(first, again, turn, rank=0, name="dispatch").stream
        to = Flatten(chosen.assert_shape((1, requests, 1)), lo=0, hi=1, name="to").stream
        read = [self.region(r, given) for r, given in enumerate(self.deal(streams, to, regions))]
        ready = EagerMerge(
            [Accum(k, fn=all_read(), rank=1, name=f"read{r}") for r, k in enumerate(read)],
            name="ready",
        )
        Sink(ready[0], name="tokens")
        rest, back = Partition(
            ready[1],
            Flatten(self.selectors((1, requests), 2, "feed"), lo=0, hi=1),
            rank=0,
            outputs=2,
            name="feedback",
        )
        Sink(rest, name="idle")
        again.close(back)


def program(
    requests=64,
    regions=4,
    heads=8,
    head_dim=64,
    kv_tile=32,
    most=202,
    parallel="dynamic",
    share=0,
    skew=1.0,
    trace="",
    dtype="bf16",
):
    if share and (parallel != "coarse" or share < 0):
        raise ProgramError(
            f"share is {share} with parallel={parallel!r}",
            rule="a positive number of consecutive requests, for parallel=coarse",
            remedy="leave it out",
        )
    if (
        parallel not in ("coarse", "interleaved", "dynamic")
        or (requests % regions and not share)
        or (parallel == "dynamic" and requests == regions)
    ):
        raise ProgramError(
            f"parallel must be coarse, interleaved or dynamic, not {parallel!r}, and the "
            f"requests ({requests}) a multiple of the regions ({regions}), dynamic: a larger one"
        )
    g = Graph("published_attention")
    room = most + 1
    parts = Attention(
        graph=g,
        y=g.output("y", (requests * heads, head_dim), dtype),
        cache={
            n: g.input(f"cache_{n}", (requests * room * kv_tile, head_dim), dtype) for n in "kv"
        },
        room=room,
        heights={"q": heads, "new_k": 1, "new_v": 1},
        head_dim=head_dim,
        kv_tile=kv_tile,
        dtype=dtype,
    )
    if parallel == "coarse":
        parts.coarse(consecutive(requests, regions, share))
    elif parallel == "interleaved":
        parts.interleaved(requests, regions)
    else:
        parts.dynamic(requests, regions)
    return g


def consecutive(requests, regions, share):
    """The requests of each region that has any: groups of ``share`` (0: equal shares), to one
    region after the other.
    """
    size = share or requests // regions
    groups = [list(range(i, min(i + size, requests))) for i in range(0, requests, size)]
    return [list(chain(*groups[r::regions])) for r in range(min(regions, len(groups)))]


def lengths(seed, requests, kv_tile, most, skew, trace):
    """Rows in the cache of each request before the new one."""
    if not trace:
        return kv_lengths(seed, requests, most * kv_tile, skew)
    parts = [read_integers(part) for part in trace.split("+")]
    rows = np.concatenate(parts) if all(p.ndim == 1 for p in parts) else parts[0]
    if not rows.size:
        raise ProgramError(f"trace {trace} has no lengths")
    if (
        rows.ndim != 1
        or len(rows) < requests
        or rows[:requests].min() < 0
        or rows[:requests].max() >= most * kv_tile
    ):
        raise ProgramError(
            f"trace {trace} has {list(rows.shape)} lengths of up to {rows.max()}",
            rule=f"{requests} lengths of less than {most} tiles of {kv_tile} rows",
            remedy="set requests and most as the trace needs",
        )
    return rows[:requests]


def streams(
    seed,
    requests=64,
    regions=4,
    kv_tile=32,
    most=202,
    parallel="dynamic",
    share=0,
    skew=1.0,
    trace="",
    **_,
):
    rows = lengths(seed, requests, kv_tile, most, skew, trace)
    numbers = {
        "request": np.arange(requests),
        "tiles": (rows + kv_tile) // kv_tile,
        "valid": rows % kv_tile,
    }
    if parallel == "coarse":
        return {
            f"{n}_{r}": [v[mine].tolist()]
            for n, v in numbers.items()
            for r, mine in enumerate(consecutive(requests, regions, share))
        }
    if parallel == "interleaved":
        return {n: [v.tolist()] for n, v in numbers.items()} | {
            f"to_{n}": [i % regions for i in range(requests)]
            for n in ("q", "new_k", "new_v", *NUMBERS)
        }
    more = requests - regions
    return {n: [v.tolist()] for n, v in numbers.items()} | {
        "first": [list(range(regions))],
        "turn": [[0] * regions + [1] * more],
        "feed": [[1] * more + [0] * regions],
    }
