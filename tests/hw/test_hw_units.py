"""Every unit keeps the timing contract beat for beat, under every pair of stall patterns, over two
runs.
"""

import numpy as np
import pytest
from penstock.machine.beat import BufferRef, Tile, Tuple, tile_bits, tile_of
from penstock.machine.faults import Fault
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map, Matmul, RowReduce
from penstock.machine.kinds.copies import Broadcast, Hop, Merge, Repeat, Split, Zip
from penstock.machine.kinds.shape import Flatten, Promote, Reshape
from penstock.model import functions
from penstock.testing.bench import check, faults
from penstock.testing.patterns import PAIRS
from penstock.testing.stimulus import random_tiles, stops, with_bare

TILE = Tile(2, "fp32")
BF16 = Tile(2, "bf16")
stalls = pytest.mark.parametrize("source, sink", PAIRS)
pytestmark = pytest.mark.xdist_group("units")  # each bench is built once, by one worker

SHAPES = {
    "flatten": (Flatten(lo=0, hi=1), (2, 3, 4)),
    "flatten_outer": (Flatten(lo=1, hi=3), (2, 2, 2, 3)),
    "promote_plain": (Promote(level=0), (3, 5)),
    "promote_inner": (Promote(level=1), (3, 5)),
    "promote_outermost": (Promote(level=3, outermost=True), (3, 5)),
    "reshape": (Reshape(dim=1, chunk=2, pad_rows=1, pad_cols=1), (2, 4, 3)),
    "reshape_padded": (Reshape(dim=0, chunk=3, pad=True, pad_rows=1, pad_cols=1), (3, 7)),
    "reshape_padded_tiles": (
        Reshape(dim=2, chunk=2, pad=True, pad_rows=2, pad_cols=3),
        (2, 3, 2, 3),
    ),
    "repeat": (Repeat(count=3), (2, 5)),
    "repeat_once": (Repeat(count=1), (2, 5)),
}


@stalls
@pytest.mark.parametrize("case", SHAPES)
def test_shape_unit(case, source, sink):
    kind, shape = SHAPES[case]
    _, error = check(
        kind, [TILE], [TILE], [random_tiles(TILE, stops(shape))], source=source, sink=sink
    )
    assert error == 0


BARE = {case: SHAPES[case] for case in SHAPES if "flatten" not in case} | {
    "reshape_twice": (Reshape(dim=1, chunk=2, pad_rows=1, pad_cols=1), (2, 4, 2)),
    "split": (Split(n=1), (3, 4)),
    "merge": (Merge(n=1), (3, 4)),
    "broadcast": (Broadcast(n=1), (3, 4)),
    "hop": (Hop(n=1), (3, 4)),
    "map": (Map(fn="cast_fp32", arity=1, lanes=2), (3, 4)),
    "matmul": (Matmul(rows_per_cycle=1, transposed=True), (3, 4)),
    "accum": (Accum(fn="add", reduce=0b1, depth=2, lanes=4), (2, 3, 4)),
    "accum_tiles": (
        Accum(fn="max", reduce=0b100, depth=4, lanes=4, init_rows=3, init_cols=3),
        (3, 3, 2, 2),
    ),
    "scan": (Accum(fn="add", reduce=0b100, depth=4, lanes=4, scan=True), (3, 3, 2, 2)),
    "scan_slow": (Accum(fn="max", reduce=0b1100, depth=4, lanes=1, scan=True), (2, 2, 2, 1, 2)),
    "accum_slow": (
        Accum(fn="add", reduce=0b1100, depth=4, lanes=1, init_rows=2, init_cols=4),
        (2, 2, 2, 1, 2),
    ),
}


@stalls
@pytest.mark.parametrize("case", BARE)
def test_bare_stops(case, source, sink):
    """Beats for empty tensors among the others."""
    kind, shape = BARE[case]
    inner = 2 if case in ("accum_tiles", "accum_slow", "scan", "scan_slow") else 0
    stream = with_bare(random_tiles(TILE, stops(shape)), 0, inner)
    n = len(kind.inputs())
    _, error = check(kind, [TILE] * n, [TILE], [stream] * n, source=source, sink=sink)
    assert error == 0


DEEP = {
    **{case: BARE[case] for case in ("matmul", "accum_tiles", "scan", "accum_slow")},
    "silu": (Map(fn="silu", arity=1, lanes=2), (3, 4)),
    "row_reduce": (RowReduce(fn="max"), (3, 4)),
    "accum_long": (Accum(fn="add", reduce=0b10, depth=9, lanes=4), (2, 3, 9)),
}


