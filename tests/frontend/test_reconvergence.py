"""Paths that part and join again: within a tile they have room; what is refused deadlocks, and the
remedy runs.
"""

from dataclasses import replace

import pytest
from penstock import model
from penstock.frontend import *
from penstock.frontend.lowering import reconvergence
from penstock.machine.config import load
from penstock.machine.deadlock import DeadlockError
from penstock.model import stepsim

SMALL = load("small_fpga")


def softmax(parts=6, fifo=0, long=False, tile=4):
    """Each of ``parts`` tiles divided by the sum of them all; ``long``: a function in the shorter
    way.
    """
    g = Graph("softmax")
    x = g.input("x", (4, parts * tile), "bf16")
    y = g.output("y", (4, parts * tile), "bf16")
    xs = cast(LinearOffChipLoad(x, tile=(4, tile), shape=(1, parts), stride=(1, 1)), "fp32")
    each = Expand(Accum(xs, fn=add(), rank=1, name="total"), count=parts)
    ahead = Fifo(xs, depth=fifo).stream if fifo else xs
    LinearOffChipStore(
        cast(
            Map(Map(ahead, fn=exp()) if long else ahead, each.stream, fn=div(), name="share"),
            "bf16",
        ),
        y,
    )
    return g


def runs(g, timing, monkeypatch, config=SMALL):
    """True if a program finishes when the check is left out."""
    monkeypatch.setattr(reconvergence, "settle", lambda low: None)
    units = lower(g, config, timing)
    monkeypatch.undo()
    try:
        if timing == "stepsim":
            stepsim.run(units, config, search=False)
        else:
            model.run(units, config, values=False)
    except DeadlockError:
        return False
    return True


def refused(g, timing):
    try:
        lower(g, SMALL, timing)
    except LoweringError as e:
        assert "parts and joins again in share" in str(e)
        return True
    return False


@pytest.mark.parametrize("timing", ["machine", "stepsim"])
@pytest.mark.parametrize("long", [False, True])
def test_refused_programs_deadlock_and_nearly_all_that_deadlock_are_refused(
    timing, long, monkeypatch
):
    verdicts = [
        (refused(softmax(n, long=long), timing), runs(softmax(n, long=long), timing, monkeypatch))
        for n in range(2, 24, 7)
    ]
    assert (True, True) not in verdicts
    assert verdicts[0] == (False, True) and verdicts[-1] == (True, False)
    assert verdicts.count((False, False)) <= 1


@pytest.mark.parametrize("timing", ["machine", "stepsim"])
@pytest.mark.parametrize("tile", [4, 8])
def test_the_remedy_runs(timing, tile, monkeypatch):
    g = softmax(12, tile=tile)
    with pytest.raises(LoweringError, match=r"Fifo\(.*, depth=12\) on the way to `.+`") as e:
        lower(g, SMALL, timing)
    assert "operator share (Map) at " in str(
        e.value
    ) and "total gives after 12; the other way holds " in str(e.value)
    assert not runs(g, timing, monkeypatch)
    assert not refused(softmax(12, fifo=12, tile=tile), timing) and runs(
        softmax(12, fifo=12, tile=tile), timing, monkeypatch
    )


def test_deeper_channels_are_enough_too():
    deep = replace(SMALL, machine=replace(SMALL.machine, channel_depth=16))
    lower(softmax(12), deep)


def shifted(tile=16, far=False, fifo=0):
    """Each tile less a column that is spread by the tiles themselves; ``far``: a function on the
    tiles' own way.
    """
    g = Graph("shifted")
    x = g.input("x", (2 * tile, 2 * tile), "bf16")
    c = g.input("c", (2 * tile, 1), "bf16")
    y = g.output("y", (2 * tile, 2 * tile), "bf16")
    xs = cast(LinearOffChipLoad(x, tile=(tile, tile), shape=(2, 2), stride=(2, 1)), "fp32")
    column = cast(LinearOffChipLoad(c, tile=(tile, 1), shape=(2, 1), stride=(1, 1)), "fp32")
    ahead = Fifo(xs, depth=fifo).stream if fifo else xs
    LinearOffChipStore(
        cast(
            Map(
                Map(ahead, fn=exp()) if far else ahead,
                Expand(column, ref=xs),
                fn=sub(),
                name="share",
            ),
            "bf16",
        ),
        y,
    )
    return g


