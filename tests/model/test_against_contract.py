"""The compiled engine and the plain-Python contract agree on random unit graphs, waits and
machines: units that compute and shape.
"""

import pytest
from drawn import compare_writable, counts, many, ragged, regular, with_bare
from hypothesis import given, reject
from hypothesis import strategies as st
from penstock.machine.beat import Scalar, Tuple
from penstock.machine.errors import RunError
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map, Matmul
from penstock.machine.kinds.copies import Broadcast, Merge, Repeat, Split, Zip
from penstock.machine.kinds.rows import RowAppend, RowPack, RowUnpack
from penstock.machine.kinds.shape import Flatten, Promote, Reshape
from penstock.testing.graphs import FULL, TILE, Build, T, compare, configuration, run
from penstock.testing.strategies import waits


@st.composite
def shape_op(draw, b):
    kind = draw(
        st.sampled_from(["flatten", "promote", "outermost", "reshape", "repeat", "map", "pass"])
    )
    if kind == "flatten":
        lo = draw(st.integers(0, 2))
        return b.unit(Flatten(lo=lo, hi=lo + draw(st.integers(1, 2))))
    if kind in ("promote", "outermost"):
        return b.unit(Promote(level=draw(st.integers(0, 4)), outermost=kind == "outermost"))
    if kind == "reshape":
        dim = draw(st.integers(0, 2))
        return b.unit(
            Reshape(
                dim=dim,
                chunk=draw(st.integers(1, 4)),
                pad=draw(st.booleans()),
                pad_rows=draw(st.integers(1, 2)) if dim == 2 else 1,
                pad_cols=draw(st.integers(1, 3)) if dim else 1,
            )
        )
    if kind == "repeat":
        return b.unit(Repeat(count=draw(st.integers(1, 4))))
    if kind == "map":
        return b.unit(
            Map(
                fn=draw(st.sampled_from(["silu", "cast_fp32"])),
                arity=1,
                lanes=draw(st.sampled_from([16, 4])),
            )
        )
    return b.unit(Broadcast(n=1))


