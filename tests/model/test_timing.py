"""Cycles of single units, worked out by hand from docs/timing.md."""

import json
from dataclasses import replace

import numpy as np
import pytest
from penstock.machine.beat import BufferRef, Scalar, Selector
from penstock.machine.config import Dram
from penstock.machine.errors import RunError
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map
from penstock.machine.kinds.copies import Broadcast, Zip
from penstock.machine.kinds.ends import Sink
from penstock.machine.kinds.routing import Partition
from penstock.machine.kinds.scratchpad import Scratchpad
from penstock.model import timeline
from penstock.testing.graphs import FULL, TILE, Build, configuration, run

CONFIG = configuration()


def through(depth, stops, *kinds, release=None, sink=()):
    """source -> units -> sink; the traces of the last channel and the run."""
    b = Build(depth)
    at = b.source([(s, FULL) for s in stops], release)
    for kind in kinds:
        u = b.unit(kind)
        b.link(at, u)
        at = u
    b.link(at, b.sink(sink))
    r = run(b, CONFIG, values=False, trace=True)
    return r.channels[-1], r


def outs(trace):
    return [int(s) for s, d in zip(trace.stop, trace.data, strict=True) if d]


def test_channel_depth_two_is_full_rate_and_depth_one_half():
    fast, r = through(2, [0, 0, 1])
    assert fast.accept.tolist() == [0, 1, 2, 3] and fast.take.tolist() == [1, 2, 3, 4]
    assert r.cycles == 5  # Done visible in cycle 4
    slow, _ = through(1, [0, 0, 1])
    assert slow.accept.tolist() == [0, 2, 4, 6] and slow.take.tolist() == [1, 3, 5, 7]


def from_memory_to_memory(beats, places):
    b = Build(2)
    at = b.source([(0, FULL)] * (beats - 1), [9] * beats, held=beats)
    b.link(at, b.sink([9] * beats, kept=places))
    return b


def test_beats_of_memories_wait_for_no_release():
    b = from_memory_to_memory(4, 4)
    run(b, CONFIG, values=False)
    r = run(b, CONFIG, values=False, trace=True)
    (trace,) = r.channels
    assert trace.accept.tolist() == [1, 2, 3, 4] and trace.take.tolist() == [2, 3, 4, 5]
    assert r.cycles == 6


def test_a_beat_more_than_a_sink_keeps_is_a_fault():
    with pytest.raises(RunError, match="a beat outside its sink's memory"):
        run(from_memory_to_memory(4, 3), CONFIG, values=False)


def test_map_latency_and_interval():
    # silu has 10 stages; 4 lanes of 16 elements: II = 4, L = 13. Taken in 1, 5, 9; offered from 14,
    # 18, 22.
    trace, r = through(2, [0, 1], (Map(fn="silu", arity=1, lanes=4)))
    assert r.channels[0].take.tolist() == [1, 5, 9] and trace.accept.tolist() == [14, 18, 22]


def test_pipeline_queue_holds_latency_plus_interval_plus_one():
    # L = 1, II = 1: three results in the unit and two in its output channel, then the input waits
    # for the sink in cycle 50.
    _trace, r = through(2, [0] * 8, (Map(fn="cast_fp32", arity=1, lanes=16)), sink=[50])
    assert [c for c in r.channels[0].take if c < 50] == [1, 2, 3, 4, 5]
    assert r.blocked[1] > 30


def test_accum_interleaves_reduced_and_remaining_dimensions():
    # [m 1, k 2, n 2] summed over k: two accumulators, each gets two tiles; one bubble before the
    # next group's first tile.
    stops = [0, 1, 0, 2] * 2
    trace, r = through(2, stops, Accum(fn="add", reduce=2, depth=2, lanes=16))
    assert outs(trace) == [0, 1, 0, 1]
    assert r.channels[0].take.tolist() == [
        1,
        2,
        3,
        4,
        6,
        7,
        8,
        9,
        12,
    ]  # 5 waits for the drain of tile 0; Done for the end of the drain
    assert trace.accept.tolist() == [5, 6, 10, 11, 13]


