"""The serial line's ends, in Amaranth's simulator."""

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator
from penstock.hw.host.uart import UartReceiver, UartTransmitter

BYTES = [0x00, 0xFF, 0x55, 0x7E, 0x80, 0x01]


def received(bits, divisor):
    """The bytes that a receiver gets of a line, given the cycles of each level."""
    uart = UartReceiver(divisor=divisor)
    got = []

    async def line(ctx):
        for level, cycles in bits:
            ctx.set(uart.rx, level)
            for _ in range(cycles):
                _, _, valid, byte = await ctx.tick().sample(uart.bytes.valid, uart.bytes.payload)
                if valid:
                    got.append(byte)

    sim = Simulator(uart)
    sim.add_clock(1e-6)
    sim.add_testbench(line)
    sim.run()
    return got


def levels(data, cycles_of_bit):
    """Start bit, data, stop bit of each byte; a bit takes so many cycles on average."""
    bits = [1] + [b for byte in data for b in (0, *(byte >> k & 1 for k in range(8)), 1)] + [1] * 3
    edges = [round(k * cycles_of_bit) for k in range(len(bits) + 1)]
    return [(b, end - begin) for b, begin, end in zip(bits, edges, edges[1:], strict=False)]


@pytest.mark.parametrize("divisor", [4, 9, 25])
def test_bytes_go_from_end_to_end_without_a_pause(divisor):
    m = Module()
    m.submodules.sender = sender = UartTransmitter(divisor=divisor)
    m.submodules.receiver = receiver = UartReceiver(divisor=divisor)
    m.d.comb += receiver.rx.eq(sender.tx)
    got = []

    async def give(ctx):
        for byte in BYTES:
            ctx.set(sender.bytes.payload, byte)
            ctx.set(sender.bytes.valid, 1)
            await ctx.tick().until(sender.bytes.ready)
        ctx.set(sender.bytes.valid, 0)
        await ctx.tick().repeat(12 * divisor)

    async def take(ctx):
        async for _, _, valid, byte in ctx.tick().sample(
            receiver.bytes.valid, receiver.bytes.payload
        ):
            if valid:
                got.append(byte)

    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_testbench(give)
    sim.add_testbench(take, background=True)
    sim.run()
    assert got == BYTES


@pytest.mark.parametrize("rate", [0.97, 1.0, 1.03])
def test_a_line_that_is_three_percent_off_is_understood(rate):
    assert received(levels(BYTES, 25 * rate), 25) == BYTES


def test_a_byte_without_a_stop_bit_and_a_spike_are_nothing():
    broken = levels([0x55], 16)
    broken[10] = (0, 16)
    spike = [(1, 64), (0, 4), (1, 64)]
    assert received([*broken[:11], (1, 200), *spike, *levels([0x42], 16)], 16) == [0x42]


@pytest.mark.parametrize("divisor", [3, 1 << 16, 4.0])
def test_a_divisor_that_is_none_is_refused(divisor):
    with pytest.raises(ValueError, match="Divisor must be an integer from 4 to 65535"):
        UartReceiver(divisor=divisor)
