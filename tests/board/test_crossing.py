"""A memory with a clock of its own, behind a guard, in Amaranth's simulator."""

import random

import pytest
from amaranth.hdl import DomainRenamer, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator
from penstock.hw.host.block_ram import BlockRam
from penstock.hw.host.crossing import Crossing
from penstock.hw.host.guard import Guard

DEPTH = 4


@pytest.mark.parametrize(
    "period, size", [(0.3, 64), (1.0, 8), (2.7, 16)], ids=["faster", "equal", "slower"]
)
def test_lines_cross_in_order_and_none_is_lost(period, size):
    """Lines of ``size`` bytes; but for those that a reset of the design finds on their way: none of
    them reaches it afterwards.
    """
    m = Module()
    m.submodules.guard = guard = Guard(outstanding=DEPTH, line_bytes=size)
    m.submodules.crossing = crossing = Crossing(depth=DEPTH, line_bytes=size)
    ram = BlockRam(lines=16, line_bytes=size)
    m.submodules.ram = DomainRenamer("memory")(ram)
    wiring.connect(m, guard.memory, crossing.design)
    wiring.connect(m, crossing.memory, ram.design)
    port = guard.design
    chosen = random.Random(5)
    content = [0] * 16
    want = []
    got = []
    dropped = []

    async def bench(ctx):
        for n in range(80):
            line = chosen.randrange(16)
            write = n < 16 or chosen.random() < 0.3
            line = n if n < 16 else line
            data = chosen.getrandbits(8 * size)
            ctx.set(port.req_valid, 1)
            ctx.set(port.req_write, write)
            ctx.set(port.req_group, n)
            ctx.set(port.req_addr, size * line)
            ctx.set(port.req_data, data)
            ctx.set(port.req_mask, 2**size - 1)
            await ctx.tick().until(port.req_ready)
            ctx.set(port.req_valid, 0)
            want.append((n, None if write else content[line]))
            content[line] = data if write else content[line]
            for _ in range(chosen.choice([0, 0, 0, 5])):
                await ctx.tick()
            if chosen.random() < 0.2:
                await reset(ctx)
        await ctx.tick().repeat(60)

    async def reset(ctx):
        ctx.set(guard.held, 1)
        await ctx.tick()
        dropped.extend(want[len(got) :])
        del want[len(got) :]
        await ctx.tick().repeat(chosen.choice([1, 6]))
        ctx.set(guard.held, 0)

    async def monitor(ctx):
        async for _, _, valid, tag, data in ctx.tick().sample(
            port.rsp_valid, port.rsp_tag, port.rsp_data
        ):
            if valid:
                got.append((tag, None if want_is_write(tag) else data))

    def want_is_write(tag):
        asked = dict(want)
        assert tag in asked, "a line that nobody waits for"
        return asked[tag] is None

    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_clock(period * 1e-6, domain="memory")
    sim.add_testbench(bench)
    sim.add_testbench(monitor, background=True)
    sim.run()
    assert got == want
    assert len(want) > DEPTH and len(dropped) > DEPTH