@pytest.mark.parametrize("tile", [4, 16])
def test_a_tile_whose_reference_is_itself_has_room(tile, monkeypatch):
    """The reference is told of a tile with its last physical one; the others wait."""
    assert not refused(shifted(tile), "machine") and runs(shifted(tile), "machine", monkeypatch)


def test_a_way_that_waits_for_a_whole_tile_gives_the_others_room(monkeypatch):
    assert not runs(shifted(24, far=True), "machine", monkeypatch)
    model.run(lower(shifted(24, far=True), SMALL), SMALL, values=False)
    assert not refused(shifted(24, far=True), "stepsim")


def tiles(g, rows, cols):
    """Three tiles of a tensor."""
    x = g.input("x", (3 * rows, cols), "bf16")
    loaded = LinearOffChipLoad(x, tile=(rows, cols), shape=(3,), stride=(1,))
    return Flatten(loaded, lo=0, hi=1).stream


def matrix(name, rows, cols, ref):
    """A matrix that is loaded for each tile of a stream."""
    w = ref.graph.input(name, (rows, cols), "bf16")
    loaded = LinearOffChipLoad(w, tile=(rows, cols), shape=(1,), stride=(1,), ref=ref)
    return Flatten(loaded, lo=0, hi=1).stream


def gated(g, rows, cols):
    xs = tiles(g, rows, cols)
    up, gate = (Map(xs, matrix(n, cols, 20, xs), fn=matmul()) for n in ("up", "gate"))
    hidden = cast(Map(gate, up, fn=mul()), "bf16")
    return Map(hidden, matrix("down", 20, cols, hidden), fn=matmul())


def residual(g, rows, cols):
    xs = tiles(g, rows, cols)
    return Map(cast(xs, "fp32"), Map(xs, matrix("w", cols, cols, xs), fn=matmul()), fn=add())


def program(build, rows, cols):
    g = Graph(build.__name__)
    Sink(build(g, rows, cols))
    return g


@pytest.mark.parametrize("build", [gated, residual])
def test_a_load_that_a_tile_starts_may_join_the_tile(build, monkeypatch):
    """A load that a stream starts, or a buffer of it, waits for all of a tile; the tile's own way
    holds it.
    """
    config = replace(SMALL, machine=replace(SMALL.machine, channel_depth=1, pages=64))
    sizes = [(3, 30), (17, 9), (20, 26)]
    for rows, cols in sizes:
        model.run(lower(program(build, rows, cols), config), config, values=False)
    without = [runs(program(build, *size), "machine", monkeypatch, config) for size in sizes]
    assert not all(without)


def test_a_branch_beside_held_beats_gets_their_slots():
    g = Graph("beside")
    k, a, b = (g.dynamic(name, ragged=True) for name in "KAB")
    full = [g.dynamic(name, ragged=True, least=1) for name in "MN"]
    x = Source(graph=g, shape=(2, k, *full), scalar=8, name="x")
    held = Fifo(x, depth=1).stream.assert_shape((2, k, a, b))
    held = Flatten(Flatten(held, lo=0, hi=1), lo=0, hi=1).stream.assert_shape((2, k))
    Sink(Zip(held, Flatten(x, lo=0, hi=2, name="plain").stream.assert_shape((2, k))))
    config = load("small_fpga")
    config = replace(config, machine=replace(config.machine, channel_depth=1))
    channels = {c.name: c.depth for c in lower(g, config).channels}
    assert channels["x.broadcast:copies[1]->plain:data"] == 4  # two beats held, and its own