def test_scratchpad_has_no_bubble_between_buffers():
    b = Build()
    stops = [0, 1, 0, 1, 0, 2]
    pad = b.scratchpad(repeat=2, repeat_dim=True)
    b.link(b.source([(s, FULL) for s in stops]), pad)
    b.link((pad, 0), (pad, 1), BufferRef(8))
    b.link((pad, 1), b.sink())
    r = run(b, CONFIG, values=False, trace=True)
    # Tiles written in 1 and 2; reference visible in 4, taken; first tile requested in 5, in the
    # channel's input in 7.
    assert r.channels[1].accept.tolist()[0] == 3 and r.channels[1].take.tolist()[0] == 4
    assert r.channels[2].accept.tolist()[:12] == list(range(7, 19))
    assert outs(r.channels[2]) == [0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 3]


def one_load(rows, cols, shape=(1,)):
    b = Build()
    x = b.tensor("x", rows, cols)
    u = b.off_chip(
        "load",
        x,
        rows,
        cols,
        rank=len(shape),
        shape=list(shape),
        row_step=[0] * len(shape),
        col_step=[0] * len(shape),
    )
    b.link(u, b.sink())
    return b


def loads(rows, cols, *, config=CONFIG, shape=(1,)):
    return run(one_load(rows, cols, shape), config, values=False, trace=True)


def test_lone_line():
    # Granted in 0, in the memory in 1, service 2, delivered 18, visible 19: assembled 19, offered
    # 20.
    r = loads(1, 4)
    assert r.ports[0].accept.tolist() == [0] and r.ports[0].deliver.tolist() == [18]
    assert r.channels[0].accept.tolist() == [20, 21] and r.channels[0].stop.tolist() == [3, 15]
    assert r.cycles == 23 and r.first_request == 0


def test_load_keeps_its_port_busy():
    # t = 4: a line of fp32 holds four tiles' rows, so one lane is as fast as the one tile a cycle
    # that leaves; the ring covers the latency.
    r = loads(64, 64, config=configuration(load_lines=64, port_lanes=1))
    assert r.ports[0].accept.tolist() == list(range(256))


def test_first_request_of_round_robin_alternates():
    b = Build()
    for name in "xy":
        x = b.tensor(name, 4, 32)
        b.link(b.off_chip("load", x, 4, 32, rank=0, shape=[], row_step=[], col_step=[]), b.sink())
    need = run(b, CONFIG, values=False, trace=True)
    turns = run(b, configuration(arbitration="round_robin"), values=False, trace=True)
    assert (
        need.ports[0].accept.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        and need.ports[1].accept.tolist()[0] == 4
    )
    assert turns.ports[0].accept.tolist() == [0, 0, 2, 2, 4, 4, 6, 6] and turns.ports[
        1
    ].accept.tolist() == [1, 1, 3, 3, 5, 5, 7, 7]


# ---- what goes wrong
# -------------------------------------------------------------------------------------------------


def test_deadlock_that_only_pages_cure_says_so():
    b = Build()
    pad = b.scratchpad(1)
    b.link(b.source([(s, FULL) for s in [0, 0, 0, 1]]), pad)
    b.link((pad, 0), (pad, 1), BufferRef(1))
    b.link((pad, 1), b.sink())
    with pytest.raises(RunError) as e:
        run(b, CONFIG, values=False)
    assert (
        "writer 0 of scratchpad0 waits for a page that reader 0 of scratchpad0 may free (none of "
        "1 is free)" in str(e.value)
    )
    assert (
        "reader 0 of scratchpad0 waits for the empty channel c1 from `buffer[0]` of scratchpad0 (0 "
        "of 2 beats)" in str(e.value)
    )
    first = str(e.value).splitlines()[0]
    assert "machine.pages = 2 frees it; buffers that spill free it: --machine spill=" in first


def test_a_scratchpad_between_two_units_is_not_the_circle():
    """The scratchpad's reference channel is empty because its writer is starved, and that because a
    join waits for a beat that never comes.
    """
    b = Build(2)
    pad = b.scratchpad()
    z = b.unit(Partition(n=2, rank=0))
    b.link(b.source([(0, FULL)]), (z, 0))
    selectors = b.source([])
    b.sources[selectors] = []  # not even Done
    b.link(selectors, (z, 1), Selector(2))
    b.link((z, 0), pad)
    b.link((z, 1), b.sink())
    b.link((pad, 0), (pad, 1), BufferRef(8))
    b.link((pad, 1), b.sink())
    with pytest.raises(RunError) as e:
        run(b, CONFIG, values=False)
    assert "waits for" not in str(
        e.value
    ) and "no beat moves towards sink4, sink5; no channel depth" in str(e.value)
    assert "c0 (source2 to partition1) holds 2 of 2 beats" in str(e.value)


