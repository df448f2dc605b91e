"""Parts alone: ready sets of dynamic PEs beside a plain set, chained consumers beside a queue, a
table, a scratchpad's counts.
"""

from itertools import pairwise

import numpy as np
import cocotb
import pytest
from penstock.machine.beat import BufferRef, Tile
from penstock.machine.faults import Fault
from penstock.machine.kinds import scratchpad as kinds
from penstock.overlay.core.config import Layout
from penstock.tb.tops import ComponentTop, simulate, small
from penstock.testing.agents import Bench

SENDERS = (1, 33, 70)
SEEDS = 3
DEPTHS = (1, 3, 8)
WORD = 32


def components():
    from penstock.hw.beat import Payloads
    from penstock.hw.memory.scratchpad import Scratchpad
    from penstock.hw.memory.table import Table
    from penstock.hw.noc.token import struct
    from penstock.hw.units.token.links import Links
    from penstock.hw.units.token.ready_bits import ReadyBits
    from penstock.hw.units.token.ready_queue import ReadyQueue

    link = struct(Layout((("node", 8),)))
    tile = Tile(2, "bf16")
    pad = Scratchpad(
        kind=kinds.Scratchpad(
            pages=2,
            frames=1,
            writers=[{"rank": 1}],
            limit=[2],
            readers=[{"rank": 1, "repeat_dim": False}],
            repeat=[0],
        ),
        t=2,
        config=small(2, "bf16").machine,
        posts=1,
        payloads=Payloads((tile, BufferRef(2)), (BufferRef(2), tile)),
    )
    return (
        {f"bits{n}": ReadyBits(senders=n, seeds=SEEDS) for n in SENDERS}
        | {f"queue{n}": ReadyQueue(senders=n, depth=n) for n in SENDERS}
        | {f"links{n}": Links(link=link, depth=n) for n in DEPTHS}
        | {"table": Table(entries=[(n,) for n in (5, 3, 9)], fields={"n": 8}), "pad": pad}
    )


TOP = ComponentTop("parts", components)


class Part:
    """Ports of a component, which rest at 0."""

    def __init__(self, dut, name, inputs):
        self.name = name
        self.bench = Bench(dut)
        self.ports = {p: getattr(dut, f"{name}_{p}") for p in inputs}
        self.dut = dut
        self.set(**dict.fromkeys(inputs, 0))

    def set(self, **values):
        for port, value in values.items():
            self.ports[port].value = value

    def equal(self, port, expected, bit=None):
        value = getattr(self.dut, f"{self.name}_{port}").value
        value = value if bit is None else value[bit]
        where = f"{self.name} {port}, cycle {self.bench.cycle - 1}"
        assert value.is_resolvable, f"{where}: {value}"
        assert int(value) == expected, f"{where}: {int(value)}, not {expected}"


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, TOP, {})


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(senders=SENDERS, critical=[False, True], draw=range(4))
async def test_ready_sets_offer_the_right_node(dut, senders, critical, draw):
    """Two runs; nodes enter once each, in random cycles. Bits offer the lowest of those inside at
    the start of a cycle, a queue the oldest, one that enters in this cycle included.
    """
    rng = np.random.default_rng([cocotb.RANDOM_SEED % 2**32, senders, draw])
    sources = int(rng.integers(0, senders + 1))
    inputs = ("restart", "enter", "o_ready", *(("count", "seed") if critical else ("sources",)))
    part = Part(dut, f"{'bits' if critical else 'queue'}{senders}", inputs)
    await part.bench.reset()
    seeded = set(range(sources))
    if critical:
        seeded = set(rng.choice(senders, sources, replace=False).tolist())
        part.set(count=senders)
        for word in range(SEEDS):  # words beyond the senders hold rubbish of an earlier load
            bits = sum(1 << n - WORD * word for n in seeded if n // WORD == word)
            data = bits if WORD * word < senders else (1 << WORD) - 1
            part.set(seed=1 | word << 1 | data << 3)
            await part.bench.edge
        part.set(seed=0)
    else:
        part.set(sources=sources)
    for _ in range(2):
        part.set(restart=1)
        for _ in range(-(-senders // WORD) + 2 if critical else 1):
            await part.bench.edge
        part.set(restart=0)
        inside = sorted(seeded)
        late = rng.permutation([n for n in range(senders) if n not in seeded]).tolist()
        for cycle in range(6 * senders + 200):
            draining = cycle >= 4 * senders
            enters = int(late.pop()) if late and (draining or rng.random() < 0.4) else None
            ready = draining or bool(rng.random() < 0.5)
            part.set(enter=0 if enters is None else 1 | enters << 1, o_ready=int(ready))
            if enters is not None and not critical:
                inside.append(enters)
            await part.bench.edge
            part.equal("o_valid", bool(inside))
            if inside:
                node = min(inside) if critical else inside[0]
                part.equal("o_payload", node)
                if ready:
                    inside.remove(node)
            if enters is not None and critical:
                inside.append(enters)
        assert not inside and not late
        part.set(enter=0, o_ready=0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(depth=DEPTHS, draw=range(3))
async def test_links_leave_in_order_also_in_the_cycle_in_which_they_come(dut, depth, draw):
    rng = np.random.default_rng([cocotb.RANDOM_SEED % 2**32, depth, draw])
    part = Part(dut, f"links{depth}", ("i", "take"))
    await part.bench.reset()
    held = []
    for k in range(200):
        if len(held) < depth and rng.random() < 0.6:
            held.append(k)
            part.set(i=1 | k << 1)
        else:
            part.set(i=0)
        take = bool(held) and bool(rng.random() < 0.5)
        part.set(take=int(take))
        await part.bench.edge
        part.equal("room", len(held) < depth)
        if held:
            part.equal("o", 1 | held[0] << 1)
            held = held[int(take) :]
        else:
            part.equal("o", 0, bit=0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(advance_in_reset=[0, 1])
async def test_the_following_entry_of_a_table_is_that_of_the_next_cycle(dut, advance_in_reset):
    """The first entry stands from the first cycle after reset, whatever is asked in reset."""
    part = Part(dut, "table", ("advance", "clear"))
    part.set(advance=advance_in_reset)
    await part.bench.reset()
    part.equal("following", 5)
    steps = [(0, 5), (1, 5), (1, 3), (0, 9), (1, 9), (1, 5), (0, 3)]
    for (advance, entry), (_, following) in pairwise(steps):
        part.set(advance=advance)
        await part.bench.edge
        part.equal("entry", entry)
        part.equal("following", following)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_count_of_a_page_that_overflows_is_shown(dut):
    inputs = ("write_0_payload", "write_0_valid", "read_0_payload", "read_0_valid", "cfg")
    part = Part(dut, "pad", (*inputs, "buffer_0_ready", "data_0_ready", "post0"))
    await part.bench.reset()
    part.set(post0=1 | 255 << 1 + BufferRef(2).page_bits)
    for cycle in range(5):
        await part.bench.edge
        part.equal("error", (cycle == 4) << Fault.REFERENCES)
