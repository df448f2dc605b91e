"""The compiled engine and the plain-Python contract agree on random
unit graphs, waits and machines.
"""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from penstock.machine.beat import BufferRef, Scalar, Selector, Tuple
from penstock.machine.config import Dram
from penstock.machine.errors import RunError
from penstock.testing.graphs import FULL, TILE, Build, T, compare, configuration, run
from penstock.testing.strategies import waits

many = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    derandomize=True,
)
counts = st.tuples(st.integers(0, T), st.integers(0, T))


def regular(shape):
    """Stops of a regular stream, innermost dimension last; the last
    beat closes every dimension.
    """
    stops = []
    for at in np.ndindex(*shape):
        s = 0
        while s < len(shape) and at[len(shape) - 1 - s] == shape[len(shape) - 1 - s] - 1:
            s += 1
        stops.append(s)
    return stops


@st.composite
def ragged(draw, rank, closed=True):
    stops = draw(st.lists(st.integers(0, rank), max_size=12))
    return [*stops, rank] if closed or not stops else stops


@st.composite
def with_bare(draw, stops, numbers):
    """Beats (stop, numbers) of a stream, some of them for empty tensors."""
    return [(s, None if s and draw(st.integers(0, 3)) == 0 else draw(numbers)) for s in stops]


def compare_writable(b):
    """`compare`, for streams that can be written."""
    try:
        return compare(b, configuration())
    except AssertionError as e:
        if "an empty group at the end of a merged dimension" not in str(e):
            raise
        reject()


@st.composite
def shape_op(draw, b):
    kind = draw(
        st.sampled_from(["flatten", "promote", "outermost", "reshape", "repeat", "map", "pass"])
    )
    if kind == "flatten":
        lo = draw(st.integers(0, 2))
        return b.unit("flatten", lo=lo, hi=lo + draw(st.integers(1, 2)))
    if kind in ("promote", "outermost"):
        return b.unit("promote", level=draw(st.integers(0, 4)), outermost=kind == "outermost")
    if kind == "reshape":
        dim = draw(st.integers(0, 2))
        return b.unit(
            "reshape",
            dim=dim,
            chunk=draw(st.integers(1, 4)),
            pad=draw(st.booleans()),
            pad_rows=draw(st.integers(1, 2)) if dim == 2 else 1,
            pad_cols=draw(st.integers(1, 3)) if dim else 1,
        )
    if kind == "repeat":
        return b.unit("repeat", count=draw(st.integers(1, 4)))
    if kind == "map":
        return b.unit(
            "map",
            fn=draw(st.sampled_from(["silu", "cast_fp32"])),
            arity=1,
            lanes=draw(st.sampled_from([16, 4])),
            tuple_in=False,
        )
    return b.unit("broadcast", n=1, scratchpad=None)


@many
@given(st.data())
def test_shape_chains(data):
    b = Build(data.draw(st.integers(1, 3)))
    stops = data.draw(ragged(2, closed=data.draw(st.booleans())))
    beats = data.draw(with_bare(stops, counts))
    at = b.source(beats, data.draw(waits(len(beats) + 1)))
    for _ in range(data.draw(st.integers(1, 4))):
        op = data.draw(shape_op(b))
        b.link(at, op)
        at = op
    b.link(at, b.sink(data.draw(waits(30))))
    compare_writable(b)


@many
@given(st.data())
def test_padding_stream(data):
    dim = data.draw(st.sampled_from([0, 2]))
    stops = data.draw(ragged(dim + 2, closed=data.draw(st.booleans())))
    beats = data.draw(with_bare(stops, counts))
    b = Build(data.draw(st.integers(1, 3)))
    u = b.unit(
        "reshape",
        dim=dim,
        chunk=data.draw(st.integers(1, 4)),
        pad=True,
        pad_rows=data.draw(st.integers(1, 2)) if dim else 1,
        pad_cols=data.draw(st.integers(1, 3)) if dim else 1,
        flags=dim,
    )
    b.link(b.source(beats, data.draw(waits(len(beats) + 1))), u)
    b.link(u, b.sink(data.draw(waits(30))))
    b.link((u, 1), b.sink(data.draw(waits(30))), Scalar(1))
    compare(b, configuration())