def test_address_outside_the_tensor_names_the_operator():
    b = Build()
    x = b.tensor("x", 4, 16)
    b.tensor("gap", 4, 16)
    b.link(b.off_chip("load", x, 4, 16, rank=0, shape=[], row_step=[], col_step=[]), b.sink())
    kind = b.units[0].kind
    kind = kind.but(base=kind.base + 64, tensor_rows=8, rows=8, pitch=64)
    b.units[0] = replace(b.units[0], kind=kind)
    run(b, CONFIG, values=False)
    y = Build()
    t = y.tensor("y", 4, 16, role="output")
    y.link(y.source([(2, FULL), (2, FULL)]), y.off_chip("store", t, 4, 16))
    with pytest.raises(
        RunError,
        match=(
            r"unit store1: writes row 4, column 0, which lies outside tensor y of 4 rows and 16 "
            r"columns.*store as many tiles"
        ),
    ):
        run(y, CONFIG, values=False)


def test_mismatched_stops_overflow_and_limit_are_errors():
    b = Build()
    z = b.unit(Zip())
    b.link(b.source([(0, FULL)]), (z, 0))
    b.link(b.source([(1, FULL)]), (z, 1))
    from penstock.machine.beat import Tuple

    b.link(z, b.sink(), Tuple((TILE, TILE)))
    with pytest.raises(RunError, match="unit zip0: its inputs differ in stop level"):
        run(b, CONFIG, values=False)
    with pytest.raises(RunError, match="more accumulator tiles are needed"):
        through(2, [0, 0, 0, 2], Accum(fn="add", reduce=2, depth=2, lanes=16))
    late = Build()
    late.link(late.source([(0, FULL)], [10_000, 10_000]), late.sink())
    with pytest.raises(RunError, match="not finished after 100 cycles"):
        run(late, CONFIG, values=False, max_cycles=100)
    assert run(late, CONFIG, values=False).cycles == 10_000 + 3


