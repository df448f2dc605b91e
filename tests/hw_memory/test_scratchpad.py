# amaranth: UnusedElaboratable=no
"""The scratchpad in the contract's cycles: buffers of many pages, shared, repeated, freed, and
waiting for pages.
"""

from random import Random

import numpy as np
import pytest
from amaranth.sim import Simulator
from penstock.hw.beat import Payloads
from penstock.hw.memory.scratchpad import Scratchpad
from penstock.machine.beat import BufferRef, Selector, Tile, tile_bits, tile_of
from penstock.machine.builder import Builder
from penstock.machine.faults import Fault
from penstock.machine.kinds import scratchpad as kinds
from penstock.machine.kinds.copies import Broadcast
from penstock.machine.kinds.ends import Sink
from penstock.machine.kinds.routing import EagerMerge
from penstock.testing.bench import Bench, compare, faults, small
from penstock.testing.patterns import releases

T = 2
TILE = Tile(T, "bf16")
CONFIG = small(T, "bf16", load_lines=4)


def params(pages, frames, ranks, readers, limit=None):
    return {
        "pages": pages,
        "frames": frames,
        "writers": [{"rank": b} for b in ranks],
        "limit": limit or [pages] * len(ranks),
        "readers": [{"rank": b, "repeat_dim": n is not None} for b, n in readers],
        "repeat": [n or 0 for _, n in readers],
    }


class Pad(Builder):
    """A scratchpad between sources and sinks.

    ``routes[w]``: the readers that get each of writer w's references (a reader named twice gets it
    twice); a reader with several has them merged as they come. ``slow``: cycles between the
    references of a writer, copies of which a sink takes.
    """

    def __init__(self, pages, frames, ranks, readers, limit=None, routes=((0,),), slow=None):
        super().__init__("pad", T)
        ref = BufferRef(pages)
        self.pad = self.unit(kinds.Scratchpad(**params(pages, frames, ranks, readers, limit)))
        self.given = [self.source((self.pad, w), TILE) for w in range(len(ranks))]
        self.slow = {}
        into = [[] for _ in readers]
        for w, targets in enumerate(routes):
            ends = [(self.pad, w)]
            if slow:
                u = self.unit(Broadcast(n=2, scratchpad=self.pad))
                self.join(ends[0], u, ref)
                self.slow[self.unit(Sink(scratchpad=self.pad))] = slow
                self.join((u, 1), max(self.slow), ref)
                ends = [(u, 0)]
            if len(targets) > 1:
                u = self.unit(Broadcast(n=len(targets), scratchpad=self.pad))
                self.join(ends[0], u, ref)
                ends = [(u, k) for k in range(len(targets))]
            for r, end in zip(targets, ends, strict=True):
                into[r].append(end)
        self.out = []
        for r, ends in enumerate(into):
            end = ends[0]
            if len(ends) > 1:
                u = self.unit(EagerMerge(n=len(ends), rank=0))
                for k, x in enumerate(ends):
                    self.join(x, (u, k), ref)
                self.sink((u, 1), Selector(len(ends)))
                end = u
            self.join(end, (self.pad, len(ranks) + r), ref)
            self.out.append(self.sink((self.pad, len(ranks) + r), TILE))

    def run(self, tiles, *, pattern="always", late=None, resets=()):
        """The beats that come out of each reader: (cycle, value, stop), no value at Done; the peak
        of pages. ``late``: cycle before which sink 0 takes nothing.
        """
        graph = self.graph()
        streams = dict(zip(self.given, tiles, strict=True))
        sources = {u: releases(len(s), pattern, u).tolist() for u, s in streams.items()}
        sinks = {
            u.id: releases(200, pattern, u.id).tolist()
            for u in graph.units
            if u.kind.name == "sink"
        }
        sinks |= {u: [every * k for k in range(200)] for u, every in self.slow.items()}
        if late:
            sinks[self.out[0]] = [late] * 20
        got = compare(Bench(graph, CONFIG), streams, sources, sinks, resets=resets)
        assert got.error == 0
        outs = []
        for u in self.out:
            trace = got.channels[graph.inputs(u)[0].id]
            seen = [(tile_of(TILE, b)[0][0, 0] if d else None, s) for b, s, d in trace.beats]
            outs.append([(c, *x) for c, x in zip(trace.accept, seen, strict=True)])
        return outs, got.peak[self.pad]


def buffers(sizes, *, rank, first=1, above=0):
    """Buffers of ``sizes`` tiles at stop level ``rank``, numbered tiles, then Done."""
    out = []
    value = first
    for j, size in enumerate(sizes):
        for i in range(size):
            end = rank + (above if j == len(sizes) - 1 else 0)
            bits = tile_bits(TILE, np.full((T, T), value), T, T)
            out.append((bits, end if i == size - 1 else min(i % 2, rank - 1)))
            value += 1
    return [*out, (0, 15)]


def values(beats):
    return [v for _, v, _ in beats if v is not None]


def test_full_rate_without_bubbles():
    """Buffers of 1 to 9 tiles over chained pages: one tile in and one out a cycle."""
    sizes = [3, 1, 4, 9, 5, 2, 2, 8]
    pad = Pad(32, 2, [1], [(1, None)])
    (tiles,), _ = pad.run([buffers(sizes, rank=1, above=1)])
    assert values(tiles) == list(range(1, sum(sizes) + 1))
    # The reader waits for the largest buffers to be complete; the last two follow each other
    # without a gap.
    span = [cycle for cycle, *_ in tiles[-11:-1]]
    assert span == list(range(span[0], span[0] + 10))


