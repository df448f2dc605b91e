"""Units that route keep the timing contract beat for beat, under every pair of stall patterns, over
two runs.
"""

import numpy as np
import pytest
from penstock.machine.beat import Scalar, Selector, Tile
from penstock.machine.kinds.copies import Expand
from penstock.machine.kinds.numbers import Address, Generate, Signal
from penstock.machine.kinds.routing import EagerMerge, Partition, Reassemble
from penstock.testing.bench import check, faults
from penstock.testing.patterns import PAIRS
from penstock.testing.routing import cases, streams_of

TILE = Tile(2, "fp32")
CASES = cases(2, "fp32")
pytestmark = pytest.mark.xdist_group("units")  # each bench is built once, by one worker


def two_runs(kind, ins, seed):
    """Streams of two runs, each with its Done."""
    runs = [streams_of(kind, np.random.default_rng([seed, i]), ins) for i in range(2)]
    return [[*a, (0, 15), *b, (0, 15)] for a, b in zip(*runs, strict=True)]


def pairs(case):
    """All pairs of stall patterns for one case of each kind, two for the others."""
    first = CASES[case][0] not in [kind for kind, *_ in CASES[:case]]
    return PAIRS if first else [("random", "late"), ("bursty", "random")]


@pytest.mark.parametrize(
    "case, source, sink", [(i, *pair) for i in range(len(CASES)) for pair in pairs(i)]
)
def test_unit(case, source, sink):
    kind, ins, outs = CASES[case]
    _, error = check(kind, ins, outs, two_runs(kind, ins, case), source=source, sink=sink)
    assert error == 0


def items(stops, numbers):
    return [*zip(numbers, stops, strict=True), (0, 15)]


WORD = Scalar(8)
N = 30
RATES = {
    "partition": (
        Partition(n=2, rank=1),
        [WORD, Selector(2)],
        [WORD] * 2,
        [items([0, 1] * 15, range(N)), items([0] * 15, [3] * 15)],
    ),
    "reassemble": (
        Reassemble(n=2, rank=1),
        [WORD, WORD, Selector(2)],
        [WORD],
        [items([0, 1] * 15, range(N))] * 2 + [items([0] * 15, [3] * 15)],
    ),
    "eager_merge": (
        EagerMerge(n=2, rank=0),
        [WORD] * 2,
        [WORD, Selector(2)],
        [items([0] * N, range(N))] * 2,
    ),
    "expand": (
        Expand(level=1),
        [WORD, WORD],
        [WORD],
        [items([1] * 10, range(10)), items([0, 0, 1] * 10, range(N))],
    ),
    "signal": (Signal(level=0), [WORD], [Scalar(1)], [items([0] * N, range(N))]),
    "generate": (Generate(fn="last"), [WORD], [Selector(2)], [items([0] * N, [1] * N)]),
    "address": (Address(stride=3), [WORD, WORD], [Scalar(32)], [items([0] * N, range(N))] * 2),
}


@pytest.mark.parametrize("kind", RATES)
def test_full_rate(kind):
    """A beat in and a beat out every cycle (II = 1), out in the cycle in which it is taken (L = 0),
    through changes of unit and of selector.
    """
    unit, ins, outs, streams = RATES[kind]
    got, error = check(unit, ins, outs, streams)
    accept = got[len(ins)].accept
    taken = {x for trace in got[: len(ins)] for x in trace.take}
    assert error == 0
    assert np.all(np.diff(accept) == 1) and len(accept) > N
    assert set(accept) <= taken


@pytest.mark.parametrize("fn, n, beats", [("address", 4, 4), ("last", 4, 4), ("expert", 4, 4)])
def test_generators_give_a_beat_a_cycle(fn, n, beats):
    ins = {"address": [WORD, WORD], "last": [WORD], "expert": [Selector(4)]}[fn]
    streams = [items([0] * 5, [n if k or fn == "last" else 2] * 5) for k in range(len(ins))]
    got, _ = check(
        Generate(fn=fn, stride=4, count=n),
        ins,
        [Selector(2) if fn == "last" else Scalar(32)],
        streams,
    )
    assert np.all(np.diff(got[-1].accept) == 1) and len(got[-1].accept) == 5 * beats + 1


@pytest.mark.parametrize(
    "kind, ins, outs, streams",
    [
        (Partition(n=2, rank=1), [WORD, Selector(2)], [WORD] * 2, [[(1, 1)], [(1, 1)]]),
        (
            Reassemble(n=2, rank=1),
            [WORD, WORD, Selector(2)],
            [WORD],
            [[(1, 0), (0, 15)], [], [(1, 0)]],
        ),
        (Reassemble(n=2, rank=0), [WORD, WORD, Selector(2)], [WORD], [[(1, 0)], [], [(0, 15)]]),
        (Reassemble(n=2, rank=0), [WORD, WORD, Selector(2)], [WORD], [[(None, 1)], [], [(1, 0)]]),
        (EagerMerge(n=2, rank=1), [WORD, WORD], [WORD, Selector(2)], [[(1, 0), (0, 15)], []]),
        (Expand(level=1), [WORD, WORD], [WORD], [[(1, 1)], [(1, 2)]]),
        (Generate(fn="address", stride=1), [WORD, WORD], [Scalar(32)], [[(1, 1)], [(1, 0)]]),
        (Address(stride=1), [WORD, WORD], [Scalar(32)], [[(1, 1)], [(None, 1)]]),
    ],
)
def test_streams_that_do_not_fit_are_reported(kind, ins, outs, streams):
    assert faults(kind, ins, outs, streams) == 1
