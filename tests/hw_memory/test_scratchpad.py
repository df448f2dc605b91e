# amaranth: UnusedElaboratable=no
"""The scratchpad in the contract's cycles: buffers of many pages, shared, repeated, freed, and
waiting for pages.
"""

import warnings
from collections import deque
from random import Random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator
from penstock.hw.beat import Payloads
from penstock.hw.memory.scratchpad import Scratchpad
from penstock.machine.beat import BufferRef, Tile
from penstock.machine.config import Machine
from penstock.testing.scratchpad_model import ScratchpadModel

T = 2
TILE = Tile(T, "bf16")
CONFIG = Machine(t=T, port_lanes=1, load_lines=4, rows_per_cycle=T)


class Wires:
    """What lies around the scratchpad: producers, the channels of references with their copies,
    consumers.

    ``tiles[w]``: what writer w is given, ended by None (Done). ``routes[w]``: the readers that get
    each of its references, in order (a reader named twice gets it twice). Copies are posted in the
    cycle in which the reference leaves.
    """

    def __init__(self, tiles, routes, readers):
        self.tiles = [deque(x) for x in tiles]
        self.routes = routes
        self.waiting = [deque() for _ in range(readers)]  # (visible from, reference)

    def visible(self, cycle, moves):
        writers = [x[0] if x and moves("write", w, cycle) else () for w, x in enumerate(self.tiles)]
        readers = [
            x[0][1] if x and x[0][0] <= cycle and moves("refer", r, cycle) else ()
            for r, x in enumerate(self.waiting)
        ]
        return writers + readers

    def posts(self, references):
        """References that leave in this cycle, by writer, to posts: the n - 1 copies of each."""
        return [
            (ref[0], len(self.routes[w]) - 1)
            for w, ref in references.items()
            if ref is not None and len(self.routes[w]) > 1
        ]

    def move(self, cycle, taken, references):
        for i in taken:
            if i < len(self.tiles):
                self.tiles[i].popleft()
            else:
                self.waiting[i - len(self.tiles)].popleft()
        for w, ref in references.items():
            for r in sorted(set(self.routes[w])) if ref is None else self.routes[w]:
                self.waiting[r].append((cycle + 1, ref))


def encode_tile(beat):
    if beat is None:
        return 15 << (4 * 16 + 4)
    value, stop = beat
    return value | stop << (4 * 16 + 4) | 1 << (4 * 16 + 8)


def encode_reference(beat, page_bits):
    if beat is None:
        return 15 << (page_bits + 16)
    page, tiles, stop = beat
    return page | tiles << page_bits | stop << (page_bits + 16) | 1 << (page_bits + 20)


