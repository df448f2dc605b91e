# amaranth: UnusedElaboratable=no
"""The scratchpad's component: a count that overflows, and the errors of its constructor."""

import pytest
from amaranth.sim import Simulator
from penstock.hw.beat import Payloads
from penstock.hw.memory.scratchpad import Scratchpad
from penstock.machine.beat import BufferRef, Tile
from penstock.machine.faults import Fault
from penstock.machine.kinds import scratchpad as kinds
from penstock.tb.tops import small

TILE = Tile(2, "bf16")


def component(**change):
    given = {
        "pages": 2,
        "frames": 1,
        "writers": [{"rank": 1}],
        "limit": [2],
        "readers": [{"rank": 1, "repeat_dim": False}],
        "repeat": [0],
    }
    return Scratchpad(
        kind=kinds.Scratchpad(**given | change),
        t=2,
        config=small(2, "bf16").machine,
        posts=1,
        payloads=Payloads((TILE, BufferRef(2)), (BufferRef(2), TILE)),
    )


def test_a_count_that_overflows_is_reported():
    dut = component()

    async def bench(ctx):
        ctx.set(dut.post0.valid, 1)
        ctx.set(dut.post0.delta, 255)
        for _ in range(4):
            assert ctx.get(dut.error) == 0
            await ctx.tick()
        assert ctx.get(dut.error) == 1 << Fault.REFERENCES

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(frames=3), "Frames must be a power of two, not 3"),
        (dict(pages=4), "must be BufferRef"),
        (dict(writers=[]), "at least one each, not 0 and 1"),
    ],
)
def test_bad_parameters_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        component(**change)
