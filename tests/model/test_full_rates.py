"""Every unit without stalls: a beat each II on the side that it limits, through ends of groups,
tiles and rows, and what an II above 1 costs where.
"""

import numpy as np
import pytest
from penstock.machine.beat import Scalar, Selector, Tuple
from penstock.machine.functions import reducing_stages
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map, Matmul, RowReduce
from penstock.machine.kinds.copies import Broadcast, Expand, Hop, Merge, Repeat, Split, Zip
from penstock.machine.kinds.numbers import Address, Generate, Signal
from penstock.machine.kinds.routing import EagerMerge, Partition, Reassemble
from penstock.machine.kinds.rows import RowAppend, RowOffset, RowPack, RowUnpack
from penstock.machine.kinds.shape import Flatten, Promote, Reshape
from penstock.testing.graphs import TILE, Build, T, configuration, run
from penstock.testing.stimulus import regular

WORD = Scalar(8)


def through(kind, ins, outs, *streams):
    """Traces of the inputs and of the outputs of a unit that nothing holds back."""
    b = Build()
    u = b.unit(kind)
    for k, (payload, stream) in enumerate(zip(ins, streams, strict=True)):
        b.link(b.source(stream), (u, k), payload)
    for k, payload in enumerate(outs):
        b.link((u, k), b.sink(), payload)
    channels = run(b, configuration(), values=False, trace=True).channels
    return channels[: len(ins)], channels[len(ins) :]


def tiles(stops, rows=T):
    return [(s, (rows, T)) for s in stops]


def words(stops, numbers=range(99)):
    return [(s, (n, 0)) for s, n in zip(stops, numbers, strict=False)]


PLAIN = tiles([0] * 30)
BY_EIGHT = tiles(regular((4, 8)))
NUMBERS = words([0] * 30)
PAIRS = words([0, 1] * 15)
ALL = words([0] * 15, [3] * 15)  # selectors of both streams
ROWS = tiles([0, 1, 0, 2] * 5)
IN_STEP = {  # a beat in and out every cycle, in and out in the same one
    "broadcast": (Broadcast(n=2), [TILE], [TILE] * 2, PLAIN),
    "hop": (Hop(n=2), [TILE], [TILE] * 2, PLAIN),
    "flatten": (Flatten(lo=0, hi=1), [TILE], [TILE], BY_EIGHT),
    "promote": (Promote(level=1), [TILE], [TILE], BY_EIGHT),
    "reshape": (Reshape(dim=0, chunk=4, pad_rows=1, pad_cols=1), [TILE], [TILE], BY_EIGHT),
    "zip": (Zip(), [TILE] * 2, [Tuple((TILE, TILE))], BY_EIGHT, BY_EIGHT),
    "row_append": (RowAppend(), [TILE] * 2, [TILE], tiles([2] * 12, 2), tiles([2] * 12, 1)),
    "row_offset": (
        RowOffset(),
        [TILE, WORD],
        [TILE],
        tiles([0, 2] * 12),
        words([0] * 12, [3] * 12),
    ),
    "partition": (Partition(n=2, rank=1), [WORD, Selector(2)], [WORD] * 2, PAIRS, ALL),
    "reassemble": (Reassemble(n=2, rank=1), [WORD, WORD, Selector(2)], [WORD], PAIRS, PAIRS, ALL),
    "eager_merge": (EagerMerge(n=2, rank=0), [WORD] * 2, [WORD, Selector(2)], NUMBERS, NUMBERS),
    "expand": (Expand(level=1), [WORD] * 2, [WORD], words([1] * 10), words([0, 0, 1] * 10)),
    "signal": (Signal(level=0), [WORD], [Scalar(1)], NUMBERS),
    "last": (Generate(fn="last"), [WORD], [Selector(2)], words([0] * 30, [1] * 30)),
    "address": (Address(stride=3), [WORD] * 2, [Scalar(32)], NUMBERS, NUMBERS),
}


@pytest.mark.parametrize("case", IN_STEP)
def test_a_beat_in_and_out_every_cycle(case):
    ins, outs = through(*IN_STEP[case])
    taken = {cycle for trace in ins for cycle in trace.take.tolist()}
    for out in outs:
        assert set(np.diff(out.accept)) == {1}
        assert set(out.accept.tolist()) <= taken


OUT = {  # a beat out every cycle, however few come in
    "repeat": (Repeat(count=3), [TILE], [TILE], PLAIN),
    "reshape with padding": (
        Reshape(dim=0, chunk=3, pad=True, pad_rows=1, pad_cols=1),
        [TILE],
        [TILE],
        tiles(regular((3, 5))),
    ),
    "merge": (Merge(n=3), [TILE] * 3, [TILE], PLAIN, PLAIN, PLAIN),
    "row_unpack": (RowUnpack(depth=2, mask=True, rows=8), [TILE], [TILE], ROWS),
    "columns of row_unpack": (
        RowUnpack(depth=2, mask=True, rows=8, along="cols"),
        [TILE],
        [TILE],
        ROWS,
    ),
    "addresses": (
        Generate(fn="address", stride=4),
        [WORD] * 2,
        [Scalar(32)],
        words([0] * 5),
        words([0] * 5, [4] * 5),
    ),
    "addresses of an expert": (
        Generate(fn="expert", stride=4, count=4),
        [Selector(4)],
        [Scalar(32)],
        words([0] * 5, [2] * 5),
    ),
}