@many
@given(st.data())
def test_forks_and_joins(data):
    """broadcast or split, two paths of different length, then zip and a
    tuple map, a two-input map, a matmul, or merge.
    """
    b = Build(data.draw(st.integers(1, 3)))
    beats = data.draw(with_bare(data.draw(ragged(2)), st.just(FULL)))
    at = b.source(beats, data.draw(waits(len(beats) + 1)))
    join = data.draw(st.sampled_from(["zip", "map", "matmul", "merge"]))
    fork = b.unit(
        "split" if join == "merge" else "broadcast",
        n=2,
        **({} if join == "merge" else {"scratchpad": None}),
    )
    b.link(at, fork)
    lanes = st.sampled_from([16, 8, 2])
    ends = []
    for i in range(2):
        end = (fork, i)
        for _ in range(data.draw(st.integers(0, 2))):
            m = b.unit(
                "map",
                fn=data.draw(st.sampled_from(["silu", "cast_fp32"])),
                arity=1,
                lanes=data.draw(lanes),
                tuple_in=False,
            )
            b.link(end, m)
            end = m
        ends.append(end)
    if join == "matmul":
        j = b.unit(
            "matmul",
            rows_per_cycle=data.draw(st.sampled_from([1, 2, 4])),
            transposed=data.draw(st.booleans()),
        )
    elif join == "map":
        j = b.unit("map", fn="mul", arity=2, lanes=data.draw(lanes), tuple_in=False)
    else:
        j = b.unit(join, **({"n": 2} if join == "merge" else {}))
    for i, end in enumerate(ends):
        b.link(end, (j, i))
    if join == "zip":
        m = b.unit("map", fn="add", arity=2, lanes=data.draw(lanes), tuple_in=True)
        b.link(j, m, Tuple((TILE, TILE)))
        j = m
    b.link(j, b.sink(data.draw(waits(20))))
    compare(b, configuration())


@many
@given(st.data())
def test_accum(data):
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    reduce = data.draw(st.integers(1, 2 ** len(shape) - 1))
    beats = [(s, FULL) for s in regular(shape)]
    b = Build(data.draw(st.integers(1, 3)))
    at = b.source(beats, data.draw(waits(len(beats) + 1)))
    a = b.unit(
        "accum",
        fn="add",
        reduce=reduce,
        depth=81,
        lanes=data.draw(st.sampled_from([16, 8, 4])),
        init_rows=0,
        init_cols=0,
        deep=data.draw(st.booleans()),
    )
    b.link(at, a)
    b.link(a, b.sink(data.draw(waits(30))))
    compare(b, configuration())


@many
@given(st.data())
def test_accum_of_ragged_groups_and_of_none(data):
    """Groups of tiles of 1 x `width` with random numbers of tiles, some
    of them empty; partly valid tiles.
    """
    width = data.draw(st.integers(1, 3))
    rank = data.draw(st.integers(1, 2))
    stops = []
    for s in data.draw(st.lists(st.integers(0, rank + 2), min_size=1, max_size=12)):
        if s and data.draw(st.booleans()):
            stops.append((2 + s, None))
        else:
            stops += [(0, data.draw(counts)) for _ in range(width - 1)] + [
                (2 + s, data.draw(counts))
            ]
    b = Build(data.draw(st.integers(1, 3)))
    at = b.source(stops, data.draw(waits(len(stops) + 1)))
    rows = data.draw(st.sampled_from([0, 3, 9]))
    scan = {"scan": True} if data.draw(st.booleans()) else {}
    a = b.unit(
        "accum",
        fn=data.draw(st.sampled_from(["add", "max"])),
        reduce=sum(1 << 2 + d for d in range(rank)),
        depth=9,
        lanes=data.draw(st.sampled_from([16, 4])),
        init_rows=rows,
        init_cols=4 * width - 1 if rows else 0,
        deep=data.draw(st.booleans()),
        **scan,
    )
    b.link(at, a)
    b.link(a, b.sink(data.draw(waits(30))))
    compare(b, configuration())


@many
@given(st.data())
def test_accum_of_tiles_that_differ(data):
    """Random stops: the passes over a reduced dimension visit the same
    accumulators, or both sides tell the fault.
    """
    beats = [(s, FULL) for s in data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=14))]
    b = Build(2)
    at = b.source(beats, [0] * (len(beats) + 1))
    scan = {"scan": True} if data.draw(st.booleans()) else {}
    a = b.unit(
        "accum",
        fn="add",
        reduce=data.draw(st.sampled_from([1, 2, 4, 6, 10])),
        depth=20,
        lanes=16,
        init_rows=0,
        init_cols=0,
        **scan,
    )
    b.link(at, a)
    b.link(a, b.sink([]))
    try:
        compare(b, configuration())
    except AssertionError as e:
        if "stop mismatch" not in str(e):
            raise
        with pytest.raises(RunError, match="tiles that it reduces differ"):
            run(b, configuration())


