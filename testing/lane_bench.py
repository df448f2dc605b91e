"""A datapath in Amaranth's simulator: operands in, results out."""

import numpy as np
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator


def run(dut, vectors, gaps):
    """Results of ``vectors`` (tuples of integers for a, b), entered with ``gaps`` idle cycles
    before each.

    Results are sampled in the cycle the contract names; operands are rubbish while ``en`` is low.
    """
    results = []
    due = {}

    async def bench(ctx):
        cycle = 0

        async def step(vector):
            nonlocal cycle
            ctx.set(dut.en, vector is not None)
            for name, value in zip("ab", vector or (0xDEADBEEF, 0x12345678), strict=False):
                if hasattr(dut, name):
                    ctx.set(getattr(dut, name), value)
            if vector is not None:
                due[cycle + dut.STAGES - 1] = True
            if due.pop(cycle, False):
                results.append(int(ctx.get(dut.o)))
            await ctx.tick()
            cycle += 1

        for vector, gap in zip(vectors, gaps, strict=True):
            for _ in range(gap):
                await step(None)
            await step(vector)
        while due:
            await step(None)

    m = Module()
    m.domains.sync = ClockDomain()
    m.submodules.dut = dut
    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    return np.array(results, np.uint64 if len(dut.o) > 32 else np.uint32)