@pytest.mark.parametrize("case", OUT)
def test_a_beat_out_every_cycle(case):
    ins, (out,) = through(*OUT[case])
    assert set(np.diff(out.accept[:-1])) == {1}
    assert len(out.accept) > len(ins[0].accept)


def test_beats_are_dealt_every_cycle():
    (given,), outs = through(Split(n=2), [TILE], [TILE] * 2, PLAIN)
    assert set(np.diff(given.take)) == {1}
    assert sorted([*outs[0].accept[:-1], *outs[1].accept[:-1]]) == given.take[:-1].tolist()


@pytest.mark.parametrize(
    "kind",
    [
        Map(fn="div", arity=2, lanes=16),
        Map(fn="add", arity=2, lanes=1),
        RowReduce(fn="max"),
        Matmul(rows_per_cycle=4),
        Matmul(rows_per_cycle=1),
        Accum(fn="add", reduce=1, depth=1, lanes=16, scan=True),
        Accum(fn="add", reduce=1, depth=1, lanes=8, scan=True),
    ],
)
def test_a_beat_every_interval_after_the_latency(kind):
    latency, interval = kind.pipeline(T)
    n = len(kind.inputs())
    ins, (out,) = through(kind, [TILE] * n, [TILE], *[PLAIN] * n)
    assert set(np.diff(ins[0].take[:-1])) == {interval}
    assert set((out.accept - ins[0].take)[:-1]) == {latency}


@pytest.mark.parametrize("lanes, interval", [(16, 1), (8, 2)])
@pytest.mark.parametrize("kept", [1, 3])
def test_accumulators_take_a_beat_each_interval(lanes, interval, kept):
    """Within a group one each II; between groups one cycle more, in which the first accumulator is
    read out; its result leaves L = II after the last beat, the others follow.
    """
    (given,), (out,) = through(
        Accum(fn="add", reduce=2 if kept > 1 else 1, depth=4, lanes=lanes),
        [TILE],
        [TILE],
        tiles(regular((5, 4, kept) if kept > 1 else (5, 4))),
    )
    take = given.take[:-1].reshape(5, 4 * kept)
    results = out.accept[:-1].reshape(5, kept)
    assert set(np.diff(take).flat) == {interval}
    assert set(results[:, 0] - take[:, -1]) == {interval}
    assert set(np.diff(results).flat) <= {1}
    assert set(take[1:, 0] - take[:-1, -1]) == {interval + 1}


def test_a_beat_waits_for_its_accumulator_in_a_deep_pipeline():
    """Three accumulators in turn: a beat each cycle, then a wait until the first of them has its
    sum.
    """
    (given,), (out,) = through(
        Accum(fn="add", reduce=2, depth=4, lanes=16, deep=True),
        [TILE],
        [TILE],
        tiles(regular((4, 3))),
    )
    wait = 1 + reducing_stages(True) - 2
    assert np.diff(given.take[:12]).tolist() == [1, 1, wait] * 3 + [1, 1]
    assert out.accept[0] - given.take[11] == 1 + reducing_stages(True)


def test_rows_are_packed_every_cycle_but_two_a_band():
    """Single rows of two tiles: two cycles more where a full band (four rows) makes room for the
    next: one to see that it must leave, one in which its first tile does.
    """
    stops = [0, 2] * 15 + [0, 3]
    (given,), _ = through(RowPack(depth=2, level=3, cols=8), [TILE], [TILE], tiles(stops, 1))
    gaps = np.diff(given.take[:-1])
    assert set(gaps) == {1, 3}
    assert np.flatnonzero(gaps > 1).tolist() == [7, 15, 23]


def test_columns_leave_from_the_cycle_after_a_column_of_tiles_is_complete():
    kind = RowUnpack(depth=2, mask=True, rows=4, along="cols")
    (given,), (out,) = through(kind, [TILE], [TILE], tiles([0, 2] * 4))
    assert out.accept[0] - given.take[1] == 1


def test_a_held_beat_costs_a_cycle_and_no_rate():
    """A beat leaves in its cycle until one ends a part; from then on with its successor."""
    stops = [int(k % 4 == 3) for k in range(64)]
    (given,), (out,) = through(Flatten(lo=0, hi=1, hold=True), [WORD], [WORD], words(stops))
    assert (out.accept - given.take).tolist() == [0] * 3 + [1] * 62
    assert set(np.diff(given.take)) == {1}
