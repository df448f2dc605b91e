"""The order in which units are merged is that of docs/timing.md section
3.2, replayed from what was recorded at the inputs.
"""

import numpy as np
import pytest
from penstock.machine.beat import Scalar, Selector
from penstock.machine.errors import RunError
from penstock.machine.kinds import KINDS
from penstock.machine.kinds.routing import EagerMerge
from penstock.machine.trace import ChannelTrace, Run
from penstock.runs.arrival import against_the_rule, choices
from penstock.runs.boundary import arrivals
from penstock.testing.graphs import FULL, TILE, Build, configuration, run

NUMBER = Scalar(8)


def merge(kind, rank=0):
    """A merging unit of two inputs; the selector, if any, is the third."""
    b = Build(2)
    u = b.unit(KINDS[kind](n=2, rank=rank))
    for k in range(2):
        b.link(b.source([]), (u, k), NUMBER)
    if kind == "reassemble":
        b.link(b.source([]), (u, 2), Selector(2))
    else:
        b.link((u, 1), b.sink(), Selector(2))
    b.link((u, 0), b.sink(), NUMBER)
    return b.graph()


def recorded(*channels):
    """A run of (accept, take) of each beat, by channel; a Done follows."""
    traces = []
    for beats in channels:
        cycles = np.array([*beats, (90, 91)], np.int64).reshape(-1, 2)
        stop = np.array([0] * len(beats) + [15], np.uint8)
        data = np.array([1] * len(beats) + [0], np.uint8)
        traces.append(ChannelTrace(cycles[:, 0], cycles[:, 1], stop, data, np.zeros(0)))
    return Run("rtl", 100, channels=traces)


@pytest.mark.parametrize(
    "first, second, wrong",
    [
        ([(3, 7)], [(5, 8)], None),
        ([(3, 8)], [(5, 7)], "input 1 .arrived in cycle 6. in cycle 7, where that of input 0"),
        ([(3, 7)], [(3, 8)], None),
        ([(3, 8)], [(3, 7)], "input 0 .arrived in cycle 4. comes first"),
        ([(3, 7), (4, 9)], [(6, 8)], None),  # the second has arrived once the first is taken
        ([(3, 7), (4, 8)], [(6, 9)], "input 1 .arrived in cycle 7. comes first"),
        ([], [(7, 7)], "before it has arrived .cycle 8."),
    ],
)
def test_a_free_unit_takes_the_earliest_arrival(first, second, wrong):
    graph = merge("eager_merge")
    broken = against_the_rule(graph, recorded(first, second))
    if wrong is None:
        assert broken is None
        assert arrivals(graph, recorded(first, second))
        return
    with pytest.raises(RunError, match=wrong):
        arrivals(graph, recorded(first, second))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_selector_bounds_what_is_considered(swapped):
    """Input 1 has arrived long before, but the first selector does not name it."""
    graph = merge("reassemble")
    later = [(9, 12), (1, 11)] if swapped else [(9, 11), (1, 12)]
    first = [(5, 8), later[0]]
    second = [later[1]]
    broken = against_the_rule(graph, recorded(first, second, [(0, 8), (1, 12)]))
    assert (broken is None) == swapped  # input 1 arrived in cycle 2, input 0 in cycle 10


@pytest.mark.parametrize("rank", [0, 1])
def test_the_model_keeps_the_order(rank):
    rng = np.random.default_rng(rank)
    b = Build(2)
    u = b.unit(EagerMerge(n=3, rank=rank))
    for k in range(3):
        stops = [int(s) for s in rng.integers(0, 2, 30)] + [1]
        at = np.sort(rng.integers(0, 120, len(stops) + 1))
        b.link(b.source([(s, FULL) for s in stops], at), (u, k), TILE)
    b.link((u, 0), b.sink(np.cumsum(rng.integers(0, 4, 100))), TILE)
    b.link((u, 1), b.sink(), Selector(3))
    graph = b.graph()
    done = run(b, configuration(), values=False, trace=True)
    taken = choices(graph, done, u)
    assert against_the_rule(graph, done) is None
    assert sum(bool(others) for _, others in taken) > 10  # it had a choice