@many
@given(st.data())
def test_deep_channels(data):
    """They fill up, run dry and fill up again; tiles keep their values."""
    b = Build(data.draw(st.integers(5, 40)))
    stops = [data.draw(st.integers(0, 1)) for _ in range(data.draw(st.integers(1, 90)))] + [1]
    beats = [(s, data.draw(counts)) for s in stops]
    pause = data.draw(st.integers(0, 90))
    at = b.source(beats, [i + pause * (i // 30) for i in range(len(beats) + 1)])
    op = b.unit(Broadcast(n=1))
    b.link(at, op)
    late = data.draw(st.integers(0, 120))
    every = data.draw(st.integers(1, 3))
    b.link(op, b.sink([late + every * i for i in range(len(beats) + 1)]))
    compare(b, configuration())
    first, second = run(b, configuration(), trace=True).channels
    assert first.digest.tolist() == second.digest.tolist()


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
        Reshape(
            dim=dim,
            chunk=data.draw(st.integers(1, 4)),
            pad=True,
            pad_rows=data.draw(st.integers(1, 2)) if dim else 1,
            pad_cols=data.draw(st.integers(1, 3)) if dim else 1,
            flags=dim,
        )
    )
    b.link(b.source(beats, data.draw(waits(len(beats) + 1))), u)
    b.link(u, b.sink(data.draw(waits(30))))
    b.link((u, 1), b.sink(data.draw(waits(30))), Scalar(1))
    compare(b, configuration())


@many
@given(st.data())
def test_forks_and_joins(data):
    """broadcast or split, two paths of different length, then zip and a tuple map, a two-input map,
    a matmul, or merge.
    """
    b = Build(data.draw(st.integers(1, 3)))
    beats = data.draw(with_bare(data.draw(ragged(2)), st.just(FULL)))
    at = b.source(beats, data.draw(waits(len(beats) + 1)))
    join = data.draw(st.sampled_from(["zip", "map", "matmul", "merge"]))
    fork = b.unit(Split(n=2) if join == "merge" else Broadcast(n=2))
    b.link(at, fork)
    lanes = st.sampled_from([16, 8, 2])
    ends = []
    for i in range(2):
        end = (fork, i)
        for _ in range(data.draw(st.integers(0, 2))):
            m = b.unit(
                Map(
                    fn=data.draw(st.sampled_from(["silu", "cast_fp32"])),
                    arity=1,
                    lanes=data.draw(lanes),
                )
            )
            b.link(end, m)
            end = m
        ends.append(end)
    if join == "matmul":
        j = b.unit(
            Matmul(
                rows_per_cycle=data.draw(st.sampled_from([1, 2, 4])),
                transposed=data.draw(st.booleans()),
            )
        )
    elif join == "map":
        j = b.unit(Map(fn="mul", arity=2, lanes=data.draw(lanes)))
    else:
        j = b.unit(Merge(n=2) if join == "merge" else Zip())
    for i, end in enumerate(ends):
        b.link(end, (j, i))
    if join == "zip":
        m = b.unit(Map(fn="add", arity=2, lanes=data.draw(lanes), tuple_in=True))
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
        Accum(
            fn="add",
            reduce=reduce,
            depth=81,
            lanes=data.draw(st.sampled_from([16, 8, 4])),
            deep=data.draw(st.booleans()),
        )
    )
    b.link(at, a)
    b.link(a, b.sink(data.draw(waits(30))))
    compare(b, configuration())


def test_a_bare_beat_within_a_group_waits_for_the_interval_of_an_empty_one_before_it():
    """The empty group's tiles are in the pipeline for longer than the interval."""
    b = Build()
    at = b.source([(4, None), (3, None), (3, (1, 1)), (4, (1, 1))], [0] * 5)
    a = b.unit(
        Accum(fn="add", reduce=0b1100, depth=9, lanes=4, init_rows=9, init_cols=3, deep=True)
    )
    b.link(at, a)
    b.link(a, b.sink([0] * 30))
    compare(b, configuration())


@many
@given(st.data())
def test_accum_of_ragged_groups_and_of_none(data):
    """Groups of tiles of 1 x `width` with random numbers of tiles, some of them empty; partly valid
    tiles.
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
        Accum(
            fn=data.draw(st.sampled_from(["add", "max"])),
            reduce=sum(1 << 2 + d for d in range(rank)),
            depth=9,
            lanes=data.draw(st.sampled_from([16, 4])),
            init_rows=rows,
            init_cols=4 * width - 1 if rows else 0,
            deep=data.draw(st.booleans()),
            **scan,
        )
    )
    b.link(at, a)
    b.link(a, b.sink(data.draw(waits(30))))
    compare(b, configuration())


@many
@given(st.data())
def test_accum_of_tiles_that_differ(data):
    """Random stops: the passes over a reduced dimension visit the same accumulators, or both sides
    tell the fault.
    """
    beats = [(s, FULL) for s in data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=14))]
    b = Build(2)
    at = b.source(beats, [0] * (len(beats) + 1))
    scan = {"scan": True} if data.draw(st.booleans()) else {}
    a = b.unit(
        Accum(
            fn="add",
            reduce=data.draw(st.sampled_from([1, 2, 4, 6, 10])),
            depth=20,
            lanes=16,
            **scan,
        )
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
    """Columns of tiles one by one, and packed again: tiles of `high` x `wide` physical ones, column
    by column, some without a valid row or column.
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
                if not all(valid) and not data.draw(st.booleans()):
                    valid = (0, 0)
                stop = 1 if j < wide - 1 else 2 + s
                stops.append((stop if i == high - 1 else 0, valid))
    b = Build(data.draw(st.integers(1, 3)))
    u = b.unit(
        RowUnpack(
            depth=high,
            mask=data.draw(st.booleans()),
            rows=data.draw(st.integers((wide - 1) * T + 1, wide * T)),
            along="cols",
        )
    )
    b.link(b.source(stops, data.draw(waits(len(stops) + 1))), u)
    if data.draw(st.booleans()):  # and packed again, of one logical tile or of several
        pack = b.unit(
            RowPack(
                depth=high,
                level=data.draw(st.integers(3, 5)),
                bands=data.draw(st.sampled_from([0, 3])),
                cols=high * T - 1,
                along="cols",
            )
        )
        b.link(u, pack)
        u = pack
    b.link(u, b.sink(data.draw(waits(60))))
    compare(b, configuration())


@many
@given(st.data())
def test_rows_of_tiles(data):
    """Rows packed to bands, in groups of several, one or none, and streamed again."""
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
    pack = b.unit(RowPack(depth=3, level=3, bands=bands, cols=T * width - 1))
    b.link(at, pack)
    at = pack
    if data.draw(st.booleans()):
        mask = bands == 0 or data.draw(st.booleans())
        unpack = b.unit(RowUnpack(depth=3, mask=mask, rows=4 * T))
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
            ends = end if band else 1
            high = min(max(valid - band * T, 0), T)
            tiles += [(0 if j < width - 1 else ends, (high, T)) for j in range(width)]
        rows += [(0 if j < width - 1 else end, (1, T)) for j in range(width)]
    b = Build(data.draw(st.integers(1, 3)))
    u = b.unit(RowAppend())
    for i, beats in enumerate((tiles, rows)):
        b.link(b.source(beats, data.draw(waits(len(beats) + 1))), (u, i))
    b.link(u, b.sink(data.draw(waits(20))))
    compare(b, configuration())
