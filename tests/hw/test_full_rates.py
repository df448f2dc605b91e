"""Every unit without stalls: a beat each II on the side that it limits, through ends of groups,
tiles and rows, and what an II above 1 costs where.
"""

import numpy as np
import pytest
from penstock.machine.beat import Scalar, Tile, Tuple, tile_bits
from penstock.machine.functions import reducing_stages
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.copies import Broadcast, Hop, Merge, Repeat, Split, Zip
from penstock.machine.kinds.rows import RowAppend, RowOffset, RowPack, RowUnpack
from penstock.machine.kinds.shape import Flatten, Promote, Reshape
from penstock.testing.bench import check
from penstock.testing.stimulus import random_tiles, stops

TILE = Tile(2, "fp32")
WIDE = Tile(4, "fp32")
WORD = Scalar(8)
PLAIN = random_tiles(TILE, [0] * 30 + [15])
BY_EIGHT = random_tiles(TILE, stops((4, 8)), full=True)


def tiles(shape, t=4, rows=None):
    """Full tiles, or tiles of ``rows`` valid rows."""
    tile = Tile(t, "fp32")
    return [
        (0, 15) if s == 15 else (tile_bits(tile, np.ones((t, t), np.float32), rows or t, t), s)
        for s in shape
    ]


IN_STEP = {  # one input beat a cycle, in and out in the same cycle
    "broadcast": (Broadcast(n=2), [TILE], [TILE] * 2, [PLAIN]),
    "hop": (Hop(n=2), [TILE], [TILE] * 2, [PLAIN]),
    "flatten": (Flatten(lo=0, hi=1), [TILE], [TILE], [BY_EIGHT]),
    "promote": (Promote(level=1), [TILE], [TILE], [BY_EIGHT]),
    "reshape": (Reshape(dim=0, chunk=4, pad_rows=1, pad_cols=1), [TILE], [TILE], [BY_EIGHT]),
    "zip": (Zip(), [TILE, TILE], [Tuple((TILE, TILE))], [BY_EIGHT, BY_EIGHT]),
    "row_append": (
        RowAppend(),
        [WIDE, WIDE],
        [WIDE],
        [tiles([2] * 12 + [15], rows=2), tiles([2] * 12 + [15], rows=1)],
    ),
    "row_offset": (
        RowOffset(),
        [WIDE, WORD],
        [WIDE],
        [tiles([0, 2] * 12 + [15]), [(3, 0)] * 12 + [(0, 15)]],
    ),
}


@pytest.mark.parametrize("case", IN_STEP)
def test_a_beat_in_and_out_every_cycle(case):
    kind, ins, outs, streams = IN_STEP[case]
    got, error = check(kind, ins, outs, streams, t=ins[0].t)
    assert error == 0
    for out in got[len(ins) :]:
        assert out.accept == got[0].take and len(out.accept) == len(streams[0])
    assert set(np.diff(got[0].take)) == {1}


OUT = {  # one output beat a cycle, however few beats come in
    "repeat": (Repeat(count=3), [TILE], [PLAIN]),
    "reshape with padding": (
        Reshape(dim=0, chunk=3, pad=True, pad_rows=1, pad_cols=1),
        [TILE],
        [random_tiles(TILE, stops((3, 5)))],
    ),
    "merge": (Merge(n=3), [TILE] * 3, [PLAIN] * 3),
    "row_unpack": (RowUnpack(depth=2, mask=True, rows=8), [WIDE], [tiles([0, 1, 0, 2] * 5 + [15])]),
    "columns of row_unpack": (
        RowUnpack(depth=2, mask=True, rows=8, along="cols"),
        [WIDE],
        [tiles([0, 1, 0, 2] * 5 + [15])],
    ),
}


@pytest.mark.parametrize("case", OUT)
def test_a_beat_out_every_cycle(case):
    kind, ins, streams = OUT[case]
    got, error = check(kind, ins, ins[:1], streams, t=ins[0].t)
    accept = got[-1].accept
    assert error == 0 and set(np.diff(accept[:-1])) == {1} and len(accept) > len(streams[0])


def test_beats_are_dealt_every_cycle():
    got, error = check(Split(n=2), [TILE], [TILE] * 2, [PLAIN])
    assert error == 0 and set(np.diff(got[0].take)) == {1}
    assert sorted(got[1].accept[:-1] + got[2].accept[:-1]) == got[0].take[:-1]


@pytest.mark.parametrize("lanes, interval", [(4, 1), (2, 2)])
@pytest.mark.parametrize("kept", [1, 3])
def test_accumulators_take_a_beat_each_interval(lanes, interval, kept):
    """Within a group one each II; between groups one cycle more, in which the first accumulator is
    read out; its result leaves L = II after the last beat, the others follow.
    """
    shape, n = ((5, 4, kept), 5) if kept > 1 else ((5, 4), 5)
    got, error = check(
        Accum(fn="add", reduce=2 if kept > 1 else 1, depth=4, lanes=lanes),
        [TILE],
        [TILE],
        [random_tiles(TILE, stops(shape), full=True)],
    )
    group = 4 * kept
    take = got[0].take
    assert error == 0
    for k in range(n):
        mine = take[k * group : (k + 1) * group]
        assert set(np.diff(mine)) == {interval}
        assert got[1].accept[k * kept] - mine[-1] == interval
        assert np.diff(got[1].accept[k * kept : (k + 1) * kept]).tolist() == [1] * (kept - 1)
        if k:
            assert mine[0] - take[k * group - 1] == interval + 1


def test_a_beat_waits_for_its_accumulator_in_a_deep_pipeline():
    """Three accumulators in turn: a beat each cycle, then a wait until the first of them has its
    sum.
    """
    got, error = check(
        Accum(fn="add", reduce=2, depth=4, lanes=4, deep=True),
        [TILE],
        [TILE],
        [random_tiles(TILE, stops((4, 3)), full=True)],
    )
    wait = 1 + reducing_stages(True) - 2
    take = got[0].take[:12]
    assert error == 0
    assert np.diff(take).tolist() == [1, 1, wait] * 3 + [1, 1]
    assert got[1].accept[0] - take[-1] == 1 + reducing_stages(True)


def test_rows_are_packed_every_cycle_but_two_a_band():
    """Single rows of two tiles: two cycles more where a full band (four rows) makes room for the
    next: one to see that it must leave, one in which its first tile does.
    """
    rows = [(bits, stop) for bits, stop in tiles([0, 2] * 16 + [15], rows=1)]
    rows[-2] = (rows[-2][0], 3)
    got, error = check(RowPack(depth=2, level=3, cols=8), [WIDE], [WIDE], [rows], t=4)
    gaps = np.diff(got[0].take[:-1])
    assert error == 0 and set(gaps) == {1, 3}
    assert np.flatnonzero(gaps > 1).tolist() == [7, 15, 23]