@pytest.mark.parametrize("case", DEEP)
def test_deep_pipelines(case):
    """Values, and every cycle, at full rate and with random stalls."""
    kind, shape = DEEP[case]
    n = len(kind.inputs())
    stream = random_tiles(TILE, stops(shape))
    for source, sink in (("always", "always"), ("random", "random")):
        _, error = check(
            kind.but(deep=True), [TILE] * n, [TILE], [stream] * n, source=source, sink=sink
        )
        assert error == 0


def test_open_chunk_is_padded_before_done():
    got, _ = check(
        Reshape(dim=0, chunk=4, pad=True, pad_rows=1, pad_cols=1),
        [TILE],
        [TILE],
        [random_tiles(TILE, ([0] * 6 + [15]) * 2)],
    )
    assert [stop for _, stop, _ in got[1].beats] == [0, 0, 0, 1, 0, 0, 0, 1, 15] * 2
    assert [bits != 0 for bits, _, _ in got[1].beats] == ([True] * 6 + [False] * 3) * 2


@stalls
def test_zip(source, sink):
    streams = [random_tiles(TILE, stops((3, 4)), 0), random_tiles(BF16, stops((3, 4)), 1)]
    got, error = check(
        Zip(), [TILE, BF16], [Tuple((TILE, BF16))], streams, source=source, sink=sink
    )
    assert error == 0
    assert [bits for bits, _, _ in got[2].beats] == [
        a | b << TILE.bits for (a, _), (b, _) in zip(*streams, strict=True)
    ]


@stalls
@pytest.mark.parametrize("payload", [TILE, BufferRef(8)], ids=["tile", "reference"])
def test_broadcast(payload, source, sink):
    stream = [(k * 5 % 8 if stop != 15 else 0, stop) for k, stop in enumerate(stops((3, 4)))]
    check(Broadcast(n=3), [payload], [payload] * 3, [stream], source=source, sink=sink)


@stalls
def test_split_and_merge(source, sink):
    stream = random_tiles(TILE, stops((7,)))
    got, _ = check(Split(n=3), [TILE], [TILE] * 3, [stream], source=source, sink=sink)
    parts = [[(bits, stop) for bits, stop, _ in trace.beats] for trace in got[1:]]
    got, _ = check(Merge(n=3), [TILE] * 3, [TILE], parts, source=source, sink=sink)
    assert [(bits, stop) for bits, stop, _ in got[3].beats] == stream


def _values(got, payload, channel):
    return [tile_of(payload, bits)[0] for bits, _, data in got[channel].beats if data]


@stalls
@pytest.mark.parametrize("fn, lanes", [("add", 4), ("add", 1), ("div", 2), ("mul", 4)])
def test_map_of_two(fn, lanes, source, sink):
    streams = [random_tiles(TILE, stops((2, 4)), 0), random_tiles(TILE, stops((2, 4)), 1)]
    got, error = check(
        Map(fn=fn, arity=2, lanes=lanes), [TILE, TILE], [TILE], streams, source=source, sink=sink
    )
    assert error == 0
    for a, b, o, (_, rows, cols) in zip(
        _values(got, TILE, 0),
        _values(got, TILE, 1),
        _values(got, TILE, 2),
        [tile_of(TILE, bits) for bits, _, data in got[0].beats if data],
        strict=True,
    ):
        want = np.zeros((2, 2), np.float32)
        want[:rows, :cols] = functions.lookup(fn).reference(a, b)[:rows, :cols]
        assert o.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    "fn, inputs, output",
    [("exp", TILE, TILE), ("cast_bf16", TILE, BF16), ("cast_fp32", BF16, TILE)],
)
@pytest.mark.parametrize("lanes", [1, 4])
def test_map_of_one(fn, inputs, output, lanes):
    got, _ = check(
        Map(fn=fn, arity=1, lanes=lanes),
        [inputs],
        [output],
        [random_tiles(inputs, stops((2, 4)), full=True)],
        source="random",
        sink="random",
    )
    for a, o in zip(_values(got, inputs, 0), _values(got, output, 1), strict=True):
        assert o.tobytes() == functions.lookup(fn).reference(a).tobytes()


def test_map_of_a_tuple_equals_map_of_two():
    a = random_tiles(TILE, stops((2, 4)), 0)
    b = random_tiles(TILE, stops((2, 4)), 1)
    pairs = [(x | y << TILE.bits, stop) for (x, stop), (y, _) in zip(a, b, strict=True)]
    params = {"fn": "sub", "arity": 2, "lanes": 2}
    one, _ = check(Map(**params, tuple_in=True), [Tuple((TILE, TILE))], [TILE], [pairs])
    two, _ = check(Map(**params), [TILE, TILE], [TILE], [a, b])
    assert one[1].beats == two[2].beats