@many
@given(st.data())
def test_columns_of_tiles(data):
    """Columns of tiles one by one, and packed again: tiles of `high` x
    `wide` physical ones, column by column, some without a valid row or
    column.
    """
    high = data.draw(st.integers(1, 2))
    wide = data.draw(st.integers(1, 2))
    stops = []
    for s in data.draw(st.lists(st.integers(0, 3), max_size=8)):
        if s and data.draw(st.integers(0, 3)) == 0:
            stops.append((2 + s, None))
            continue
        rows = data.draw(st.integers(0, high * T))
        cols = data.draw(st.integers(0, wide * T))
        for j in range(wide):
            for i in range(high):
                valid = max(min(rows - i * T, T), 0), max(min(cols - j * T, T), 0)
                stops.append(
                    (
                        0 if i < high - 1 else 1 if j < wide - 1 else 2 + s,
                        valid if all(valid) or data.draw(st.booleans()) else (0, 0),
                    )
                )
    b = Build(data.draw(st.integers(1, 3)))
    u = b.unit(
        "row_unpack",
        depth=high,
        mask=data.draw(st.booleans()),
        rows=data.draw(st.integers((wide - 1) * T + 1, wide * T)),
        along="cols",
    )
    b.link(b.source(stops, data.draw(waits(len(stops) + 1))), u)
    if data.draw(st.booleans()):  # and packed again, of one logical tile or of several
        pack = b.unit(
            "row_pack",
            depth=high,
            level=data.draw(st.integers(3, 5)),
            bands=data.draw(st.sampled_from([0, 3])),
            cols=high * T - 1,
            along="cols",
        )
        b.link(u, pack)
        u = pack
    b.link(u, b.sink(data.draw(waits(60))))
    compare(b, configuration())


@many
@given(st.data())
def test_rows_of_tiles(data):
    """Rows packed to bands, in groups of several, one or none, and
    streamed again.
    """
    width = data.draw(st.integers(1, 3))
    most = data.draw(st.sampled_from([1, 2]))
    stops = []
    for s in [*data.draw(st.lists(st.integers(0, 3), max_size=14)), data.draw(st.integers(1, 3))]:
        if s and data.draw(st.integers(0, 3)) == 0:
            stops.append((2 + s, None))
        else:
            rows = data.draw(st.sampled_from([0, most, most]))
            stops += [
                (0 if j < width - 1 else 2 + s, (rows, T if rows else 0)) for j in range(width)
            ]
    b = Build(data.draw(st.integers(1, 3)))
    at = b.source(stops, data.draw(waits(len(stops) + 1)))
    bands = data.draw(st.sampled_from([0, 0, 4]))
    pack = b.unit("row_pack", depth=3, level=3, bands=bands, cols=T * width - 1)
    b.link(at, pack)
    at = pack
    if data.draw(st.booleans()):
        mask = bands == 0 or data.draw(st.booleans())
        unpack = b.unit("row_unpack", depth=3, mask=mask, rows=4 * T)
        b.link(at, unpack)
        at = unpack
    b.link(at, b.sink(data.draw(waits(60))))
    try:
        compare(b, configuration())
    except AssertionError as e:
        if "rows do not fit" not in str(e):
            raise
        reject()


@many
@given(st.data())
def test_row_append(data):
    """A row below tiles of two bands, of which the first may be full."""
    width = data.draw(st.integers(1, 2))
    n = data.draw(st.integers(1, 4))
    tiles = []
    rows = []
    for i in range(n):
        valid = data.draw(st.integers(0, 2 * T - 1))
        end = 2 + (i == n - 1)
        for band in range(2):
            tiles += [
                (0 if j < width - 1 else end if band else 1, (min(max(valid - band * T, 0), T), T))
                for j in range(width)
            ]
        rows += [(0 if j < width - 1 else end, (1, T)) for j in range(width)]
    b = Build(data.draw(st.integers(1, 3)))
    u = b.unit("row_append")
    for i, beats in enumerate((tiles, rows)):
        b.link(b.source(beats, data.draw(waits(len(beats) + 1))), (u, i))
    b.link(u, b.sink(data.draw(waits(20))))
    compare(b, configuration())