def test_repeats_add_a_dimension():
    (tiles,), _ = Pad(4, 2, [2], [(2, 3)]).run([buffers([2, 3], rank=2, above=1)])
    stops = [s for _, v, s in tiles if v is not None]
    assert stops == [0, 2, 0, 2, 0, 3, 0, 1, 2, 0, 1, 2, 0, 1, 4]


@pytest.mark.parametrize("pages, limit", [(4, None), (9, [2])])
def test_a_writer_waits_for_pages(pages, limit):
    """Two pages for buffers of two, or no more than two buffers: one is written while the other is
    read, and all of it comes out.
    """
    (tiles,), peak = Pad(pages, 2, [1], [(1, 2)], limit).run([buffers([4] * 6, rank=1)])
    assert peak == 4
    assert values(tiles) == [4 * b + i + 1 for b in range(6) for _ in range(2) for i in range(4)]


def test_a_writer_at_its_limit_leaves_the_pages_to_others():
    """The tiles of writer 0 do not leave for long, so it stops at two buffers; writer 1 goes on in
    the pages that are left.
    """
    pad = Pad(6, 1, [1, 1], [(1, None)] * 2, [2, 1], routes=[[0], [1]])
    (_, free), peak = pad.run([buffers([2] * 8, rank=1)] * 2, late=100)
    assert peak == 6
    assert len([1 for cycle, v, _ in free if v is not None and cycle < 60]) == 16


def test_a_writer_waits_for_its_reference_queue():
    """References, copied to a sink that takes one every eighth cycle, hold the buffers of one tile
    back, and only where a buffer ends.
    """
    pad = Pad(16, 2, [1], [(1, None)], slow=8)
    (tiles,), _ = pad.run([buffers([1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1], rank=1)])
    ones = [cycle for cycle, v, _ in tiles if v is not None]
    filled = 3  # the sink's channel takes the first ones
    assert np.diff(ones).tolist()[filled:] == [8, 8, 8, 8, 1, 1, 6, 8, 8, 8]


def test_two_readers_share_a_buffer():
    """Copies are posted as the reference leaves; the last reader frees the buffer."""
    outs, _ = Pad(5, 2, [1], [(1, 2), (1, None)], routes=[[0, 1]]).run(
        [buffers([5, 3, 4, 2], rank=1)]
    )
    assert [len(x) for x in outs] == [29, 15]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pattern", ["always", "random"])
def test_many_writers_and_readers(seed, pattern):
    r = Random(seed)
    frames = r.choice([1, 2, 4])
    tiles = [
        buffers([r.randint(1, 7) for _ in range(8)], rank=2, first=1 + 60 * w, above=0)
        for w in range(3)
    ]
    limit = [r.randint(1, 4) for _ in range(3)]
    routes = [[0], [1, 2], [2, 2, 1]]
    pad = Pad(24 // frames, frames, [2] * 3, [(2, None), (2, 2), (2, 1)], limit, routes)
    outs, _ = pad.run(tiles, pattern=pattern)
    own = [sorted(tile_of(TILE, b)[0][0, 0] for b, s in x if s != 15) for x in tiles]
    assert [sorted(values(x)) for x in outs] == [
        own[0],
        sorted((own[1] + own[2]) * 2),
        sorted(own[1] + own[2] * 2),
    ]


def test_reset_in_mid_run():
    pad = Pad(6, 2, [1], [(1, 2)])
    pad.run([buffers([3, 4, 5, 1, 2], rank=1)], pattern="random", resets=[3, 20, 33])


def test_a_second_run_after_done():
    run = buffers([3, 4], rank=1, above=1)
    (tiles,), _ = Pad(6, 2, [1], [(1, None)]).run([run * 2])
    assert [v for _, v, _ in tiles] == [*range(1, 8), None] * 2


def component(**change):
    given = params(2, 1, [1], [(1, None)]) | change
    payloads = Payloads((TILE, BufferRef(2)), (BufferRef(2), TILE))
    return Scratchpad(
        kind=kinds.Scratchpad(**given), t=T, config=CONFIG.machine, posts=1, payloads=payloads
    )


def test_a_count_that_overflows_is_told():
    dut = component()

    async def bench(ctx):
        ctx.set(dut.post0.valid, 1)
        ctx.set(dut.post0.delta, 255)
        for _ in range(4):
            assert ctx.get(dut.error) == 0
            await ctx.tick()
        assert ctx.get(dut.error) == 1 << 2

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("tiles, outside", [(1, True), (6, False)])
def test_a_listed_tile_outside_its_buffer_is_told(tiles, outside):
    """The reference is one that nobody wrote, which its count shows besides."""
    reference = BufferRef(2)
    given = params(2, 2, [1], [(1, None)])
    given["readers"][0]["listed"] = [[0, 0], [5, 1]]
    streams = [[], [(tiles << reference.page_bits, 0)]]
    error = faults(kinds.Scratchpad(**given), [TILE, reference], [reference, TILE], streams)
    assert error == 1 << Fault.REFERENCES | outside << Fault.ADDRESS


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(frames=3), "Frames must be a power of two, not 3"),
        (dict(pages=4), "must be BufferRef"),
        (dict(writers=[]), "at least one each, not 0 and 1"),
    ],
)
def test_bad_parameters_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        component(**change)
