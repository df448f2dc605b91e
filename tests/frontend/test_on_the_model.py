"""Routing, buffers, references and whole workloads, lowered and run on the model: values bit for
bit, sinks beat for beat.
"""

import penstock
import pytest
from on_the_model import CONFIG, SMALL, Case, ragged
from penstock.frontend import *


@pytest.mark.parametrize(
    "shape, stride, started",
    [
        ((16,), (1,), True),
        ((2, 8, 2), (0, 2, 1), True),
        ((2, 16), (0, 1), False),
        ((6,), (1,), False),
        ((2, 3, 2), (1, 4, 3), False),
    ],
)
def test_a_walk_goes_on_in_the_next_row_of_tiles(shape, stride, started):
    c = Case()
    ref = {"ref": c.source("r", (2, ragged(c, "N")), [[1, 1], [0]], selector=2)} if started else {}
    Sink(
        LinearOffChipLoad(c.g.input("w", (14, 15)), tile=(4, 4), shape=shape, stride=stride, **ref)
    )
    c.run()


def test_the_symbolic_figure_holds_the_largest_buffers():
    """Two of 32 tiles one after the other, and small ones: the requirement is that of the large
    ones, which fill whole pages.
    """
    c = Case()
    Sink(
        Streamify(
            Bufferize(c.tiles("x", (8, ragged(c, "D")), (4, 4), 32, 32, *[8] * 6), rank=1), repeat=2
        )
    )
    (r,) = penstock.run(
        Program("case", {}, c.g, None, None, lambda seed: c.given), CONFIG, onchip_rule="paper"
    )
    assert r.onchip_peak_bytes == 2 * 32 * 64 and r.onchip_bytes == r.onchip_peak_bytes + 64


def test_traffic_and_flop_are_counted_where_two_sizes_are_ragged():
    """Buffers of 1, 2 and 5 tiles, read 4 times, once and twice: 16 tiles, not 3 x 8/3 x 7/3."""
    c = Case()
    held = Bufferize(c.tiles("x", (3, ragged(c, "D")), (4, 4), 1, 2, 5), rank=1)
    again = Streamify(
        held, ref=c.source("times", (3, ragged(c, "R")), [[0] * 4, [0], [0, 0]], scalar=8)
    )
    Sink(Accum(again, fn=add(), rank=2))
    w = LinearOffChipLoad(c.g.input("w", (4, 16)), tile=(4, 16), shape=(1,), stride=(1,), ref=again)
    Sink(Accum(w, fn=all_read(), rank=3))
    (r,) = c.run()
    assert (r.flops, r.offchip_bytes, r.dram_bytes) == (16 * 16, 16 * 4 * 64, 16 * 4 * 64)


@pytest.mark.parametrize("by", ["reference", "address"])
def test_a_read_after_the_acknowledgement_sees_what_was_stored(by):
    c = Case()
    y = c.g.output("y", (16, 8), "fp32")
    stored = RandomOffChipStore(
        c.source("at", (2, 4), [[3, 0, 2, 0], [1, 3, 6, 5]], scalar=8),
        c.tiles("x", (8,), (4, 4)),
        y,
    )
    whole = Accum(
        Flatten(Promote(stored), lo=0, hi=1), fn=all_read(), rank=1
    )  # one token when all are stored
    if by == "reference":
        Sink(LinearOffChipLoad(y, tile=(4, 4), ref=whole))
    else:
        places = FlatMap(
            Map(whole, c.source("zero", (1,), [0], scalar=8), fn=address(0)),
            c.source("n", (1,), [8], scalar=8),
            fn=address_range(8),
        )
        Sink(RandomOffChipLoad(places, y, tile=(4, 4)))
    c.run()


def test_tiles_off_chip_that_are_read_changed_and_written_in_a_loop():
    """A sum for each address: the next address waits for the acknowledgement of the one before."""
    c = Case()
    n = 6
    y = c.g.output("y", (8, 4), "fp32")
    acks = Loop(StreamType(ScalarType(1), (c.g.dynamic("A"),)), graph=c.g, name="acks")
    turn = c.source("turn", (n,), [0] + [1] * (n - 1), selector=2)
    gate = Flatten(
        Reassemble(c.source("first", (1,), [1], scalar=1), acks, turn, rank=0), lo=0, hi=1
    ).stream.assert_shape([n])
    at = Map(gate, c.source("at", (n,), [0, 1, 1, 0, 1, 1], scalar=8), fn=address(0))
    tiles = Map(RandomOffChipLoad(at, y, tile=(4, 4)), c.tiles("x", (n,), (4, 4)), fn=add())
    stored = Partition(
        RandomOffChipStore(Fifo(at, depth=2), tiles, y),
        c.source("keep", (n,), [0] * (n - 1) + [1], selector=2),
        rank=0,
        outputs=2,
    )
    acks.close(stored[0])
    Sink(stored[1])
    c.run()


@pytest.mark.parametrize(
    "name, params",
    [
        ("swiglu", dict(batch=16, dim=16, inter=32, tile_b=8, tile_inter=16)),
        ("moe", dict(tile_rows=16, regions=4)),
        ("attention", dict(parallel="dynamic", most=8, softmax="stable")),
    ],
)
def test_pages_in_use_stay_within_the_symbolic_figure(name, params):
    """Two of each buffer, by the text's equations (rule `paper`).

    The RTL's peak is the model's (tb/check.py).
    """
    for seed in (1, 2):
        (r,) = penstock.run(name, SMALL, params, seed=seed, onchip_rule="paper")
        assert 0 < r.onchip_peak_bytes <= r.onchip_bytes
    (fast,) = penstock.run(name, SMALL, params, seed=seed, values=False)
    assert (fast.cycles, fast.onchip_peak_bytes) == (r.cycles, r.onchip_peak_bytes)