@many
@given(st.data())
def test_scratchpad(data):
    """Buffers of random size from one or two writers; references copied
    to one or two readers each, with and without repeats.
    """
    n_writers = data.draw(st.integers(1, 2))
    fan = data.draw(st.integers(1, 2))
    rank = data.draw(st.integers(0, 2))
    frames = data.draw(st.sampled_from([1, 2, 4]))
    readers = [(rank, data.draw(st.booleans())) for _ in range(n_writers * fan)]
    b = Build(data.draw(st.integers(1, 3)))
    pad = b.unit(
        "scratchpad",
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
    ref = BufferRef(26 * n_writers)
    for w in range(n_writers):
        stops = [*data.draw(st.lists(st.integers(0, rank + 2), max_size=12)), rank + 1]
        source = b.source(data.draw(with_bare(stops, counts)), data.draw(waits(len(stops) + 1)))
        b.link(source, (pad, w))
        fork = b.unit("broadcast", n=fan, scratchpad=pad)
        b.link((pad, w), fork, ref)
        for i in range(fan):
            b.link((fork, i), (pad, n_writers + w * fan + i), ref)
            b.link((pad, n_writers + w * fan + i), b.sink(data.draw(waits(20))))
    compare(b, configuration())


@many
@given(st.data())
def test_scratchpad_read_by_reference(data):
    """The second reader's passes over its buffers are driven by a
    stream: some, one, or none a buffer, and groups without a buffer.
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
        "scratchpad",
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
    ref = BufferRef(26)
    b.link(b.source(beats, data.draw(waits(len(beats) + 1))), pad)
    fork = b.unit("broadcast", n=2, scratchpad=pad)
    b.link(pad, fork, ref)
    for i in range(2):
        b.link((fork, i), (pad, 1 + i), ref)
        b.link((pad, 1 + i), b.sink(data.draw(waits(20))))
    b.link(b.source(tokens, data.draw(waits(len(tokens) + 1))), (pad, 3), Scalar(1))
    compare(b, configuration())


@many
@given(st.data())
def test_scratchpad_read_in_affine_order(data):
    """Buffers of one size read in the order of a loop nest, repeatedly
    or as a stream drives it, beside a reader in order; the order may
    be given as a list.
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
        "scratchpad",
        pages=pages,
        frames=data.draw(st.sampled_from([1, 2, 4])),
        writers=[{"rank": 1}],
        limit=[data.draw(st.integers(1, min(pages, 4)))],
        readers=[{"rank": 1, "repeat_dim": False}, reader],
        repeat=[0, data.draw(st.integers(1, 3))],
        shape=[] if listed else shape,
        stride=[] if listed else stride,
    )
    ref = BufferRef(pages)
    b.link(b.source(beats, data.draw(waits(len(beats) + 1))), pad)
    fork = b.unit("broadcast", n=2, scratchpad=pad)
    b.link(pad, fork, ref)
    for i in range(2):
        b.link((fork, i), (pad, 1 + i), ref)
        b.link((pad, 1 + i), b.sink(data.draw(waits(20))))
    if driven:
        b.link(b.source(tokens, data.draw(waits(len(tokens) + 1))), (pad, 3), Scalar(1))
    compare(b, configuration())