def compare(
    tiles,
    *,
    pages,
    frames,
    writers,
    readers,
    limit=None,
    routes=None,
    moves=lambda *_: True,
    cycles,
    reset_after=0,
):
    """Run model and RTL side by side, writers that may hold ``limit`` buffers (None: any number);
    returns the output beats [(cycle, output, beat)] and the peak of pages.
    """
    routes = routes or [[0]] * len(writers)
    limit = limit or [pages] * len(writers)
    reference = BufferRef(pages)
    nw = len(writers)
    nr = len(readers)
    params = {
        "pages": pages,
        "frames": frames,
        "writers": [{"rank": b} for b in writers],
        "limit": limit,
        "readers": [{"rank": b, "repeat_dim": n is not None} for b, n in readers],
        "repeat": [n or 0 for _, n in readers],
    }
    dut = Scratchpad(
        params=params,
        t=T,
        config=CONFIG,
        posts=nw,
        payloads=Payloads((TILE,) * nw + (reference,) * nr, (reference,) * nw + (TILE,) * nr),
    )
    m = Module()
    m.domains.sync = domain = ClockDomain()
    m.submodules.dut = dut
    log = []

    async def bench(ctx):
        for length, compared in ([(reset_after, False)] if reset_after else []) + [(cycles, True)]:
            ctx.set(domain.rst, 1)
            for w, n in enumerate(limit):
                ctx.set(dut.cfg[f"limit_{w}"], n)
            for r, (_, n) in enumerate(readers):
                ctx.set(dut.cfg[f"repeat_{r}"], n or 0)
            for _ in range(2):
                await ctx.tick()
            ctx.set(domain.rst, 0)
            model = ScratchpadModel(
                pages=pages, frames=frames, writers=writers, limit=limit, readers=readers
            )
            wires = Wires(tiles, routes, nr)
            for cycle in range(length):
                inputs = wires.visible(cycle, moves)
                ready = [moves("out", i, cycle) for i in range(nw + nr)]
                for i, beat in enumerate(inputs):
                    stream = dut.inputs[i]
                    ctx.set(stream.valid, beat != ())
                    if beat != ():
                        ctx.set(
                            stream.payload.as_value(),
                            encode_tile(beat)
                            if i < nw
                            else encode_reference(beat, reference.page_bits),
                        )
                for i, x in enumerate(ready):
                    ctx.set(dut.outputs[i].ready, x)
                # What leaves depends on registers only, so the posts of this cycle are known before
                # the step.
                leaving = {
                    w: q.beats[0] for w, q in enumerate(model.references) if q.beats and ready[w]
                }
                posts = wires.posts(leaving)
                for w in range(nw):
                    post = getattr(dut, f"post{w}")
                    mine = wires.posts({w: leaving[w]}) if w in leaving else []
                    ctx.set(post.valid, bool(mine))
                    if mine:
                        ctx.set(post.page, mine[0][0])
                        ctx.set(post.delta, mine[0][1])
                taken, out = model.step(cycle, inputs, ready, posts)
                for i, beat in enumerate(inputs):
                    if beat != ():
                        assert ctx.get(dut.inputs[i].ready) == (i in taken), (
                            f"input {i} in cycle {cycle}"
                        )
                for i, x in enumerate(ready):
                    stream = dut.outputs[i]
                    if x:
                        assert ctx.get(stream.valid) == (i in out), f"output {i} in cycle {cycle}"
                    if i in out:
                        want = (
                            encode_reference(out[i], reference.page_bits)
                            if i < nw
                            else encode_tile(out[i])
                        )
                        assert ctx.get(stream.payload.as_value()) == want, (
                            f"output {i} in cycle {cycle}"
                        )
                        if compared:
                            log.append((cycle, i, out[i]))
                assert ctx.get(dut.error) == 0
                assert ctx.get(dut.busy) == bool(taken or out)
                wires.move(cycle, taken, {i: beat for i, beat in out.items() if i < nw})
                await ctx.tick()
        assert not any(wires.tiles) and not any(wires.waiting) and not any(model.pipe), (
            "not through: give more cycles"
        )
        assert model.free and len(model.free) == pages, "a page was lost"
        assert ctx.get(dut.peak) == model.peak
        log.append(model.peak)

    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.run()
    return log[:-1], log[-1]


def buffers(sizes, *, rank, first=1, above=0):
    """Buffers of ``sizes`` tiles at stop level ``rank``, numbered tiles, then Done."""
    out = []
    value = first
    for j, size in enumerate(sizes):
        for i in range(size):
            end = rank + (above if j == len(sizes) - 1 else 0)
            out.append((value, end if i == size - 1 else min(i % 2, rank - 1)))
            value += 1
    return [*out, None]


def random_moves(seed, share):
    return lambda *where: Random(f"{seed} {where}").random() < share


def test_full_rate_without_bubbles():
    """Buffers of 1 to 9 tiles over chained pages: one tile in and one out a cycle."""
    sizes = [3, 1, 4, 9, 5, 2, 2, 8]
    log, _ = compare(
        [buffers(sizes, rank=1, above=1)],
        pages=32,
        frames=2,
        writers=[1],
        readers=[(1, None)],
        cycles=60,
    )
    tiles = [(cycle, beat) for cycle, out, beat in log if out == 1]
    assert [beat[0] for _, beat in tiles[:-1]] == list(range(1, sum(sizes) + 1))
    # The reader waits for the largest buffers to be complete; the last two follow each other
    # without a gap.
    span = [cycle for cycle, _ in tiles[-11:-1]]
    assert span == list(range(span[0], span[0] + 10))


def test_repeats_add_a_dimension():
    log, _ = compare(
        [buffers([2, 3], rank=2, above=1)],
        pages=4,
        frames=2,
        writers=[2],
        readers=[(2, 3)],
        cycles=60,
    )
    stops = [beat[1] for _, out, beat in log if out == 1 and beat]
    assert stops == [0, 2, 0, 2, 0, 3, 0, 1, 2, 0, 1, 2, 0, 1, 4]


@pytest.mark.parametrize("pages, limit", [(4, None), (9, [2])])
def test_a_writer_waits_for_pages(pages, limit):
    """Two pages for buffers of two, or no more than two buffers: one is written while the other is
    read, and all of it comes out.
    """
    log, peak = compare(
        [buffers([4] * 6, rank=1)],
        pages=pages,
        limit=limit,
        frames=2,
        writers=[1],
        readers=[(1, 2)],
        cycles=120,
    )
    assert peak == 4
    assert [beat[0] for _, out, beat in log if out == 1 and beat] == [
        4 * b + i + 1 for b in range(6) for _ in range(2) for i in range(4)
    ]