@pytest.mark.parametrize("spread", ["cols", "rows", "both"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_map_of_a_tile_and_its_part(spread, lanes):
    streams = [
        random_tiles(TILE, stops((2, 4)), 0),
        random_tiles(TILE, stops((2, 4)), 1, full=True),
    ]
    got, _ = check(
        Map(fn="mul", arity=2, lanes=lanes, spread=spread),
        [TILE, TILE],
        [TILE],
        streams,
        source="random",
    )
    part = {"cols": np.s_[:, :1], "rows": np.s_[:1, :], "both": np.s_[:1, :1]}[spread]
    for a, b, o in zip(
        _values(got, TILE, 0), _values(got, TILE, 1), _values(got, TILE, 2), strict=True
    ):
        assert np.array_equal(o, a * b[part])


def test_map_with_a_constant():
    got, _ = check(
        Map(fn="mul", arity=2, lanes=2, constant=int(np.float32(0.125).view(np.uint32))),
        [TILE],
        [TILE],
        [random_tiles(TILE, stops((2, 4)))],
        sink="random",
    )
    assert all(
        np.array_equal(o, a / 8)
        for a, o in zip(_values(got, TILE, 0), _values(got, TILE, 1), strict=True)
    )


@stalls
@pytest.mark.parametrize("fn, total, none", [("add", np.sum, 0), ("max", np.max, -np.inf)])
def test_row_reduce(fn, total, none, source, sink):
    tile = Tile(4, "fp32")
    got, error = check(
        RowReduce(fn=fn),
        [tile],
        [tile],
        [random_tiles(tile, stops((2, 6)))],
        t=4,
        source=source,
        sink=sink,
    )
    assert error == 0
    for (i, _, full), (o, _, _) in zip(got[0].beats, got[1].beats, strict=True):
        if full:
            a, rows, cols = tile_of(tile, i)
            x, out_rows, out_cols = tile_of(tile, o)
            assert (out_rows, out_cols) == (rows, 1)
            assert (
                np.array_equal(x[:rows, 0], total(a[:rows, :cols], axis=1, initial=none))
                and not x[rows:].any()
                and not x[:, 1:].any()
            )


@stalls
@pytest.mark.parametrize(
    "dtype, rows, transposed", [("bf16", 2, False), ("fp32", 1, True), ("fp32", 2, True)]
)
def test_matmul(dtype, rows, transposed, source, sink):
    tile = Tile(2, dtype)
    streams = [
        random_tiles(tile, stops((2, 4)), 0),
        random_tiles(tile, stops((2, 4)), 1, full=True),
    ]
    got, error = check(
        Matmul(rows_per_cycle=rows, transposed=transposed),
        [tile, tile],
        [TILE],
        streams,
        source=source,
        sink=sink,
    )
    assert error == 0
    for a, b, o in zip(
        _values(got, tile, 0), _values(got, tile, 1), _values(got, TILE, 2), strict=True
    ):
        assert np.array_equal(o, a @ (b.T if transposed else b))


REDUCTIONS = {
    "inner": (0b1, (3, 5), lambda x: x.sum(1)),
    "k_of_mkn": (0b10, (2, 3, 4), lambda x: x.sum(1)),
    "interleaved": (0b1010, (2, 3, 2, 2, 2), lambda x: x.sum((1, 3))),
    "two_inner": (0b11, (3, 2, 4), lambda x: x.sum((1, 2))),
    "outer_kept": (0b100, (2, 3, 2, 2), lambda x: x.sum(1)),
}


@stalls
@pytest.mark.parametrize("case", REDUCTIONS)
@pytest.mark.parametrize("lanes", [4, 1])
def test_accum(case, lanes, source, sink):
    mask, shape, total = REDUCTIONS[case]
    stream = random_tiles(TILE, stops(shape), full=True)
    got, error = check(
        Accum(fn="add", reduce=mask, depth=8, lanes=lanes),
        [TILE],
        [TILE],
        [stream],
        source=source,
        sink=sink,
    )
    assert error == 0
    values = np.array(_values(got, TILE, 0)).reshape(2, *shape, 2, 2)
    want = np.concatenate([total(run).reshape(-1, 2, 2) for run in values])
    assert np.array_equal(_values(got, TILE, 1), want)


@pytest.mark.parametrize(
    "reduce, stops_",
    [
        (0b100, [0, 2, 0, 1, 3]),
        (0b100, [0, 1, 2, 3]),
        (0b1010, [0, 1, 0, 2, 0, 3, 0, 1, 0, 2, 0, 2, 0, 4]),
        (0b1010, [0, 2, 0, 3, 0, 4]),
    ],
)
def test_tiles_of_a_group_that_differ(reduce, stops_):
    """A reduction over tiles that do not take as many physical tiles each, and in the same rows, is
    told.
    """
    assert (
        faults(
            Accum(fn="add", reduce=reduce, depth=8, lanes=4),
            [TILE],
            [TILE],
            [[(0, s) for s in stops_]],
        )
        == 1
    )


@pytest.mark.parametrize("lanes", [4, 2])
def test_scan(lanes):
    """Running sums at one beat every II."""
    got, error = check(
        Accum(fn="add", reduce=1, depth=1, lanes=lanes, scan=True),
        [TILE],
        [TILE],
        [random_tiles(TILE, stops((3, 5)), full=True)],
    )
    assert error == 0
    values = np.array(_values(got, TILE, 0)).reshape(-1, 5, 2, 2)
    assert np.array_equal(np.array(_values(got, TILE, 1)).reshape(values.shape), values.cumsum(1))
    assert (
        set(np.diff(got[0].take[:15])) == {4 // lanes}
        and got[1].accept[0] - got[0].take[0] == 4 // lanes
    )


@pytest.mark.parametrize("fn, total", [("add", 3.0), ("max", 2.0)])
@pytest.mark.parametrize("lanes", [4, 1])
def test_accum_of_partly_valid_tiles(fn, total, lanes):
    """The result has the rows and columns of the largest; a tile counts as the identity where it
    has no value. An open group ends with Done.
    """
    one = np.full((2, 2), 1, np.float32)
    two = np.full((2, 2), 2, np.float32)
    stream = [
        (tile_bits(TILE, one, 1, 2), 0),
        (tile_bits(TILE, two, 2, 1), 1),
        (tile_bits(TILE, one, 1, 1), 0),
        (0, 15),
        (tile_bits(TILE, -two, 1, 1), 1),
        (0, 15),
    ]
    got, _ = check(Accum(fn=fn, reduce=1, depth=1, lanes=lanes), [TILE], [TILE], [stream])
    tiles = [tile_of(TILE, bits) for bits, _, data in got[1].beats if data]
    assert [t[1:] for t in tiles] == [(2, 2), (1, 1)]
    neither = -np.inf if fn == "max" else 0.0
    assert np.array_equal(tiles[0][0], [[total, 1], [2, neither]]) and np.array_equal(
        tiles[1][0], [[-2, 0], [0, 0]]
    )


@pytest.mark.parametrize(
    "kind, inputs",
    [
        (Flatten(lo=0, hi=0), [TILE]),
        (Promote(level=1, outermost=True), [TILE]),
        (Map(fn="div", arity=2, lanes=4), [TILE, TILE]),
        (Map(fn="add", arity=2, lanes=1), [TILE, TILE]),
        (RowReduce(fn="max"), [TILE]),
        (Matmul(rows_per_cycle=2), [TILE, TILE]),
        (Matmul(rows_per_cycle=1), [TILE, TILE]),
    ],
)
def test_full_rate(kind, inputs):
    latency, interval = kind.pipeline(2)
    streams = [random_tiles(tile, [0] * 30 + [15]) for tile in inputs]
    got, _ = check(kind, inputs, [TILE], streams)
    take = got[0].take
    accept = got[-1].accept
    held = int(getattr(kind, "outermost", False))
    assert np.all(np.diff(take) == interval)
    assert np.all(np.array(accept[: len(take) - held]) - take[held:] == latency)


@pytest.mark.parametrize(
    "kind, inputs, output",
    [
        (Zip(), [TILE, TILE], Tuple((TILE, TILE))),
        (Matmul(rows_per_cycle=2), [TILE, TILE], TILE),
        (Map(fn="add", arity=2, lanes=4), [TILE, TILE], TILE),
    ],
)
def test_stop_mismatch_is_reported(kind, inputs, output):
    streams = [[(0, 0), (0, 1), (0, 15)], [(0, 0), (0, 2), (0, 15)]]
    assert faults(kind, inputs, [output], streams) == 1


def test_accumulator_overflow_is_reported():
    assert (
        faults(Accum(fn="add", reduce=0b10, depth=2, lanes=4), [TILE], [TILE], [[(0, 0)] * 3]) == 2
    )


def test_an_end_beside_a_beat_is_reported():
    """The stop levels are equal: data alone distinguish the two."""
    streams = [[(0, 1), (0, 15)], [(None, 1), (0, 15)]]
    assert faults(Zip(), [TILE, TILE], [Tuple((TILE, TILE))], streams) == 1 << Fault.STOP
