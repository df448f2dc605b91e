"""The routing units of the compiled engine, worked out by hand from docs/timing.md."""

import numpy as np
import pytest
from penstock.machine.beat import BufferRef, Scalar, Selector, Tile
from penstock.machine.errors import LoweringError, RunError
from penstock.machine.kinds.copies import Expand
from penstock.machine.kinds.numbers import Address, Generate
from penstock.machine.kinds.routing import EagerMerge, Partition, Reassemble
from penstock.testing import routing
from penstock.testing.graphs import END, TILE, Beat, Build, T, configuration, run

CONFIG = configuration()


def by_hand(kind, ins, outs, streams, release=None, sinks=None):
    """Streams of (stop, numbers) with release cycles; the traces of the outputs, and the run."""
    r = run(fed(kind, ins, outs, streams, release, sinks), CONFIG, values=False, trace=True)
    return r.channels[-len(outs) :], r


def fed(kind, ins, outs, streams, release=None, sinks=None):
    """A unit between sources and sinks."""
    b = Build(2)
    u = b.unit(kind)
    for k, (payload, stream) in enumerate(zip(ins, streams, strict=True)):
        at = [*release[k], (release[k] or [0])[-1]] if release else None
        b.link(b.source(stream, at), (u, k), payload)
    for k, payload in enumerate(outs):
        b.link((u, k), b.sink((sinks or [()] * len(outs))[k]), payload)
    return b


def seen(r, unit):
    """Low words of what a sink took."""
    beats = r.sink_beats[unit]
    return [int(x[0]) if d else None for x, d in zip(beats.numbers, beats.data, strict=True)]


WORD = Scalar(32)


def test_the_earliest_arrival_goes_first_and_equal_cycles_by_index():
    # Input 1 is visible in 4, 0 in 6, 2 in 6. Selector 0b111 in 9: 1, then 0, then 2; the second
    # unit of 1 arrives in 10, behind 0's in 7.
    streams = [
        [(0, (10, 0)), (0, (11, 0))],
        [(0, (20, 0)), (0, (21, 0))],
        [(0, (30, 0))],
        [(0, (7, 0)), (0, (3, 0))],
    ]
    (out,), r = by_hand(
        Reassemble(n=3, rank=0),
        [WORD] * 3 + [Selector(3)],
        [WORD],
        streams,
        [[5, 5], [3, 3], [5], [8, 8]],
    )
    assert seen(r, 5) == [20, 10, 30, 21, 11, None]
    assert [int(s) for s in out.stop] == [0, 0, 1, 0, 1, 15]
    assert out.accept.tolist() == [9, 10, 11, 12, 13, 14]


def test_a_unit_is_not_interrupted():
    # Two beats of input 0's unit are far apart; input 1 has waited since cycle 4.
    streams = [[(0, (1, 0)), (1, (2, 0))], [(1, (3, 0))]]
    (out, selectors), r = by_hand(
        EagerMerge(n=2, rank=1), [WORD] * 2, [WORD, Selector(2)], streams, [[2, 20], [3]]
    )
    assert out.accept.tolist() == [3, 21, 22, 23] and seen(r, 3) == [1, 2, 3, None]
    assert selectors.accept.tolist() == [3, 22, 23] and seen(r, 4) == [1, 2, None]


def test_choice_falls_when_the_first_beat_can_leave():
    # The selectors' sink is late. 12 is at the head of its channel since cycle 3, input 0's unit
    # since 10, 13 only after 12 has left.
    streams = [[(0, (1, 0))], [(0, (k, 0)) for k in range(10, 14)]]
    (_out, _), r = by_hand(
        EagerMerge(n=2, rank=0),
        [WORD] * 2,
        [WORD, Selector(2)],
        streams,
        [[9], [0] * 4],
        [(), (30,)],
    )
    assert seen(r, 3) == [10, 11, 12, 1, 13, None]


def test_selectors_without_a_bit_give_empty_dimensions():
    streams = [[(0, (5, 0))], [(0, (0, 0)), (1, (1, 0)), (2, (0, 0)), (3, None)]]
    (out,), _r = by_hand(Reassemble(n=1, rank=0), [WORD, Selector(1)], [WORD], streams)
    assert [(int(s), int(d)) for s, d in zip(out.stop, out.data, strict=True)] == [
        (1, 0),
        (2, 1),
        (3, 0),
        (4, 0),
        (15, 0),
    ]


