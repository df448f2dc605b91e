"""The controller of a synchronous DRAM with a chip that watches every rule."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from penstock.hw.host.block_ram import LinePort
from penstock.hw.host.sdram.chip import Chip
from penstock.hw.host.sdram.controller import Controller
from penstock.machine.sdram import RULES, SDRAM

QUICK = replace(SDRAM, power_up_us=2.0)
"""Powered up in no time."""
WORDS = 1 << 14
"""Four banks of eight rows."""


class Top(wiring.Component):
    """A controller with its chip, which may be of other times."""

    def __init__(self, line_bytes, clock_mhz, chip=QUICK, kept=None):
        self.controller = Controller(chip=kept or chip, clock_mhz=clock_mhz, line_bytes=line_bytes)
        self.chip = Chip(chip=chip, clock_mhz=clock_mhz, words=WORDS)
        super().__init__(
            {"port": In(LinePort(line_bytes)), "broken": Out(range(len(RULES))), "idle": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = self.controller
        m.submodules.chip = self.chip
        wiring.connect(m, wiring.flipped(self.port), self.controller.port)
        wiring.connect(m, self.controller.pins, self.chip.pins)
        m.d.comb += [self.broken.eq(self.chip.broken), self.idle.eq(self.controller.idle)]
        return m


def requests(seed, number, line_bytes):
    """Reads and writes, masked, near each other and far."""
    chosen = random.Random(seed)
    lines = 2 * WORDS // line_bytes
    at = 0
    for k in range(number):
        at = (at + 1) % lines if chosen.random() < 0.6 else chosen.randrange(lines)
        write = k < 40 or chosen.random() < 0.5
        mask = (1 << line_bytes) - 1 if chosen.random() < 0.5 else chosen.getrandbits(line_bytes)
        yield write, at * line_bytes, chosen.getrandbits(8 * line_bytes), mask


def run(top, asked, pause=0.0):
    """Cycle of each request and answer, what was read, and the rule that was broken."""
    line_bytes = top.controller.line_bytes
    chosen = random.Random(1)
    memory = bytearray(4 * WORDS)  # more than the chip has
    taken, answered, wrong = [], [], []
    expected = []
    rule = []

    async def bench(ctx):
        port = top.port
        todo = list(asked)
        cycle = 0
        offered = None
        while todo or offered or len(answered) < len(expected):
            if offered is None and todo and chosen.random() >= pause:
                offered = todo.pop(0)
                write, address, value, mask = offered
                ctx.set(port.req_valid, 1)
                ctx.set(port.req_write, write)
                ctx.set(port.req_addr, address)
                ctx.set(port.req_data, value)
                ctx.set(port.req_mask, mask)
                ctx.set(port.req_group, len(expected) % 64)
            if ctx.get(port.rsp_valid):
                tag, want = expected[len(answered)]
                got = ctx.get(port.rsp_data)
                if ctx.get(port.rsp_tag) != tag or (want is not None and got != want):
                    wrong.append((len(answered), hex(got), want and hex(want)))
                answered.append(cycle)
            if offered and ctx.get(port.req_ready):
                write, address, value, mask = offered
                old = memory[address : address + line_bytes]
                want = None if write else int.from_bytes(old, "little")
                expected.append((len(expected) % 64, want))
                taken.append(cycle)
                if write:
                    new = value.to_bytes(line_bytes, "little")
                    for k in range(line_bytes):
                        if mask >> k & 1:
                            memory[address + k] = new[k]
                offered = None
                await ctx.tick()
                ctx.set(port.req_valid, 0)
            else:
                await ctx.tick()
            cycle += 1
            if cycle > 60_000 or ctx.get(top.broken):
                break
        rule.append(RULES[ctx.get(top.broken)])

    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return taken, answered, wrong, rule[0]


@pytest.mark.parametrize(
    ("line_bytes", "clock_mhz", "pause"),
    [
        pytest.param(8, 25.0, 0.0, marks=pytest.mark.deep),
        (8, 100.0, 0.3),
        pytest.param(64, 48.0, 0.0, marks=pytest.mark.deep),
        (16, 133.0, 0.1),
    ],
)
def test_lines_are_what_was_written_and_no_rule_is_broken(line_bytes, clock_mhz, pause):
    chip = replace(QUICK, cas_latency=3 if clock_mhz > 100 else 2)
    asked = list(requests(7, 400, line_bytes))
    taken, answered, wrong, rule = run(Top(line_bytes, clock_mhz, chip), asked, pause)
    assert rule == "none" and not wrong
    assert len(taken) == len(answered) == len(asked)
    assert all(b > a for a, b in zip(taken, answered, strict=True))


@pytest.mark.parametrize("line_bytes", [8, 32])
def test_lines_take_the_cycles_that_are_stated(line_bytes):
    columns = line_bytes // 2
    mask = (1 << line_bytes) - 1
    row = 2 * 4 << SDRAM.col_bits
    addresses = [0, 0, line_bytes, row, row]
    asked = [(k in (1, 4), at, k, mask) for k, at in enumerate(addresses)]
    taken, answered, wrong, rule = run(Top(line_bytes, 25.0), asked)
    assert rule == "none" and not wrong
    latency = SDRAM.cas_latency
    answers = [end - begin for begin, end in zip(taken, answered, strict=True)]
    assert taken[2] == taken[1] + answers[1] - 1  # with the last command of the line before
    assert answers[1] == columns + latency + 1  # a write waits for the read before it
    assert answers[2] == columns + latency + 2
    # Times are shorter than this clock's cycle, but for tRC: 2 of them.
    assert answers[3] == columns + latency + 2 + 2
    # Lines of an open row are read without a pause.
    many = [(False, k * line_bytes, 0, mask) for k in range(8)]
    taken, answered, wrong, rule = run(Top(line_bytes, 25.0), many)
    assert rule == "none" and {b - a for a, b in pairwise(answered)} == {columns}


SLOW = replace(QUICK, t_rc=90.0, refresh_us=3.0)
"""A row that is closed as soon as may be may not be opened as soon as may be."""


@pytest.mark.parametrize(
    ("shorter", "rule"),
    [
        ({"t_rcd": 10.0}, "tRCD"),
        ({"t_rp": 10.0}, "tRP"),
        ({"t_ras": 10.0}, "tRAS"),
        ({"t_rc": 10.0}, "tRC"),
        ({"t_rfc": 10.0}, "tRFC"),
        ({"write_recovery": 1}, "write recovery"),
        ({"mode_cycles": 1}, "tMRD"),
        ({"power_up_us": 1.0}, "power-up"),
        ({"refreshes": 2}, "initialisation"),
        ({"cas_latency": 3}, "mode"),
        ({"refresh_us": 1000.0}, "refresh interval"),
    ],
)
def test_a_rule_that_is_broken_is_named(shorter, rule):
    asked = requests(7, 900, 8)
    top = Top(8, 100.0, SLOW, kept=replace(SLOW, **shorter))
    assert run(top, asked, pause=0.3)[3] == rule


def test_an_address_beyond_the_chip_is_seen():
    assert run(Top(8, 25.0), [(True, 2 * WORDS, 0, 255)])[3] == "address"