@many
@given(st.data())
def test_references_that_are_dropped(data):
    """References copied, some sent on to a reader and some to a sink or
    nowhere: buffers are freed by all of them, several in a cycle, and
    few pages.
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
    pad = b.unit(
        "scratchpad",
        pages=pages,
        frames=frames,
        writers=[{"rank": 1}],
        limit=[data.draw(st.integers(1, pages))],
        readers=[{"rank": 1, "repeat_dim": False}],
        repeat=[0],
    )
    b.link(b.source(beats, data.draw(waits(len(beats) + 1))), pad)
    fork = b.unit("broadcast", n=2, scratchpad=pad)
    b.link((pad, 0), fork, ref)

    def drop(at):
        sink = b.sink(data.draw(waits(16)))
        b.units[sink] = dataclasses.replace(b.units[sink], params={"scratchpad": pad})
        b.link(at, sink, ref)

    drop((fork, 1))
    route = b.unit("partition", n=2, rank=0, scratchpad=pad)
    b.link((fork, 0), (route, 0), ref)
    b.link(b.source(selectors, data.draw(waits(len(selectors) + 1))), (route, 1), Selector(2))
    drop((route, 1))
    b.link((route, 0), (pad, 1), ref)
    b.link((pad, 1), b.sink(data.draw(waits(20))))
    compare(b, configuration())


@many
@given(st.data())
def test_small_scratchpad_is_back_pressure(data):
    """Fewer pages than the stream needs, or fewer buffers that the
    writer may hold: it waits for the reader's releases.
    """
    frames = data.draw(st.sampled_from([1, 2]))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    stops = [s for n in sizes for s in [0] * (n - 1) + [1]]
    b = Build()
    pages = data.draw(st.integers(3, 5))
    pad = b.unit(
        "scratchpad",
        pages=pages,
        frames=frames,
        writers=[{"rank": 1}],
        limit=[data.draw(st.integers(1, pages))],
        readers=[{"rank": 1, "repeat_dim": True}],
        repeat=[data.draw(st.integers(1, 2))],
    )
    b.link(b.source([(s, FULL) for s in stops]), pad)
    b.link((pad, 0), (pad, 1), BufferRef(pages))
    b.link((pad, 1), b.sink(data.draw(waits(12))))
    compare(b, configuration())


def listed(data, places):
    """A listed order of logical tiles, or none."""
    return {"order": [list(p) for p in places]} if data.draw(st.booleans()) else {}


def memory(data, dtype):
    """A configuration with an off-chip memory, ports and arbitration
    that are drawn.
    """
    drams = (
        Dram(),
        Dram(kind="ideal", latency=3),
        Dram(channels=1, interval=3),
        Dram(kind="ideal", latency=1),
        Dram(kind="ideal", latency=2, line_bytes=16),
    )
    dram = data.draw(st.sampled_from(drams))
    return configuration(
        dtype=dtype,
        port_lanes=data.draw(st.sampled_from([1, 2, 4])),
        load_lines=data.draw(st.sampled_from([8, 32])),
        arbitration=data.draw(st.sampled_from(["need", "round_robin"])),
        dram=dram,
    )


@many
@given(st.data())
def test_off_chip(data):
    """Loads of random walks (misaligned, clamped, out of the tensor)
    into sinks, and one load that a store writes back.
    """
    dtype = data.draw(st.sampled_from(["fp32", "bf16"]))
    tile = type(TILE)(T, dtype)
    b = Build(data.draw(st.integers(1, 2)))
    for i in range(data.draw(st.integers(0, 2))):
        x = b.tensor(f"x{i}", data.draw(st.integers(1, 12)), data.draw(st.integers(1, 40)), dtype)
        rank = data.draw(st.integers(0, 2))

        def draws(low, high, rank=rank):
            return [data.draw(st.integers(low, high)) for _ in range(rank)]

        shape = draws(1, 3)
        u = b.off_chip(
            "load",
            x,
            data.draw(st.integers(1, 10)),
            data.draw(st.integers(1, 40)),
            rank=rank,
            shape=shape,
            row_step=draws(0, 6),
            col_step=draws(0, 20),
            **listed(
                data,
                [
                    (data.draw(st.integers(0, 12)), data.draw(st.integers(0, 40)))
                    for _ in range(math.prod(shape))
                ],
            ),
        )
        b.link(u, b.sink(data.draw(waits(20))), tile)
    rows, cols, r, c = (data.draw(st.integers(1, n)) for n in (10, 40, 10, 40))
    x = b.tensor("in", rows, cols, dtype)
    y = b.tensor("out", rows, cols, dtype, "output")
    shape = [-(-rows // r), -(-cols // c)]
    order = listed(
        data,
        data.draw(
            st.permutations([(i * r, j * c) for i in range(shape[0]) for j in range(shape[1])])
        ),
    )
    u = b.off_chip("load", x, r, c, rank=2, shape=shape, row_step=[r, 0], col_step=[0, c], **order)
    b.link(u, b.off_chip("store", y, r, c, **order), tile)
    compare(b, memory(data, dtype))


@many
@given(st.data())
def test_triggered_loads(data):
    """Loads that a stream starts: a loop nest a beat, or the logical
    tile that a number names; empty tensors among the triggers.
    """
    dtype = data.draw(st.sampled_from(["fp32", "bf16"]))
    tile = type(TILE)(T, dtype)
    b = Build(data.draw(st.integers(1, 2)))
    for i in range(data.draw(st.integers(1, 2))):
        stops = data.draw(ragged(2, closed=data.draw(st.booleans())))
        rows = data.draw(st.integers(1, 9))
        cols = data.draw(st.integers(1, 40))
        if data.draw(st.booleans()):
            x = b.tensor(
                f"x{i}", data.draw(st.integers(1, 12)), data.draw(st.integers(1, 40)), dtype
            )
            rank = data.draw(st.integers(0, 2))

            def draws(low, high, rank=rank):
                return [data.draw(st.integers(low, high)) for _ in range(rank)]

            shape = draws(0 if data.draw(st.integers(0, 9)) == 0 else 1, 2)
            order = (
                listed(
                    data,
                    [
                        (data.draw(st.integers(0, 12)), data.draw(st.integers(0, 40)))
                        for _ in range(math.prod(shape))
                    ],
                )
                if math.prod(shape)
                else {}
            )
            u = b.off_chip(
                "load",
                x,
                rows,
                cols,
                rank=rank,
                shape=shape,
                row_step=draws(0, 6),
                col_step=draws(0, 20),
                trigger="ref",
                **order,
            )
            payload = BufferRef(8)
            numbers = st.tuples(st.integers(0, 7), st.just(1))
        else:
            shift = data.draw(st.integers(0, 2))
            down = data.draw(st.integers(1, 3))
            x = b.tensor(
                f"x{i}", down * rows - data.draw(st.integers(0, rows - 1)), cols << shift, dtype
            )
            u = b.off_chip(
                "load",
                x,
                rows,
                cols,
                rank=0,
                shape=[],
                row_step=[],
                col_step=[],
                trigger="address",
                shift=shift,
            )
            payload = Scalar(8)
            numbers = st.tuples(st.integers(0, (down << shift) - 1), st.just(0))
        beats = data.draw(with_bare(stops, numbers))
        b.link(b.source(beats, data.draw(waits(len(beats) + 1))), u, payload)
        b.link(u, b.sink(data.draw(waits(20))), tile)
    compare(b, memory(data, dtype))


@many
@given(st.data())
def test_random_stores(data):
    """Tiles stored where numbers say, with empty groups among both; an
    acknowledgement starts a load of the whole tensor.
    """
    dtype = data.draw(st.sampled_from(["fp32", "bf16"]))
    tile = type(TILE)(T, dtype)
    b = Build(data.draw(st.integers(1, 2)))
    bands, width, shift, down = (
        data.draw(st.integers(low, high)) for low, high in ((1, 2), (1, 9), (0, 2), (1, 3))
    )
    rows = data.draw(st.integers(T * bands - T + 1, T * bands))
    cols = T * width
    y = b.tensor("y", down * rows, cols << shift, dtype, "output")
    addresses = []
    tiles = []
    for s in data.draw(ragged(2, closed=data.draw(st.booleans()))):
        if s and data.draw(st.integers(0, 3)) == 0:
            addresses.append((s, None))
            if data.draw(st.booleans()):
                tiles.append((2 + s, None))
            continue
        addresses.append((s, (data.draw(st.integers(0, (down << shift) - 1)), 0)))
        valid = data.draw(st.integers(0, rows))
        columns = data.draw(st.integers(0, cols))
        tiles += [
            (
                (2 + s if i == bands - 1 else 1) if j == width - 1 else 0,
                (min(max(valid - i * T, 0), T), min(max(columns - j * T, 0), T)),
            )
            for i in range(bands)
            for j in range(width)
        ]
    u = b.off_chip("random_store", y, rows, cols, shift=shift)
    b.link(b.source(addresses, data.draw(waits(len(addresses) + 1))), (u, 0), Scalar(6))
    b.link(b.source(tiles, data.draw(waits(len(tiles) + 1))), (u, 1), tile)
    at = u
    if data.draw(st.booleans()):
        at = b.off_chip(
            "load", y, y.rows, y.cols, rank=0, shape=[], row_step=[], col_step=[], trigger="ref"
        )
        b.link(u, at, Scalar(1))
    b.link(at, b.sink(data.draw(waits(20))), Scalar(1) if at == u else tile)
    compare(b, memory(data, dtype))
