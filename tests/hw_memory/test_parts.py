"""Parts of the off-chip memory's units alone: a list of constants, and an interconnect's errors."""

import pytest
from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.sim import Simulator
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.memory.table import Table
from penstock.machine.config import load

ENTRIES = [5, 3, 9]


@pytest.mark.parametrize("advance_in_reset", [0, 1])
def test_a_register_without_reset_holds_the_entry_of_its_cycle(advance_in_reset):
    """The first entry stands from the first cycle after reset, whatever is asked in reset."""
    m = Module()
    m.domains.sync = domain = ClockDomain()
    m.submodules.table = table = Table(entries=[(n,) for n in ENTRIES], fields={"n": 8})
    held = Signal(8, reset_less=True)
    m.d.sync += held.eq(table.following.n)
    seen = []

    async def run(ctx):
        ctx.set(domain.rst, 1)
        ctx.set(table.advance, advance_in_reset)
        for _ in range(3):
            await ctx.tick()
        ctx.set(domain.rst, 0)
        for advance in (0, 1, 1, 0, 1, 1):
            ctx.set(table.advance, advance)
            seen.append((ctx.get(table.entry.n), ctx.get(held)))
            await ctx.tick()

    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_testbench(run)
    sim.run()
    assert seen == [(n, n) for n in (5, 5, 3, 9, 9, 5)]


def test_bad_ports_are_refused():
    config = load("small_fpga").machine
    with pytest.raises(
        ValueError, match="Direction of a port must be 'read' or 'write', not 'sink'"
    ):
        Interconnect(ports=["read", "sink"], config=config)
    with pytest.raises(ValueError, match="Number of ports must be from 1 to 1024, not 0"):
        Interconnect(ports=[], config=config)