def test_a_writer_at_its_limit_leaves_the_pages_to_others():
    """The tiles of writer 0 do not leave for long, so it stops at two buffers; writer 1 goes on in
    the pages that are left.
    """
    log, peak = compare(
        [buffers([2] * 8, rank=1), buffers([2] * 8, rank=1)],
        pages=6,
        limit=[2, 1],
        frames=1,
        writers=[1, 1],
        readers=[(1, None), (1, None)],
        routes=[[0], [1]],
        moves=lambda kind, i, cycle: (kind, i) != ("out", 2) or cycle > 100,
        cycles=200,
    )
    assert peak == 6
    assert len([1 for cycle, out, beat in log if out == 3 and beat and cycle < 60]) == 16


def test_a_writer_waits_for_its_reference_queue():
    """References that leave every eighth cycle hold the buffers of one tile back, and only where a
    buffer ends.
    """
    log, _ = compare(
        [buffers([1, 1, 1, 1, 3, 1, 1, 1, 1], rank=1)],
        pages=16,
        frames=2,
        writers=[1],
        readers=[(1, None)],
        moves=lambda kind, i, cycle: (kind, i) != ("out", 0) or cycle % 8 == 7,
        cycles=120,
    )
    assert [cycle for cycle, out, _ in log if out == 0] == list(range(7, 80, 8))


def test_two_readers_share_a_buffer():
    """Copies are posted as the reference leaves; the last reader frees the buffer."""
    log, _ = compare(
        [buffers([5, 3, 4, 2], rank=1)],
        pages=5,
        frames=2,
        writers=[1],
        readers=[(1, 2), (1, None)],
        routes=[[0, 1]],
        cycles=100,
    )
    assert len([1 for _, out, _ in log if out == 1]) == 29
    assert len([1 for _, out, _ in log if out == 2]) == 15


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_many_writers_and_readers(seed, share):
    r = Random(seed)
    frames = r.choice([1, 2, 4])
    tiles = [
        buffers([r.randint(1, 7) for _ in range(8)], rank=2, first=1 + 1000 * w, above=w % 2)
        for w in range(3)
    ]
    readers = [(2, None), (2, 2), (2, 1)]
    compare(
        tiles,
        pages=24 // frames,
        limit=[r.randint(1, 4) for _ in range(3)],
        frames=frames,
        writers=[2, 2, 2],
        readers=readers,
        routes=[[0], [1, 2], [2, 2, 1]],
        moves=(lambda *_: True) if share == 1 else random_moves(seed, share),
        cycles=700,
    )


def test_reset_in_mid_run():
    for cycles in (3, 20, 33):
        compare(
            [buffers([3, 4, 5, 1, 2], rank=1)],
            pages=6,
            frames=2,
            writers=[1],
            readers=[(1, 2)],
            moves=random_moves(cycles, 0.8),
            cycles=150,
            reset_after=cycles,
        )


def test_a_second_run_after_done():
    run = buffers([3, 4], rank=1, above=1)
    log, _ = compare([run * 2], pages=6, frames=2, writers=[1], readers=[(1, None)], cycles=60)
    values = [beat and beat[0] for _, out, beat in log if out == 1]
    assert values == [*range(1, 8), None] * 2


def test_a_count_that_overflows_is_told():
    dut = Scratchpad(
        params={
            "pages": 2,
            "frames": 1,
            "writers": [{"rank": 1}],
            "limit": [2],
            "readers": [{"rank": 1, "repeat_dim": False}],
            "repeat": [0],
        },
        t=T,
        config=CONFIG,
        posts=1,
        payloads=Payloads((TILE, BufferRef(2)), (BufferRef(2), TILE)),
    )

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


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(frames=3), "Frames must be a power of two, not 3"),
        (dict(pages=4), "must be BufferRef"),
        (dict(writers=[]), "at least one each, not 0 and 1"),
    ],
)
def test_bad_parameters_are_refused(change, message):
    params = {
        "pages": 2,
        "frames": 1,
        "writers": [{"rank": 1}],
        "limit": [2],
        "readers": [{"rank": 1, "repeat_dim": False}],
        "repeat": [0],
        **change,
    }
    with pytest.raises(ValueError, match=message):
        Scratchpad(
            params=params,
            t=T,
            config=CONFIG,
            payloads=Payloads((TILE, BufferRef(2)), (BufferRef(2), TILE)),
        )
