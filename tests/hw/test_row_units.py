"""Rows and columns of tiles, packed, unpacked and appended: in order, none lost."""

import numpy as np
import pytest
from penstock.machine.beat import Tile, tile_bits, tile_of
from penstock.machine.faults import Fault
from penstock.machine.kinds.rows import RowAppend, RowPack, RowUnpack
from penstock.testing.bench import check, faults
from penstock.testing.patterns import PAIRS

stalls = pytest.mark.parametrize("source, sink", PAIRS)
pytestmark = pytest.mark.xdist_group("row_units")  # each bench is built once, by one worker


def rows_stream(rng, payload, width, groups):
    """Tiles of a few rows, ``width`` physical ones each, in groups; some groups empty.

    Values count up, so that order shows.
    """
    out = []
    value = 0
    for g in range(groups):
        n = int(rng.integers(0, 2 * payload.t + 1))
        end = 3 + (g == groups - 1)
        for i in range(n):
            rows = 0 if rng.random() < 0.2 else 1
            last = end if i == n - 1 else 2
            for j in range(width):
                value += 1
                stop = 0 if j < width - 1 else last
                out.append(
                    (
                        tile_bits(
                            payload,
                            np.full((payload.t,) * 2, value, np.float32),
                            rows,
                            payload.t if rows else 0,
                        ),
                        stop,
                    )
                )
        if n == 0:
            out.append((None, end))
    return [*out, (0, 15)]


@stalls
@pytest.mark.parametrize("bands", [0, 3])
@pytest.mark.parametrize("unit", ["row_pack", "row_unpack"])
def test_rows(unit, bands, source, sink):
    """Rows come out in order, none lost: packed into bands, and from bands again."""
    tile = Tile(4, "fp32")
    stream = rows_stream(np.random.default_rng(bands), tile, 2, 7) * 2
    packed, error = check(
        RowPack(depth=2, level=3, bands=bands, cols=8),
        [tile],
        [tile],
        [stream],
        t=4,
        source=source,
        sink=sink,
        depth=2,
    )
    assert error == 0
    given = [
        tile_of(tile, bits)[0][0, 0]
        for bits, stop in stream
        if stop != 15 and bits and tile_of(tile, bits)[1]
    ]
    bands_out = [tile_of(tile, bits) for bits, _, data in packed[1].beats if data]
    assert sorted(x for a, rows, _ in bands_out for x in a[:rows, 0]) == sorted(given)
    if unit == "row_unpack":
        again = [(bits if data else None, stop) for bits, stop, data in packed[1].beats]
        got, error = check(
            RowUnpack(depth=2, mask=bands == 0, rows=12),
            [tile],
            [tile],
            [again],
            t=4,
            source=source,
            sink=sink,
        )
        assert error == 0
        assert [
            tile_of(tile, bits)[0][0, 0]
            for bits, _, data in got[1].beats
            if data and tile_of(tile, bits)[1]
        ] == given


@stalls
@pytest.mark.parametrize("mask", [False, True])
def test_columns(mask, source, sink):
    """The columns of tiles of 7 x 6 elements, of which 5 x `n` are valid, in order and none lost;
    padding is not among them.
    """
    tile = Tile(4, "fp32")
    rng = np.random.default_rng(3)
    whole = [rng.integers(1, 99, (5, n)).astype(np.float32) for n in (6, 5, 2, 0, 4)]
    stream = []
    want = []
    for k, a in enumerate(whole):
        end = 3 if k % 2 or k == 4 else 2
        for j in (0, 4):
            for i in (0, 4):
                part = np.zeros((4, 4), np.float32)
                here = a[i : i + 4, j : j + 4]
                part[: here.shape[0], : here.shape[1]] = here
                stop = end if j else 1
                stream.append((tile_bits(tile, part, *here.shape), stop if i else 0))
        padding = 0 if mask else 6 - a.shape[1]
        want += [[*map(float, column)] for column in a.T] + [[0.0] * 5] * padding
    got, error = check(
        RowUnpack(depth=2, mask=mask, rows=6, along="cols"),
        [tile],
        [tile],
        [[*stream, (0, 15)]],
        t=4,
        source=source,
        sink=sink,
        depth=2,
    )
    assert error == 0
    out = [(tile_of(tile, bits), stop) for bits, stop, data in got[1].beats if data]
    assert [
        [*upper[:, 0], lower[0, 0]]
        for ((upper, _, _), _), ((lower, _, _), _) in zip(out[::2], out[1::2], strict=True)
    ] == want
    assert all(stop == 1 for _, stop in out[::2]) and all(stop >= 2 for _, stop in out[1::2])
    if mask:  # packed again, the columns of two tiles side by side
        again = [(bits if data else None, stop) for bits, stop, data in got[1].beats]
        got, error = check(
            RowPack(depth=2, level=4, cols=7, along="cols"),
            [tile],
            [tile],
            [again],
            t=4,
            source=source,
            sink=sink,
        )
        assert error == 0
        out = [tile_of(tile, bits) for bits, _, data in got[1].beats if data]
        columns = [
            [*upper[:, j], lower[0, j]]
            for (upper, _, n), (lower, _, _) in zip(out[::2], out[1::2], strict=True)
            for j in range(n)
        ]
        assert columns == want and [n for _, _, n in out[::2]] == [4, 4, 3, 2, 4]


def test_columns_at_full_rate():
    """A tile a cycle leaves, from the cycle after a column of tiles is complete."""
    tile = Tile(4, "fp32")
    stream = [
        (tile_bits(tile, np.ones((4, 4), np.float32), 4, 4), 0 if k % 2 == 0 else 2)
        for k in range(8)
    ]
    got, error = check(
        RowUnpack(depth=2, mask=True, rows=4, along="cols"),
        [tile],
        [tile],
        [[*stream, (0, 15)]],
        t=4,
        depth=2,
    )
    assert error == 0 and got[1].accept[0] - got[0].take[1] == 1
    assert np.diff(got[1].accept[:32]).tolist() == [1] * 31


@stalls
def test_row_append(source, sink):
    """Tiles of two bands, the first one full in half of them."""
    tile = Tile(4, "fp32")
    rng = np.random.default_rng(0)
    tiles = []
    rows = []
    for i in range(6):
        valid = int(rng.integers(0, 8))
        end = 2 + (i % 3 == 2)
        for band in range(2):
            count = min(max(valid - 4 * band, 0), 4)
            for stop in (0, end if band else 1):
                values = rng.integers(1, 9, (4, 4)).astype(np.float32)
                tiles.append((tile_bits(tile, values, count, 4), stop))
        rows += [(tile_bits(tile, np.full((4, 4), 100 + i, np.float32), 1, 4), s) for s in (0, end)]
    tiles = [*tiles, (0, 15)]
    rows = [*rows, (0, 15)]
    got, error = check(
        RowAppend(), [tile, tile], [tile], [tiles * 2, rows * 2], t=4, source=source, sink=sink
    )
    assert error == 0
    out = [tile_of(tile, bits) for bits, _, data in got[2].beats if data]
    assert sorted(a[rows - 1, 0] for a, rows, _ in out if rows and a[rows - 1, 0] >= 100) == sorted(
        100.0 + i for i in range(6) for _ in range(4)
    )


def test_a_row_for_which_its_tensor_has_no_room_is_reported():
    tile = Tile(2, "fp32")
    full = tile_bits(tile, np.ones((2, 2), np.float32), 2, 2)
    streams = [[(full, 2)], [(full, 2)]]
    assert faults(RowAppend(), [tile, tile], [tile], streams) == 1 << Fault.ROWS
