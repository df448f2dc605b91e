"""Refusals of `validate`, and the stop levels it derives."""

from dataclasses import replace

import pytest
from penstock.machine.beat import BufferRef, Scalar, Selector, Tile, Tuple
from penstock.machine.errors import LoweringError
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.copies import Broadcast, Merge, Repeat, Zip
from penstock.machine.kinds.ends import Sink, Source
from penstock.machine.kinds.numbers import Signal
from penstock.machine.kinds.offchip import Load
from penstock.machine.kinds.routing import EagerMerge, Partition
from penstock.machine.kinds.scratchpad import Scratchpad
from penstock.machine.kinds.shape import Flatten, Promote, Reshape
from penstock.machine.unitgraph import Channel, Unit, UnitGraph, highest_stops, validate

TILE = Tile(4, "fp32")


def chain(*units, payload=TILE, top=3):
    """load -> units -> sink; `top` is the load's highest stop level."""
    load = Load(
        tensor="x",
        base=0,
        pitch=64,
        tensor_rows=4,
        tensor_cols=4,
        rows=4,
        cols=4,
        rank=top - 2,
        shape=[1] * (top - 2),
        row_step=[0] * (top - 2),
        col_step=[0] * (top - 2),
    )
    all_units = [
        Unit(0, "load", load),
        *(Unit(1 + i, f"{kind.name}{1 + i}", kind) for i, kind in enumerate(units)),
    ]
    all_units.append(Unit(len(all_units), "sink", Sink()))
    channels = [
        Channel(i, f"c{i}", (i, 0), (i + 1, 0), 2, payload) for i in range(len(all_units) - 1)
    ]
    return UnitGraph("chain", 4, tuple(all_units), tuple(channels), ports=(0,))


@pytest.mark.parametrize(
    "kind, top, out",
    [
        (Repeat(count=2), 5, 6),
        (Flatten(lo=1, hi=3), 5, 3),
        (Flatten(lo=4, hi=6), 5, 4),
        (Promote(level=1, outermost=False), 5, 6),
        (Promote(level=7, outermost=True), 5, 7),
        (Reshape(dim=2, chunk=2, pad=False, pad_rows=1, pad_cols=1), 5, 6),
        (Accum(fn="add", reduce=0b1010, depth=4, lanes=16, init_rows=0, init_cols=0), 5, 3),
    ],
)
def test_highest_stop_of_a_kind(kind, top, out):
    assert highest_stops(chain(kind, top=top)) == [top, out]


def test_highest_stops_of_a_scratchpad_and_of_routing():
    units = [
        Unit(0, "sel", Source()),
        Unit(1, "p", Partition(n=1, rank=2, scratchpad=None)),
        Unit(2, "sink", Sink()),
    ]
    g = chain(Repeat(count=2), top=6)
    pad = Unit(
        1,
        "pad",
        Scratchpad(
            pages=4,
            frames=2,
            writers=[{"rank": 2}],
            limit=[4],
            readers=[{"rank": 2, "repeat_dim": True}],
            repeat=[2],
        ),
    )
    ref = BufferRef(4)
    channels = (
        g.channels[0],
        Channel(1, "ref", (1, 0), (1, 1), 2, ref),
        Channel(2, "out", (1, 1), (2, 0), 2, TILE),
    )
    assert highest_stops(replace(g, units=(g.units[0], pad, g.units[2]), channels=channels)) == [
        6,
        4,
        7,
    ]
    routed = (g.units[0], replace(units[1], id=1), g.units[2], Unit(3, "selectors", Source()))
    channels = (
        g.channels[0],
        Channel(1, "s", (3, 0), (1, 1), 2, Selector(1)),
        Channel(2, "out", (1, 0), (2, 0), 2, TILE),
    )
    assert highest_stops(replace(g, units=routed, channels=channels)) == [6, 0, 2]


def test_a_stop_level_that_does_not_fit_is_refused():
    repeats = [Repeat(count=1)] * 6
    validate(chain(*repeats, top=8))
    with pytest.raises(
        LoweringError, match=r"channel c6: can carry stop level 15 \(rule: stop levels go up to 14"
    ):
        validate(chain(*repeats, top=9))


def test_a_loop_has_stop_levels_too():
    units = (
        Unit(0, "m", EagerMerge(n=2, rank=0)),
        Unit(1, "b", Broadcast(n=2, scratchpad=None)),
        Unit(2, "in", Source()),
        Unit(3, "out", Sink()),
        Unit(4, "from", Sink()),
        Unit(5, "r", Repeat(count=1)),
    )
    x = Scalar(8)
    ends = [
        ((2, 0), (0, 0), x),
        ((0, 0), (5, 0), x),
        ((5, 0), (1, 0), x),
        ((1, 0), (0, 1), x),
        ((1, 1), (3, 0), x),
        ((0, 1), (4, 0), Selector(2)),
    ]
    g = UnitGraph(
        "loop", 4, units, tuple(Channel(i, f"c{i}", a, b, 2, p) for i, (a, b, p) in enumerate(ends))
    )
    validate(g)
    assert highest_stops(g)[4] == 1


@pytest.mark.parametrize("ends", [{"dst": (9, 0)}, {"src": (-1, 0)}])
def test_a_channel_joins_units_that_are_there(ends):
    graph = chain()
    first, *rest = graph.channels
    with pytest.raises(LoweringError, match=r"leads to or from unit (9|-1) .rule: its ends"):
        validate(replace(graph, channels=(replace(first, **ends), *rest)))


def test_ports_are_the_off_chip_units():
    with pytest.raises(LoweringError, match="they list every off-chip unit once"):
        validate(replace(chain(), ports=()))


def test_a_loop_that_no_beat_can_enter_is_refused_before_the_run():
    units = (
        Unit(0, "x", Source()),
        Unit(1, "sum", Zip()),
        Unit(2, "first", Signal(level=0)),
        Unit(3, "fork", Broadcast(n=2, scratchpad=None)),
        Unit(4, "out", Sink()),
    )
    one = Scalar(1)
    pair = Tuple((Scalar(1), Scalar(1)))
    ends = [
        ((0, 0), (1, 0), one),
        ((1, 0), (2, 0), pair),
        ((2, 0), (3, 0), one),
        ((3, 0), (1, 1), one),
        ((3, 1), (4, 0), one),
    ]
    g = UnitGraph(
        "loop", 4, units, tuple(Channel(i, f"c{i}", a, b, 2, p) for i, (a, b, p) in enumerate(ends))
    )
    with pytest.raises(
        LoweringError,
        match=(
            "graph loop: channel c1 can never carry a beat: sum, first, fork wait for each "
            "other's first"
        ),
    ):
        validate(g)
    through_merge = (*units[:1], Unit(1, "sum", Merge(n=2)), *units[2:])
    validate(
        replace(
            g,
            units=through_merge,
            channels=(g.channels[0], replace(g.channels[1], payload=one), *g.channels[2:]),
        )
    )
