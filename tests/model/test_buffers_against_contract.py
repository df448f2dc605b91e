"""The compiled engine and the plain-Python contract agree on random buffers, reads and
references.
"""

import dataclasses

from drawn import counts, many, with_bare
from hypothesis import given
from hypothesis import strategies as st
from penstock.machine.beat import BufferRef, Scalar, Selector
from penstock.machine.config import Dram
from penstock.machine.kinds.copies import Broadcast
from penstock.machine.kinds.ends import Sink
from penstock.machine.kinds.routing import Partition
from penstock.machine.kinds.scratchpad import Scratchpad
from penstock.testing.graphs import FULL, Build, compare, configuration
from penstock.testing.strategies import waits


@many
@given(st.data())
def test_scratchpad(data):
    """Buffers of random size from one or two writers; references copied to one or two readers each,
    with and without repeats.
    """
    n_writers = data.draw(st.integers(1, 2))
    fan = data.draw(st.integers(1, 2))
    rank = data.draw(st.integers(0, 2))
    frames = data.draw(st.sampled_from([1, 2, 4]))
    readers = [(rank, data.draw(st.booleans())) for _ in range(n_writers * fan)]
    b = Build(data.draw(st.integers(1, 3)))
    pad = b.unit(
        Scratchpad(
            pages=26 * n_writers,
            frames=frames,
            writers=[{"rank": rank}] * n_writers,
            limit=data.draw(st.lists(st.integers(1, 4), min_size=n_writers, max_size=n_writers)),
            readers=[
                {"rank": r, "repeat_dim": d}
                | (
                    {"turns": data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))}
                    if data.draw(st.booleans())
                    else {}
                )
                for r, d in readers
            ],
            repeat=[data.draw(st.integers(1, 3)) for _ in readers],
        )
    )
    ref = BufferRef(26 * n_writers)
    for w in range(n_writers):
        stops = [*data.draw(st.lists(st.integers(0, rank + 2), max_size=12)), rank + 1]
        source = b.source(data.draw(with_bare(stops, counts)), data.draw(waits(len(stops) + 1)))
        b.link(source, (pad, w))
        fork = b.unit(Broadcast(n=fan, scratchpad=pad))
        b.link((pad, w), fork, ref)
        for i in range(fan):
            b.link((fork, i), (pad, n_writers + w * fan + i), ref)
            b.link((pad, n_writers + w * fan + i), b.sink(data.draw(waits(20))))
    compare(b, configuration())


@many
@given(st.data())
def test_scratchpad_read_by_reference(data):
    """The second reader's passes over its buffers are driven by a stream: some, one, or none a
    buffer, and groups without a buffer.
    """
    rank = data.draw(st.integers(0, 1))
    level = data.draw(st.integers(0, 2))
    stops = [*data.draw(st.lists(st.integers(0, rank + 2), max_size=10)), rank + 1]
    beats = data.draw(with_bare(stops, counts))
    tokens = []
    last = 15
    for s, numbers in beats:
        if numbers is None and min(s, last) > rank:
            tokens.append((level + s - rank, None))
        elif s >= rank:
            inner = (
                data.draw(st.lists(st.integers(0, max(level - 1, 0)), max_size=3)) if level else []
            )
            tokens += [
                *data.draw(with_bare(inner, st.just((1, 0)))),
                (level + s - rank, None if level and data.draw(st.booleans()) else (1, 0)),
            ]
        last = s
    b = Build(data.draw(st.integers(1, 3)))
    pad = b.unit(
        Scratchpad(
            pages=26,
            frames=2,
            writers=[{"rank": rank}],
            limit=[data.draw(st.integers(1, 4))],
            readers=[
                {"rank": rank, "repeat_dim": False},
                {"rank": rank, "repeat_dim": False, "ref": level},
            ],
            repeat=[0, 0],
        )
    )
    read_twice(data, b, pad, beats)
    b.link(b.source(tokens, data.draw(waits(len(tokens) + 1))), (pad, 3), Scalar(1))
    compare(b, configuration())


