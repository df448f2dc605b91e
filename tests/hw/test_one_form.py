"""A stream has one form: what a flatten gives for nested lists is their encoding, whatever parts of
them are empty, on the model, its plain meaning and the RTL.
"""

import numpy as np
import pytest
from penstock.machine.beat import STOP_DONE, Scalar
from penstock.machine.kinds.shape import Flatten
from penstock.testing.bench import check, faults
from penstock.testing.graphs import Build, compare, configuration
from penstock.testing.patterns import PAIRS, releases
from penstock.testing.stimulus import encoded, lists, merged

NUMBER = Scalar(8)
MERGED = [(lo, hi) for hi in range(1, 4) for lo in range(hi)]
pytestmark = pytest.mark.xdist_group("units")


def writable(nested):
    return not isinstance(nested, list) or (nested != [[]] and all(map(writable, nested)))


def drawn(seed, lo, hi, count):
    """(beats in, beats out) of random lists, of which all that is merged can be written."""
    rng = np.random.default_rng([seed, lo, hi])
    while count:
        rank = int(rng.integers(hi, 5))
        nested = lists(rng, rank)
        flat = merged(nested, rank, lo, hi)
        if all(map(writable, flat)):
            count -= 1
            yield encoded(nested, rank), encoded(flat, rank - (hi - lo))


def end(beats):
    return [*map(tuple, beats), (0, STOP_DONE)]


@pytest.mark.parametrize("lo, hi", MERGED)
def test_flattened_lists_on_the_model(lo, hi):
    for seed in range(8):
        b = Build()
        pairs = list(drawn(seed, lo, hi, 60))
        ends = []
        for k, (beats, _) in enumerate(pairs):
            given = [(s, None if v is None else (v, 0)) for v, s in beats]
            late = [("always", "random", "bursty")[(k + i) % 3] for i in (0, k // 3)]
            waits = [releases(len(beats) + 1, pattern, k).tolist() for pattern in late]
            u = b.unit(Flatten(lo=lo, hi=hi, hold=True))
            b.link(b.source(given, waits[0]), u, NUMBER)
            ends.append(b.link(u, b.sink(waits[1]), NUMBER))
        run = compare(b, configuration())
        for channel, (_, want) in zip(ends, pairs, strict=True):
            got = run.channels[channel]
            assert got.stop.tolist() == [s for _, s in end(want)]
            assert got.data.tolist() == [int(v is not None) for v, _ in want] + [0]


@pytest.mark.parametrize("source, sink", PAIRS)
@pytest.mark.parametrize("lo, hi", MERGED)
def test_flattened_lists_on_the_rtl(lo, hi, source, sink):
    pairs = list(drawn(100, lo, hi, 100))
    stream = [beat for beats, _ in pairs for beat in end(beats)]
    params = {"lo": lo, "hi": hi, "hold": True}
    got, error = check(Flatten(**params), [NUMBER], [NUMBER], [stream], source=source, sink=sink)
    assert error == 0
    seen = [(bits if data else None, stop) for bits, stop, data in got[1].beats]
    assert seen == [(None if s == STOP_DONE else v, s) for _, beats in pairs for v, s in end(beats)]


def test_an_empty_group_alone_in_its_group_is_reported():
    held = Flatten(lo=0, hi=1, hold=True)
    alone = [(1, 3), (None, 1), (None, 3)]  # [[[[1]]], [[[], []]]]
    assert faults(held, [NUMBER], [NUMBER], [alone]) == 1 << 4
    assert faults(held, [NUMBER], [NUMBER], [[(1, 2), *alone[1:]]]) == 0


@pytest.mark.parametrize("lo", [0, 1])
def test_an_empty_part_that_ends_a_group_is_reported_where_nothing_is_held(lo):
    params = {"lo": lo, "hi": lo + 1}
    stream = [(1, lo + 1), (None, lo + 2)]
    assert faults(Flatten(**params), [NUMBER], [NUMBER], [stream]) == 1 << 4


def test_a_held_beat_costs_a_cycle_and_no_rate():
    """A beat leaves in its cycle until one ends a part; from then on with its successor."""
    stream = end([[k, int(k % 4 == 3)] for k in range(64)])
    got, _ = check(Flatten(lo=0, hi=1, hold=True), [NUMBER], [NUMBER], [stream])
    wait = [b - a for a, b in zip(got[0].take, got[1].accept, strict=True)]
    assert wait == [0] * 3 + [1] * 62
    assert np.ptp(got[0].take) == len(stream) - 1
