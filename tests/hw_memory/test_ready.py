"""A memory that is not always ready: each chunk reaches it once, in order, and stands still while
it waits. A port that does not listen is found out.
"""

import numpy as np
import pytest
from amaranth.hdl import Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator
from penstock.hw.memory.interconnect import Interconnect
from penstock.machine.config import Dram
from penstock.testing.bench import small

CONFIG = small(2, "fp32", port_lanes=1, load_lines=32, dram=Dram(kind="ideal")).machine
CYCLES = 200


def interconnect():
    return Interconnect(ports=["write", "write"], config=CONFIG)


class Deaf(wiring.Component):
    """An interconnect to which the memory seems always ready: the planted fault."""

    def __init__(self):
        self.part = interconnect()
        super().__init__(self.part.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = self.part
        for (path, member, outer), (_, _, inner) in zip(
            self.signature.flatten(self), self.part.signature.flatten(self.part), strict=True
        ):
            if path == ("mem_req_ready",):
                m.d.comb += inner.eq(Const(1))
            elif member.flow == Out:
                m.d.comb += outer.eq(inner)
            else:
                m.d.comb += inner.eq(outer)
        return m


def run(dut):
    """Addresses that each port was granted, and that the memory took; how often a chunk changed
    while it waited.
    """
    granted = []
    taken = []
    changed = []
    rng = np.random.default_rng(5)

    async def bench(ctx):
        waiting = None
        for cycle in range(CYCLES):
            ready = int(rng.random() < 0.4)
            ctx.set(dut.mem_req_ready, ready)
            for p, port in enumerate((dut.port0, dut.port1)):
                ctx.set(port.request.payload.mask, 1)
                ctx.set(port.request.payload.address, 64 * (2 * cycle + p))
                ctx.set(port.request.valid, int(cycle < CYCLES - 20 and rng.random() < 0.7))
            await ctx.delay(1e-8)
            requests = (dut.port0.request, dut.port1.request)
            granted.extend(
                ctx.get(request.payload.address)
                for request in requests
                if ctx.get(request.valid & request.ready)
            )
            offered = ctx.get(dut.mem_req_addr[0]) if ctx.get(dut.mem_req_valid) else None
            if waiting is not None and offered != waiting:
                changed.append(cycle)
            if offered is not None and ready:
                taken.append(offered)
            waiting = None if ready else offered
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return granted, taken, changed


def test_each_chunk_reaches_a_memory_that_makes_it_wait():
    granted, taken, changed = run(interconnect())
    assert granted == taken and len(taken) > 40 and not changed


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_port_that_does_not_listen_is_found_out():
    granted, taken, changed = run(Deaf())
    assert changed and len(taken) < len(granted)
