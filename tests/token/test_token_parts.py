"""Small parts of the overlay's PEs in Amaranth's simulator: ready sets against a plain set."""

import gc

import numpy as np
import pytest
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.hw.arith.format import FP32
from penstock.hw.noc.token import ram_attributes, struct
from penstock.hw.units.token.alu import Alu
from penstock.hw.units.token.leading_one import LeadingOne
from penstock.hw.units.token.links import Links
from penstock.hw.units.token.ready_bits import ReadyBits
from penstock.hw.units.token.ready_queue import ReadyQueue
from penstock.overlay.core.config import Layout


def simulate(dut, bench):
    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()


@settings(max_examples=20, deadline=None)
@given(width=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_leading_one_is_the_lowest_set_bit(width, seed):
    rng = np.random.default_rng(seed)
    words = [0, (1 << width) - 1, 1 << width - 1] + [
        int(rng.integers(0, 1 << width)) & int(rng.integers(0, 1 << width)) for _ in range(30)
    ]
    dut = LeadingOne(width=width)

    async def bench(ctx):
        for word in words:
            ctx.set(dut.i, word)
            assert ctx.get(dut.any) == (word != 0)
            if word:
                assert ctx.get(dut.index) == (word & -word).bit_length() - 1

    sim = Simulator(dut)
    sim.add_testbench(bench)
    sim.run()


@settings(max_examples=15, deadline=None)
@given(senders=st.sampled_from([1, 2, 31, 32, 33, 70]), seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("critical", [False, True])
def test_ready_set_against_a_plain_one(critical, senders, seed):
    """Two runs; nodes enter once each, in random cycles; whatever is taken at c was the right one
    of those in the set at the start of c. A queue has the one that enters at c, too.
    """
    rng = np.random.default_rng(seed)
    sources = int(rng.integers(0, senders + 1))
    seeded = (
        set(rng.choice(senders, sources, replace=False).tolist())
        if critical
        else set(range(sources))
    )
    dut = (
        ReadyBits(senders=senders, seeds=3)
        if critical
        else ReadyQueue(senders=senders, depth=max(1, senders - sources))
    )
    taken_in_all = []

    async def bench(ctx):
        if critical:
            ctx.set(dut.count, senders)
            for word in range(3):  # the words beyond the senders hold rubbish from an earlier load
                bits = (
                    sum(1 << n - 32 * word for n in seeded if n // 32 == word)
                    if 32 * word < senders
                    else 0xFFFFFFFF
                )
                ctx.set(dut.seed, {"valid": 1, "address": word, "data": bits})
                await ctx.tick()
            ctx.set(dut.seed, {"valid": 0, "address": 0, "data": 0})
        else:
            ctx.set(dut.sources, sources)
        for _ in range(2):
            ctx.set(dut.restart, 1)
            await ctx.tick().repeat(dut.RESTART_CYCLES)
            ctx.set(dut.restart, 0)
            inside = sorted(seeded)
            late = [int(n) for n in rng.permutation([n for n in range(senders) if n not in seeded])]
            taken = []
            for _ in range(6 * senders + 20):
                enters = late.pop() if late and rng.random() < 0.4 else None
                ctx.set(dut.enter, {"valid": int(enters is not None), "node": enters or 0})
                ready = int(rng.random() < 0.5)
                ctx.set(dut.o.ready, ready)
                if enters is not None and not critical:
                    inside.append(enters)
                assert ctx.get(dut.o.valid) == bool(inside)
                if inside:
                    node = min(inside) if critical else inside[0]
                    assert ctx.get(dut.o.payload) == node
                    if ready:
                        inside.remove(node)
                        taken.append(node)
                if enters is not None and critical:
                    inside.append(enters)
                await ctx.tick()
            ctx.set(dut.enter, {"valid": 0, "node": 0})
            ctx.set(dut.o.ready, 1)
            while inside:
                taken.append(ctx.get(dut.o.payload))
                inside.remove(taken[-1])
                await ctx.tick()
            ctx.set(dut.o.ready, 0)
            taken_in_all.append(sorted(taken + late))

    simulate(dut, bench)
    assert taken_in_all == [list(range(senders))] * 2


@settings(max_examples=10, deadline=None)
@given(depth=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
def test_links_leave_in_order_also_in_the_cycle_in_which_they_come(depth, seed):
    rng = np.random.default_rng(seed)
    dut = Links(link=struct(Layout((("node", 8),))), depth=depth)

    async def bench(ctx):
        held = []
        coming = 0
        for k in range(200):
            come = (
                coming and len(held) < depth
            )  # what was read in the last cycle, of a link for which there was room
            ctx.set(dut.i, {"valid": int(come), "link": {"node": k}})
            held += [k] if come else []
            assert ctx.get(dut.room) == (len(held) < depth)
            assert ctx.get(dut.o.valid) == bool(held)
            if held:
                assert ctx.get(dut.o.link.node) == held[0]
            take = bool(held) and rng.random() < 0.5
            ctx.set(dut.take, int(take))
            await ctx.tick()
            held = held[1:] if take else held
            coming = rng.random() < 0.6

    simulate(dut, bench)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_refused_parameters():
    with pytest.raises(ValueError, match="Latency of 'div' must be 1 or at least 6, not 3"):
        Alu(form=FP32, latencies={"div": 3})
    with pytest.raises(ValueError, match="Width must be at least 1, not 0"):
        LeadingOne(width=0)
    with pytest.raises(
        ValueError, match="Kind of memory must be 'block', 'distributed' or None, not 'ultra'"
    ):
        ram_attributes("ultra")
    gc.collect()  # the refused ones, while their never being used is no warning