def read_twice(data, b, pad, beats):
    """Beats into a scratchpad, whose two readers read each buffer."""
    ref = BufferRef(b.units[pad].kind.pages)
    b.link(b.source(beats, data.draw(waits(len(beats) + 1))), pad)
    fork = b.unit(Broadcast(n=2, scratchpad=pad))
    b.link(pad, fork, ref)
    for i in range(2):
        b.link((fork, i), (pad, 1 + i), ref)
        b.link((pad, 1 + i), b.sink(data.draw(waits(20))))


@many
@given(st.data())
def test_scratchpad_read_in_affine_order(data):
    """Buffers of one size read in the order of a loop nest, repeatedly or as a stream drives it,
    beside a reader in order; the order may be given as a list.
    """
    n = data.draw(st.integers(1, 3))
    listed = data.draw(st.booleans())
    size = data.draw(st.integers(1, 7))
    shape = [data.draw(st.integers(1, 3)) for _ in range(n)]
    stride = []
    room = size - 1
    for trips in shape:
        stride.append(data.draw(st.integers(0, room // (trips - 1) if trips > 1 else 5)))
        room -= (trips - 1) * stride[-1]
    beats = []
    tokens = []
    driven = data.draw(st.booleans())
    for s in [*data.draw(st.lists(st.integers(0, 2), max_size=6)), 1]:
        if s and data.draw(st.integers(0, 3)) == 0 and (not beats or beats[-1][0] >= 1 + s):
            beats.append((1 + s, None))
            tokens.append((1 + s, None))
        else:
            beats += [(0, data.draw(counts)) for _ in range(size - 1)] + [
                (1 + s, data.draw(counts))
            ]
            tokens += [
                *data.draw(with_bare([0] * data.draw(st.integers(0, 2)), st.just((1, 0)))),
                (1 + s, None if data.draw(st.booleans()) else (1, 0)),
            ]
    b = Build(data.draw(st.integers(1, 3)))
    reader = {"rank": n, "repeat_dim": not driven and data.draw(st.booleans())} | (
        {"ref": 1} if driven else {}
    )
    if listed:
        tiles = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=8))
        reader["listed"] = [[k, data.draw(st.integers(0, n - 1))] for k in tiles]
        reader["listed"][-1][1] = n
    else:
        reader["affine"] = n
    pages = 7 * (len(tokens) + 1)
    pad = b.unit(
        Scratchpad(
            pages=pages,
            frames=data.draw(st.sampled_from([1, 2, 4])),
            writers=[{"rank": 1}],
            limit=[data.draw(st.integers(1, min(pages, 4)))],
            readers=[{"rank": 1, "repeat_dim": False}, reader],
            repeat=[0, data.draw(st.integers(1, 3))],
            shape=[] if listed else shape,
            stride=[] if listed else stride,
        )
    )
    read_twice(data, b, pad, beats)
    if driven:
        b.link(b.source(tokens, data.draw(waits(len(tokens) + 1))), (pad, 3), Scalar(1))
    compare(b, configuration())


@many
@given(st.data())
def test_references_that_are_dropped(data):
    """References copied, some sent on to a reader and some to a sink or nowhere: buffers are freed
    by all of them, several in a cycle, and few pages.
    """
    frames = data.draw(st.sampled_from([1, 2]))
    b = Build(data.draw(st.integers(1, 3)))
    beats = data.draw(
        with_bare([*data.draw(st.lists(st.integers(0, 3), max_size=14)), 2], st.just(FULL))
    )
    selectors = []
    last = 15
    size = 0
    largest = 1
    for s, numbers in beats:
        if numbers is None and min(s, last) > 1:
            selectors.append((s - 1, None))
        else:
            size += 1
            if s >= 1:
                selectors.append((s - 1, (data.draw(st.integers(0, 3)), 0)))
                largest = max(largest, size)
                size = 0
        last = s
    pages = -(-largest // frames) + data.draw(st.integers(0, 3))
    ref = BufferRef(pages)
    pad = b.scratchpad(pages, frames=frames, limit=data.draw(st.integers(1, pages)), repeat=0)
    b.link(b.source(beats, data.draw(waits(len(beats) + 1))), pad)
    fork = b.unit(Broadcast(n=2, scratchpad=pad))
    b.link((pad, 0), fork, ref)

    def drop(at):
        sink = b.sink(data.draw(waits(16)))
        b.units[sink] = dataclasses.replace(b.units[sink], kind=Sink(scratchpad=pad))
        b.link(at, sink, ref)

    drop((fork, 1))
    route = b.unit(Partition(n=2, rank=0, scratchpad=pad))
    b.link((fork, 0), (route, 0), ref)
    b.link(b.source(selectors, data.draw(waits(len(selectors) + 1))), (route, 1), Selector(2))
    drop((route, 1))
    b.link((route, 0), (pad, 1), ref)
    b.link((pad, 1), b.sink(data.draw(waits(20))))
    compare(b, configuration())


@many
@given(st.data())
def test_small_scratchpad_is_back_pressure(data):
    """Fewer pages than the stream needs, or fewer buffers that the writer may hold: it waits for
    the reader's releases.
    """
    frames = data.draw(st.sampled_from([1, 2]))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    stops = [s for n in sizes for s in [0] * (n - 1) + [1]]
    b = Build()
    pages = data.draw(st.integers(3, 5))
    pad = b.scratchpad(
        pages,
        frames=frames,
        limit=data.draw(st.integers(1, pages)),
        repeat=data.draw(st.integers(1, 2)),
        repeat_dim=True,
    )
    b.link(b.source([(s, FULL) for s in stops]), pad)
    b.link((pad, 0), (pad, 1), BufferRef(pages))
    b.link((pad, 1), b.sink(data.draw(waits(12))))
    compare(b, configuration())


@many
@given(st.data())
def test_buffers_beyond_the_pages_spill(data):
    """Buffers of one writer or two, some larger than all pages, read in order, repeated, as a
    stream drives it, or in another order.
    """
    block_rows = data.draw(st.sampled_from([1, 1, 4]))
    frames = data.draw(st.sampled_from([1, 2]))
    pages = data.draw(st.integers(1, 3))
    writers = data.draw(st.integers(1, 2))
    most = pages * frames + 9
    b = Build(data.draw(st.integers(1, 3)))
    sizes = data.draw(st.lists(st.integers(1, most), min_size=1, max_size=4))
    stops = [s for n in sizes for s in [0] * (n - 1) + [1]]
    how = data.draw(st.sampled_from(["order", "turns", "driven", "listed"]))
    reader = {"rank": 1, "repeat_dim": how == "order" and data.draw(st.booleans())}
    if how == "turns":
        reader["turns"] = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    if how == "driven":
        reader["ref"] = 0
    if how == "listed":
        least = min(sizes)
        tiles = data.draw(st.lists(st.integers(0, least - 1), min_size=1, max_size=9))
        reader["listed"] = [[k, 0] for k in tiles[:-1]] + [[tiles[-1], 1]]
    pad = b.unit(
        Scratchpad(
            pages=pages,
            frames=frames,
            writers=[{"rank": 1}] * writers,
            limit=[data.draw(st.integers(1, pages))] * writers,
            readers=[reader] * writers,
            repeat=[data.draw(st.integers(1, 2))] * writers,
        )
    )
    ref = BufferRef(pages)
    for w in range(writers):
        beats = [(s, data.draw(counts)) for s in stops]
        release = [4000] * (len(beats) + 1) if w else data.draw(waits(len(beats) + 1))
        b.link(b.source(beats, release), (pad, w))
        b.link((pad, w), (pad, writers + w), ref)
        b.link((pad, writers + w), b.sink(data.draw(waits(20))))
        if how == "driven":
            tokens = [(0, (1, 0))] * len(sizes)
            b.link(b.source(tokens), (pad, 2 * writers + w), Scalar(1))
    compare(b, configuration(spill=4096, dram=Dram(line_bytes=16 * block_rows)))
