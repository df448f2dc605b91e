"""cocotb test of a memory port before an AXI4 memory with a clock of its own."""

import os

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, Timer
from line_driver import LINES, PAUSES, Cycles, Lines, Slave

PERIOD = float(os.environ["PERIOD"])
MEMORY_PERIOD = float(os.environ["MEMORY_PERIOD"])
"""Of the two clocks, in ns."""


@cocotb.test()
async def lines_over_two_clocks(dut):
    """Values are those of memory in order, under every back-pressure; after a reset of the design
    with lines on their way, which the memory does not see, none of them reaches it.
    """
    dut.line_req_valid.value = 0
    dut.held.value = 0
    dut.rst.value = 1
    dut.memory_rst.value = 1
    Clock(dut.clk, PERIOD, "ns").start()
    Clock(dut.memory_clk, MEMORY_PERIOD, "ns").start()
    slave = Slave(dut, dut.memory_clk, dut.memory_rst)
    errors = Cycles(dut.error, dut.memory_clk)
    await Timer(8 * max(PERIOD, MEMORY_PERIOD), "ns")
    await FallingEdge(dut.memory_clk)
    dut.memory_rst.value = 0
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 8)
    await FallingEdge(dut.clk)

    lines = Lines(dut, 11)
    await lines.under_pauses(slave)
    assert lines.most == 8, "as many as the crossing holds are on their way"

    dropped = 0
    for turn in range(80):
        slave.pause(*lines.random.choice(PAUSES))
        await lines.ask_some(lines.random.randrange(1, 9))
        for _ in range(lines.random.randrange(12)):
            await lines.cycle()
        dropped += len(lines.due)
        if turn % 2:  # it asks for a line when it is reset
            lines.offer(1, 7, lines.line())
        await lines.reset(lines.random.choice([1, 1, 2, 7]))
        await lines.ask_some(lines.random.randrange(4))
        await lines.drain()
    assert dropped > 80, "lines are on their way when the design is reset"

    slave.pause(0.0, 0.0)
    for line in range(LINES):
        await lines.ask(0, 1, lines.line_bytes * line)
    await lines.drain()
    for _ in range(60):
        await lines.cycle()
    assert errors.count == 0
