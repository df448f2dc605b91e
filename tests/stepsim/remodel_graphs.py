"""The published graphs of :mod:`remodel`, built as the published scripts build them: no program, no
lowering.
"""

from __future__ import annotations

from remodel import (
    Sim,
    Token,
    address,
    append,
    cache_addresses,
    chunks,
    consume,
    each,
    eager_merge,
    expand,
    expert_addresses,
    flatten,
    function,
    in_turn,
    last_filter,
    listed,
    load,
    load_by_reference,
    matmul,
    matmul_t,
    partition,
    reassemble,
    reduce,
    repeat,
    restop,
    row_sum,
    rows_of,
    set_offset,
    store,
    store_at,
)

SILU = 8
EXP = 4
AFTER_STORE = 2
AFTER_ACKNOWLEDGED = 3
"""Cycles from the last store's end to that of the memory."""


def selectors(sim: Sim, targets: list[set[int]], inner: int = 1):
    """A SelectGen of targets [1, n / inner, inner]."""
    n = len(targets)
    stops = [0] * n
    if inner > 1:
        stops[inner - 1 :: inner] = [1] * (n // inner)
    stops[-1] += 1
    tokens = [Token(s, value=x) for s, x in zip(stops, targets, strict=True)]
    return sim.start(listed, 1, tokens)


class Experts:
    """A mixture of experts; ``regions`` 0: each expert has its own units."""

    def __init__(self, sim: Sim, routed, dim, inter, step, experts, tile_rows, regions):
        self.sim = sim
        self.routed = routed
        self.dim = dim
        self.step = step
        self.steps = inter // step
        self.experts = experts
        self.tile_rows = tile_rows
        self.regions = regions
        self.reader = 0

    def next_port(self):
        self.reader += 1
        return self.sim.port(self.reader)

    def run(self) -> int:
        sim = self.sim
        tokens = len(self.routed)
        rows = sim.start(load, self.next_port(), 1, self.dim, (tokens, 1))
        rows = sim.start(restop, rows, flatten(0, 1))
        chosen = selectors(sim, [set(x) for x in self.routed])
        routed = sim.start(partition, rows, chosen, outs=self.experts)
        down = self.layer([self.pack(r) for r in routed])
        done = [sim.start(rows_of, d) for d in down]
        k = len(self.routed[0])
        shares = sim.start(load, self.next_port(), 1, 1, (tokens, k))
        one = selectors(sim, [{e} for x in self.routed for e in x], inner=k)
        parts = sim.start(partition, shares, one, outs=self.experts)
        weighted = [sim.start(function, [d, p], each(1)) for d, p in zip(done, parts, strict=True)]
        back = selectors(sim, [set(x) for x in self.routed])
        gathered = sim.start(reassemble, weighted, back)
        total = sim.start(reduce, [gathered], each(1))
        lines = sim.start(chunks, total, 1, None, False)
        sim.start(store, sim.port(1 << 30), lines, outs=0)
        last = sim.operators[-1]
        return max(sim.run(), last.t + AFTER_STORE)

    def pack(self, rows):
        sim = self.sim
        if self.tile_rows:
            pad = (1, self.dim)
            split = sim.start(chunks, rows, self.tile_rows, pad, True)
            merged = sim.start(restop, split, flatten(1, 2))
        else:
            split = sim.start(chunks, rows, 1, None, True)
            merged = sim.start(restop, split, flatten(0, 1))
        return sim.start(reduce, [merged], None, join=True)

    def layer(self, packed):
        """The experts' results, each expert's with its own or its region's weights."""
        sim = self.sim
        merged = []
        if self.regions:
            per = self.experts // self.regions
            groups = [packed[i * per : (i + 1) * per] for i in range(self.regions)]
            merged = [sim.start(eager_merge, g, outs=2) for g in groups]
            tiles = [m[0] for m in merged]
            which = [sim.copies(m[1], 2) for m in merged]
            starts = [sim.copies(sim.start(expert_addresses, w[0], self.steps), 3) for w in which]
        else:
            copies = [sim.copies(p, 4) for p in packed]
            tiles = [c[0] for c in copies]
            starts = [c[1:] for c in copies]
        again = [sim.copies(sim.start(repeat, t, self.steps), 2) for t in tiles]
        up = [
            sim.start(function, [a[0], w], matmul)
            for a, w in zip(again, self.weights(starts, 0, self.dim, self.step), strict=True)
        ]
        gate = [
            sim.start(function, [a[1], w], matmul)
            for a, w in zip(again, self.weights(starts, 1, self.dim, self.step), strict=True)
        ]
        gate = [sim.start(function, [g], each(SILU)) for g in gate]
        hidden = [sim.start(function, [u, g], each(1)) for u, g in zip(up, gate, strict=True)]
        down = [
            sim.start(reduce, [h, w], matmul)
            for h, w in zip(hidden, self.weights(starts, 2, self.step, self.dim), strict=True)
        ]
        if not self.regions:
            return down
        return [part for d, w in zip(down, which, strict=True) for part in self.parted(d, w[1])]

    def parted(self, down, which):
        """A region's results by expert."""
        per = self.experts // self.regions
        found = self.sim.start(partition, down, which, outs=per)
        return found if per > 1 else [found]

    def weights(self, starts, i, rows, cols):
        """The tiles of one matrix for each expert or region."""
        out = []
        for s in starts:
            shape = () if self.regions else (self.steps, 1)
            tiles = self.sim.start(load_by_reference, self.next_port(), rows, cols, shape, s[i])
            out.append(self.sim.start(restop, tiles, flatten(0, 1)))
        return out


class Attention:
    """One KV head, requests dealt to the regions in turn."""

    def __init__(self, sim: Sim, lengths, regions, heads, head_dim, kv_tile):
        self.sim = sim
        self.lengths = lengths
        self.regions = regions
        self.heads = heads
        self.head_dim = head_dim
        self.kv_tile = kv_tile
        self.reader = 0
        self.writer = 1 << 30

    def next_port(self):
        self.reader += 1
        return self.sim.port(self.reader)

    def next_store(self):
        self.writer += 1
        return self.sim.port(self.writer)

    def run(self) -> int:
        sim = self.sim
        n = len(self.lengths)
        dealt = {}
        for name, rows in (("q", self.heads), ("k", 1), ("v", 1)):
            data = sim.start(load, self.next_port(), rows, self.head_dim, (n, 1))
            data = sim.start(restop, data, flatten(1, 2))
            dealt[name] = sim.start(in_turn, data, 1, outs=self.regions)
        numbers = {
            "request": range(n),
            "tiles": [(x + self.kv_tile) // self.kv_tile for x in self.lengths],
            "valid": [x % self.kv_tile for x in self.lengths],
        }
        for name, values in numbers.items():
            tokens = [Token(int(i == n - 1), value=int(x)) for i, x in enumerate(values)]
            data = sim.start(restop, sim.start(listed, 0, tokens), flatten(0, 1))
            dealt[name] = sim.start(in_turn, data, 0, outs=self.regions)
        stores = []
        for r in range(self.regions):
            stores += self.region({name: d[r] for name, d in dealt.items()})
        return max(sim.run(), *(op.t + AFTER_ACKNOWLEDGED for op in stores))

    def region(self, given):
        sim = self.sim
        request = sim.copies(given["request"], 5)
        tiles = sim.copies(given["tiles"], 6)
        valid = sim.copies(given["valid"], 2)
        paths = [
            self.path(given[name], request[2 * i :], tiles[3 * i :], valid[i])
            for i, name in enumerate("kv")
        ]
        (k, k_store), (v, v_store) = paths
        k = sim.copies(k, 2)
        q = sim.start(expand, given["q"], k[0])
        scores = sim.start(function, [q, k[1]], matmul_t)
        p = sim.copies(sim.start(function, [scores], each(EXP)), 2)
        weighted = sim.start(reduce, [p[0], v], matmul)
        total = sim.start(function, [sim.start(reduce, [p[1]], each(1))], row_sum)
        out = sim.start(function, [weighted, total], each(1), back=True)
        done = sim.start(store_at, self.next_store(), request[4], out)
        y_store = sim.operators[-1]
        sim.start(consume, done, outs=0)
        return [k_store, v_store, y_store]

    def path(self, row, request, tiles, valid):
        """Keys or values with the new row in the last tile, which is stored, too."""
        sim = self.sim
        addresses = sim.start(cache_addresses, request[0], tiles[0])
        loaded = sim.start(
            load_by_reference, self.next_port(), self.kv_tile, self.head_dim, (), addresses
        )
        which = sim.copies(sim.start(last_filter, tiles[1]), 2)
        last, rest = sim.start(partition, loaded, which[0], outs=2)
        flat = sim.start(restop, row, flatten(0, 1))
        cut = sim.start(function, [last, valid], set_offset)
        filled = sim.copies(sim.start(function, [cut, flat], append), 2)
        whole = sim.start(reassemble, [filled[0], rest], which[1])
        whole = sim.start(restop, whole, flatten(0, 1))
        place = sim.start(function, [request[1], tiles[2]], address)
        back = sim.start(restop, filled[1], lambda s: s)  # a Broadcast to one
        done = sim.start(store_at, self.next_store(), place, back)
        kept = sim.operators[-1]
        sim.start(consume, done, outs=0)
        return whole, kept
