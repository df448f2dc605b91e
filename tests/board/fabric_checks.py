"""cocotb test of a fabric before the AXI4 memory of cocotbext-axi."""

import random
from pathlib import Path

import numpy as np
import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiRam


def pauses(seed, share, long):
    chosen = random.Random(seed)
    while True:
        for _ in range(chosen.choice([1, long])):
            yield True
        while chosen.random() >= share:
            yield False


@cocotb.test()
async def outputs_are_the_models(dut):
    job = np.load(Path("job.npz"))
    size = len(job["image"])
    dut.rst.value = 1
    Clock(dut.clk, 10, "ns").start()
    ram = AxiRam(AxiBus.from_prefix(dut, "axi"), dut.clk, dut.rst, size=1 << 16)
    channels = (
        ram.write_if.aw_channel,
        ram.write_if.w_channel,
        ram.write_if.b_channel,
        ram.read_if.ar_channel,
        ram.read_if.r_channel,
    )
    for long in (0, 4, 200):
        for seed, channel in enumerate(channels):
            channel.clear_pause_generator()
            if long:
                channel.set_pause_generator(pauses(seed, 0.3, long))
        dut.rst.value = 1
        await ClockCycles(dut.clk, 4)
        ram.write(0, job["image"].tobytes())
        dut.rst.value = 0
        await with_timeout(RisingEdge(dut.done), 5, "ms")
        assert int(dut.error.value) == 0
        assert ram.read(0, size) == job["after"].tobytes()
