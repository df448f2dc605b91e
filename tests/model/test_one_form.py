"""A stream has one form: what a flatten gives for nested lists is their encoding, whatever parts of
them are empty, on the model and its plain meaning.
"""

import numpy as np
import pytest
from penstock.machine.beat import STOP_DONE, Scalar
from penstock.machine.kinds.shape import Flatten
from penstock.testing.graphs import Build, configuration, run
from penstock.testing.patterns import releases
from penstock.testing.stimulus import encoded, lists, merged

NUMBER = Scalar(8)
MERGED = [(lo, hi) for hi in range(1, 4) for lo in range(hi)]


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
        r = run(b, configuration(), values=False, trace=True)
        for channel, (_, want) in zip(ends, pairs, strict=True):
            got = r.channels[channel]
            assert got.stop.tolist() == [s for _, s in end(want)]
            assert got.data.tolist() == [int(v is not None) for v, _ in want] + [0]