@pytest.mark.parametrize(
    "kind, ins, outs, streams",
    [
        (Partition(n=2, rank=1), [WORD, Selector(2)], [WORD] * 2, [[(1, (0, 0))], [(1, (1, 0))]]),
        (EagerMerge(n=2, rank=1), [WORD, WORD], [WORD, Selector(2)], [[(0, (0, 0))], []]),
        (Expand(level=1), [WORD, WORD], [WORD], [[(1, (0, 0))], [(2, (0, 0))]]),
        (Address(stride=1), [WORD, WORD], [WORD], [[(1, (0, 0))], [(1, None)]]),
    ],
)
def test_streams_that_do_not_fit_are_an_error(kind, ins, outs, streams):
    with pytest.raises(
        RunError,
        match=f"unit {kind.name}0: its inputs differ in stop level or end at different beats",
    ):
        run(fed(kind, ins, outs, streams), CONFIG, values=False)


@pytest.mark.parametrize(
    "kind, ins, outs, message",
    [
        (
            Partition(n=2, rank=0),
            [WORD, Selector(3)],
            [WORD] * 2,
            "unit partition0: takes .*the selector has one bit for each of 2 streams",
        ),
        (
            Partition(n=2, rank=0),
            [WORD, Selector(2)],
            [WORD, TILE],
            "channel c3: carries Tile.*gives Scalar",
        ),
        (Reassemble(n=2, rank=0), [WORD, TILE, Selector(2)], [WORD], "its inputs have one payload"),
        (EagerMerge(n=2, rank=0), [WORD, WORD], [WORD, Selector(3)], "gives Selector"),
        (Generate(fn="expert", count=1), [WORD], [WORD], "its input is a selector"),
        (
            Expand(level=1, scratchpad=1),
            [BufferRef(4), WORD],
            [BufferRef(4)],
            "unit expand0: scratchpad is 1.*it is the id of a unit that holds buffers",
        ),
    ],
)
def test_payloads_that_do_not_fit_are_refused(kind, ins, outs, message):
    with pytest.raises(LoweringError, match=message):
        run(fed(kind, ins, outs, [[]] * len(ins)), CONFIG, values=False)


def numbers_of(payload, bits):
    """A tile's valid rows and columns, or a selector."""
    if not isinstance(payload, Tile):
        return bits & (1 << 64) - 1, bits >> 64
    counts = bits >> payload.t**2 * payload.element_bits
    most = (1 << payload.count_bits) - 1
    return counts & most, counts >> payload.count_bits & most


class OfZoo:
    """A graph of testing/routing.py in the form that `run` takes."""

    def __init__(self, zoo, seed, waits=(0, 0)):
        rng = np.random.default_rng(seed)
        self._graph = zoo.graph(seed)
        gap, late = waits
        outs = {u: self._graph.outputs(u)[0].payload for u in zoo.streams}
        self.sources = {
            u: [
                Beat(s, 0) if bits is None else Beat(s, 1, numbers_of(outs[u], bits))
                for bits, s in items(rng)
            ]
            + [END]
            for u, items in zoo.streams.items()
        }
        self.sources = {
            u: [(gap * i, b) for i, b in enumerate(beats)] for u, beats in self.sources.items()
        }
        self.sinks = {u.id: [late] for u in self._graph.units if u.kind.name == "sink"}

    def graph(self):
        return self._graph


@pytest.mark.parametrize(
    ("regions", "requests", "depth"),
    [(3, 14, 2), (2, 9, 1), (5, 3, 2), (4, 20, 3), (1, 6, 2), (3, 0, 2)],
)
def test_a_feedback_loop_deals_work_and_drains(regions, requests, depth):
    waits = ((0, 0), (3, 0), (0, 60))[regions % 3]
    zoo = routing.loop(T, regions, requests, depth)
    r = run(OfZoo(zoo, regions, waits), CONFIG, values=False, trace=True)
    inside = [c for c in zoo.graph().channels if (c.dst[0], c.dst[1]) == (0, 1)]
    assert (
        all(x == 15 for c in inside for x in r.channels[c.id].stop[-1:])
        and (r.channels[inside[0].id].take >= 0).all()
    )


def test_a_loop_that_nothing_enters_is_the_circle():
    zoo = routing.loop(T, 2, 5)
    first = next(c.src[0] for c in zoo.channels if c.dst == (0, 0))
    zoo.streams[first] = lambda rng: []
    point = OfZoo(zoo, 1)
    control = next(c.src[0] for c in zoo.channels if c.dst == (0, 2))
    point.sources[control] = [(0, Beat(0, 1, (2, 0)))] * 5 + [(0, END)]
    with pytest.raises(RunError) as e:
        run(point, CONFIG, values=False)
    names = [u.name for u in zoo.units]
    said = str(e.value)
    for name in ("deal", "flatten", "work", "free", "keep"):
        assert (
            next(x for x in names if x.startswith(name)) + " waits for the empty channel" in said
        ), said
    assert "signal" in said and "no channel depth up to" in said
