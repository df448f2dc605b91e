"""The overlay's small parts by themselves, in Amaranth's simulator: ready sets against a plain set,
routers under adversarial traffic.
"""

import gc
import itertools
from collections import Counter

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.hw.arith.format import FP32
from penstock.hw.noc.hoplite_router import HopliteRouter
from penstock.hw.noc.mesh import connect_mesh
from penstock.hw.noc.tm_switch import TimeMultiplexedSwitch
from penstock.hw.noc.token import ram_attributes, struct
from penstock.hw.noc.xy_router import XYRouter
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


TOKEN = Layout((("x", 2), ("y", 2), ("node", 10), ("slot", 2), ("value", 16)))


class Network(Elaboratable):
    """Routers of one kind alone, connected; PEs are the bench."""

    def __init__(self, rows, cols, kind):
        self.rows = rows
        self.cols = cols
        self.kind = kind
        make = (
            (lambda: XYRouter(token=struct(TOKEN), fifo_depth=2))
            if kind == "mesh"
            else (lambda: HopliteRouter(token=struct(TOKEN)))
        )
        self.routers = {(x, y): make() for y in range(rows) for x in range(cols)}

    def elaborate(self, platform):
        m = Module()
        for (x, y), router in self.routers.items():
            m.submodules[f"router_{x}_{y}"] = router
            m.d.comb += [router.x.eq(x), router.y.eq(y)]
        connect_mesh(m, self.routers, rows=self.rows, cols=self.cols, torus=self.kind == "hoplite")
        return m


PATTERNS = {
    "everybody to one": lambda rng, here, rows, cols: (cols - 1, rows - 1),
    "across the middle": lambda rng, here, rows, cols: (cols - 1 - here[0], rows - 1 - here[1]),
    "anywhere": lambda rng, here, rows, cols: (int(rng.integers(cols)), int(rng.integers(rows))),
    "next column": lambda rng, here, rows, cols: ((here[0] + 1) % cols, int(rng.integers(rows))),
}


def nap(rng, left):
    """Cycles that a receiver still sleeps."""
    if left > 0:
        return left - 1
    return int(rng.integers(5, 60)) if rng.random() < 0.02 else 0


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", ["mesh", "hoplite"])
def test_networks_lose_nothing_duplicate_nothing_and_never_stick(kind, pattern):
    """All PEs send as fast as they can; receivers refuse half of the time, sometimes for long.

    Each token arrives once, at its PE, and on the mesh in the order of its sender.
    """
    rng = np.random.default_rng(len(pattern))
    rows = 3
    cols = 4
    each = 25
    net = Network(rows, cols, kind)
    places = list(net.routers)
    queues = {p: [] for p in places}
    number = 0
    for p in places:
        for _ in range(each):
            to = PATTERNS[pattern](rng, p, rows, cols)
            if to != p:
                queues[p].append(
                    {
                        "x": to[0],
                        "y": to[1],
                        "node": number,
                        "slot": int(rng.integers(3)),
                        "value": (number * 40503) & 0xFFFF,
                    }
                )
                number += 1
    sent = {t["node"]: (p, t) for p, q in queues.items() for t in q}
    arrived = []

    async def bench(ctx):
        left = {p: list(q) for p, q in queues.items()}
        asleep = dict.fromkeys(places, 0)
        quiet = 0
        for _ in range(20000):
            for p, router in net.routers.items():
                asleep[p] = nap(rng, asleep[p])
                ctx.set(router.p_i.valid, bool(left[p]))
                if left[p]:
                    ctx.set(router.p_i.payload, left[p][0])
                ctx.set(router.p_o.ready, asleep[p] == 0 and rng.random() < 0.5)
            quiet += 1
            for p, router in net.routers.items():
                if left[p] and ctx.get(router.p_i.ready):
                    left[p].pop(0)
                    quiet = 0
                if ctx.get(router.p_o.valid) and ctx.get(router.p_o.ready):
                    payload = ctx.get(router.p_o.payload)
                    arrived.append((p, {name: payload[name] for name, _ in TOKEN.fields}))
                    quiet = 0
            await ctx.tick()
            if quiet > 200:
                break
        assert not any(left.values()), "a token was never accepted"

    simulate(net, bench)
    assert Counter(t["node"] for _, t in arrived) == Counter(sent.keys())
    for p, token in arrived:
        assert p == (token["x"], token["y"]) and token == sent[token["node"]][1]
    if kind == "mesh":
        for sender, receiver in itertools.product(places, repeat=2):
            nodes = [
                t["node"] for p, t in arrived if p == receiver and sent[t["node"]][0] == sender
            ]
            assert nodes == sorted(nodes)


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


def test_switch_follows_its_contexts():
    dut = TimeMultiplexedSwitch(width=8, contexts=4)
    contexts = [{"w": 1, "e": 0, "n": 2, "s": 3, "p": 0}, {"w": 0, "e": 1, "n": 0, "s": 1, "p": 3}]
    inputs = {"p": 10, "w": 20, "e": 30, "n": 40, "s": 50}
    seen = []

    async def bench(ctx):
        for address, context in enumerate(contexts):
            word = sum(
                context[name] << at for name, at in zip("wensp", (0, 1, 2, 4, 6), strict=True)
            )
            ctx.set(dut.write, {"valid": 1, "address": address, "data": word})
            await ctx.tick()
        ctx.set(dut.write, {"valid": 0, "address": 0, "data": 0})
        for name, value in inputs.items():
            ctx.set(getattr(dut, f"{name}_i"), value)
        for cycle in range(4):  # context k holds in cycle k + 2
            ctx.set(dut.fetch, min(cycle, 1))
            if cycle >= 2:
                seen.append({"p": ctx.get(dut.p_o)})
            await ctx.tick()
            if cycle >= 2:
                seen[-1] |= {name: ctx.get(getattr(dut, f"{name}_o")) for name in "wens"}

    simulate(dut, bench)
    assert seen == [
        {"p": 20, "w": 30, "e": 10, "n": 30, "s": 40},
        {"p": 50, "w": 10, "e": 20, "n": 10, "s": 20},
    ]


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
