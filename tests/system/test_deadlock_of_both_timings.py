"""Rows that are gathered in another order than they are dealt deadlock in both timings, for one
reason and with one cure; a program can make the room that its data need, and so can more buffers.
"""

from dataclasses import replace

import numpy as np
import pytest
from penstock import load_config, run
from penstock.frontend import *
from penstock.machine.errors import RunError
from penstock.runs import deadlock

ROWS = 8


def dealt(first):
    """Rows to output 0 and then 1; gathered from 1 first: those of output 0 have to wait in their
    channel.
    """
    g = Graph("dealt")
    x = g.input("x", (ROWS, 4), "bf16")
    y = g.output("y", (ROWS, 4), "bf16")
    to, back = (Source(graph=g, shape=(ROWS,), selector=2, name=n) for n in ("to", "back"))
    parts = Partition(
        Flatten(LinearOffChipLoad(x, tile=(1, 4)), lo=0, hi=2), to, rank=0, outputs=2, name="deal"
    )
    gathered = Flatten(
        Reassemble(parts[0], parts[1], back, rank=0, name="gather"), lo=0, hi=1
    ).stream.assert_shape((ROWS,))
    LinearOffChipStore(gathered, y)
    zeros = np.zeros(ROWS // 2, int).tolist()
    ones = np.ones(ROWS // 2, int).tolist()
    return Program(
        "dealt",
        {},
        g,
        None,
        None,
        lambda seed: {"to": zeros + ones, "back": ones + zeros if first else zeros + ones},
    )


@pytest.mark.parametrize("timing", ["machine", "stepsim"])
def test_found_explained_and_freed(timing):
    (found,) = deadlock.find(dealt(True), "small_fpga", [{}], timing=timing)
    d = found.deadlock
    assert found.cycles is None and d.cycle > 0
    assert [(s.unit, s.why, s.on) for s in d.circle] == [
        ("deal", "room", "gather"),
        ("gather", "beat", "deal"),
    ]
    (relief,) = d.reliefs
    assert (
        relief.channel == "deal:parts[0]->gather:parts[0]" and relief.count == 2
    )  # its other output is of the same kind
    assert relief.depth == d.uniform == ROWS // 2
    for depth in (d.uniform - 1, d.uniform):
        (again,) = deadlock.find(dealt(True), "small_fpga", [{}], timing=timing, depth=depth)
        assert (again.deadlock is None) == (depth == d.uniform)
    (right,) = deadlock.find(dealt(False), "small_fpga", [{}], timing=timing)
    assert right.deadlock is None and right.cycles > 0


def lopsided(waiting, regions=0):
    """The first and the last row go to expert 1, all others to expert 0: its rows wait for the
    first one, whose tile only the last one fills.
    """
    params = dict(
        tokens=160,
        dim=8,
        inter=16,
        experts=2,
        top_k=1,
        tile_rows=4,
        tile_inter=8,
        regions=regions,
        waiting=waiting,
    )
    rows = [[1]] + [[0]] * 158 + [[1]]
    return replace(
        build("moe", params, load_config("small_fpga")),
        _streams=lambda seed, **_: {"chosen": rows, "each": rows},
    )


@pytest.mark.parametrize("regions", [0, 1])
def test_static_tiles_have_the_room_that_any_routing_asks_for(regions):
    (r,) = run(lopsided(None, regions), "small_fpga")
    assert r.values_ok
    (found,) = deadlock.find(lopsided(0, regions), "small_fpga", [{}])
    assert found.deadlock and {"gather", "back0" if regions else "rows"} <= {
        s.unit for s in found.deadlock.circle
    }
    with pytest.raises(RunError, match="deadlock"):
        run(lopsided(0, regions), "small_fpga")


def centred():
    """Every tile less the sum of all: six buffers have to wait on chip, in channels and in queues,
    until it is known.
    """
    g = Graph("centred")
    tiles = Broadcast(
        cast(LinearOffChipLoad(g.input("x", (24, 16), "bf16"), tile=(4, 4)), "fp32"), n=2
    )
    total = Flatten(
        Expand(Promote(Accum(tiles[0], fn=add(), rank=2), level=0), count=24), lo=1, hi=2
    )
    Sink(Map(Flatten(Streamify(Bufferize(tiles[1], rank=1)), lo=0, hi=1), total, fn=sub()))
    return Program("centred", {}, g, None, None, lambda seed: {})


def test_more_buffers_free_a_writer_that_holds_what_it_may():
    config = load_config("small_fpga")
    (found,) = deadlock.find(centred(), config, [{}])
    assert ("Bufferize", "page") in {(s.unit, s.why) for s in found.deadlock.circle}
    needed = found.deadlock.buffers
    for buffers, finishes in ((needed - 1, False), (needed, True), (0, True)):
        (again,) = deadlock.find(
            centred(), replace(config, machine=replace(config.machine, buffers=buffers)), [{}]
        )
        assert (again.deadlock is None) == finishes
    with pytest.raises(
        RunError,
        match=(
            rf"machine.buffers = {needed} frees it; channels of depth(.*\n)+.*holds 2 buffers, "
            r"as many as it may"
        ),
    ):
        run(centred(), config)


def test_more_pages_free_a_buffer_that_is_larger_than_its_scratchpad():
    config = load_config("small_fpga")
    params = {
        "parallel": "coarse",
        "softmax": "stable",
        "requests": 4,
        "regions": 1,
        "heads": 8,
        "most": 40,
        "skew": 2.0,
    }
    (found,) = deadlock.find("attention", config, [params], seed=3)
    needed = found.deadlock.pages
    assert needed > config.machine.pages and found.deadlock.uniform is None
    for pages, finishes in ((needed - 1, False), (needed, True)):
        (again,) = deadlock.find(
            "attention",
            replace(config, machine=replace(config.machine, pages=pages)),
            [params],
            seed=3,
        )
        assert (again.deadlock is None) == finishes
    with pytest.raises(
        RunError,
        match=(
            rf"machine.pages = {needed} frees it; .*--machine spill=\d+\n(.*\n)+"
            rf".*none of {config.machine.pages} is free"
        ),
    ):
        run("attention", config, params=params, seed=3, values=False)