def test_timeline_is_trace_event_json(tmp_path):
    b = Build()
    b.link(b.source([(0, FULL), (1, FULL)], [0, 10, 11]), b.sink())
    r = run(b, CONFIG, values=False, timeline=True)
    timeline.write(tmp_path / "t.json", b.graph(), r)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [(e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [(0, 0, 1), (0, 10, 2), (1, 1, 1), (1, 11, 2)]
    levels = [(e["ts"], e["args"]["beats"]) for e in events if e["ph"] == "C"]
    assert levels == [(0, 0), (1, 1), (2, 0), (11, 1), (13, 0)]


@pytest.mark.parametrize(
    "dram",
    [
        Dram(kind="ideal", latency=3000),
        Dram(channels=1, interval=900),
        Dram(channels=2, interval=1500, latency=2000),
    ],
)
def test_memory_that_keeps_lines_waiting_for_long_is_no_deadlock(dram):
    assert run(one_load(4, 32), configuration(dram=dram), values=False).cycles > 2 * 1024


def test_triggers_follow_each_other_without_a_gap():
    """Logical tiles of one aligned physical tile each: a trigger, a chunk and a tile a cycle."""
    b = Build(8)
    x = b.tensor("x", 4, 16 * 8)
    load = b.off_chip(
        "load", x, 4, 4, rank=0, shape=[], row_step=[], col_step=[], trigger="address", shift=5
    )
    b.link(b.source([(0, (n, 0)) for n in range(28, -1, -4)]), load, Scalar(8))
    b.link(load, b.sink())
    r = run(
        b,
        configuration(port_lanes=4, load_lines=64, dram=Dram(kind="ideal", latency=9)),
        values=False,
        trace=True,
    )
    assert r.channels[0].take.tolist() == [
        *range(1, 9),
        13 + 8,
    ]  # Done: from the cycle after the last assembly
    assert r.ports[0].accept[::4].tolist() == list(range(2, 10))
    first = 2 + 1 + 9 + 1 + 1  # granted, at the memory, delivered, in the ring; the block visible
    assert r.channels[1].accept.tolist() == [*range(first, first + 9)]


def test_affine_passes_follow_each_other_without_a_gap():
    """A buffer of 2 x 2 tiles on two pages, read twice by columns: one cycle to fill the page
    table, then a tile a cycle.
    """
    b = Build(8)
    pad = b.unit(
        Scratchpad(
            pages=4,
            frames=2,
            writers=[{"rank": 1}],
            limit=[4],
            readers=[{"rank": 2, "repeat_dim": True, "affine": 2}],
            repeat=[2],
            shape=[2, 2],
            stride=[1, 2],
        )
    )
    b.link(b.source([(0, (1, 1)), (0, (2, 2)), (0, (3, 3)), (1, (4, 4))]), pad)
    b.link(pad, (pad, 1), BufferRef(4))
    out = b.link((pad, 1), b.sink())
    r = run(b, CONFIG, values=False, trace=True)
    first = (
        4 + 1 + 1 + 1 + 1 + 2
    )  # last tile stored; reference offered, visible, held; filled; served, offered
    assert r.channels[out].accept.tolist()[:-1] == list(range(first, first + 8))
    assert r.channels[out].stop.tolist() == [0, 1, 0, 2, 0, 1, 0, 3, 15]
    assert r.sink_beats[len(b.units) - 1].numbers[:4, 0].tolist() == [1, 3, 2, 4]


def tiles_of(*sizes):
    """Buffers of some tiles each, at stop level 1."""
    return [(int(k == size - 1), FULL) for size in sizes for k in range(size)]


@pytest.mark.parametrize("pages, limit", [(4, 4), (9, 2)])
def test_a_writer_waits_for_pages(pages, limit):
    """Two pages for buffers of two, or no more than two buffers: one is written while the other is
    read.
    """
    b = Build()
    pad = b.scratchpad(pages, limit=limit, repeat=2, repeat_dim=True)
    b.link(b.source(tiles_of(*[4] * 6)), pad)
    b.link((pad, 0), (pad, 1), BufferRef(pages))
    b.link((pad, 1), b.sink())
    assert run(b, CONFIG, values=False).peak_pages[pad] == 4


def test_a_writer_at_its_limit_leaves_the_pages_to_others():
    """The tiles of writer 0 do not leave for long, so it stops at two buffers; writer 1 goes on in
    the pages that are left.
    """
    b = Build()
    pad = b.unit(
        Scratchpad(
            pages=6,
            frames=1,
            writers=[{"rank": 1}] * 2,
            limit=[2, 1],
            readers=[{"rank": 1, "repeat_dim": False}] * 2,
            repeat=[0, 0],
        )
    )
    for k, wait in ((0, [100] * 20), (1, ())):
        b.link(b.source(tiles_of(*[2] * 8)), (pad, k))
        b.link((pad, k), (pad, 2 + k), BufferRef(6))
        free = b.link((pad, 2 + k), b.sink(wait))
    r = run(b, CONFIG, values=False, trace=True)
    assert r.peak_pages[pad] == 6
    assert r.channels[free].accept[15] < 60


def test_a_writer_waits_for_its_reference_queue():
    """References, copied to a sink that takes one every eighth cycle, hold the buffers of one tile
    back, and only where a buffer ends.
    """
    b = Build()
    ref = BufferRef(16)
    pad = b.scratchpad(16)
    copies = b.unit(Broadcast(n=2, scratchpad=pad))
    b.link(b.source(tiles_of(*[1] * 7, 3, *[1] * 4)), pad)
    b.link((pad, 0), copies, ref)
    slow = b.unit(Sink(scratchpad=pad))
    b.sinks[slow] = [8 * k for k in range(20)]
    b.link((copies, 1), slow, ref)
    b.link((copies, 0), (pad, 1), ref)
    out = b.link((pad, 1), b.sink())
    accept = run(b, CONFIG, values=False, trace=True).channels[out].accept[:-1]
    filled = 3  # the sink's channel takes the first ones
    assert np.diff(accept)[filled:].tolist() == [8, 8, 8, 8, 1, 1, 6, 8, 8, 8]
