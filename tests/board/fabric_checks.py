"""cocotb test of a fabric before the AXI4 memory of cocotbext-axi."""

import random
from pathlib import Path

import numpy as np
import cocotb
from cocotb.clock import Clock
from cocotb.queue import Queue
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiBus, AxiRam

PERIOD = 10
"""Of the clock, in ns."""
LATENCIES = (0, 4, 50, 200)
"""Cycles of an answer, beside those of the bus model."""


class Latency:
    """Sends what a channel is given ``cycles`` later, any number of beats on their way."""

    def __init__(self, channel):
        self.cycles = 0
        self.waiting = Queue()
        self.send = channel.send
        channel.send = self.later
        cocotb.start_soon(self.forward())

    async def later(self, beat):
        await self.waiting.put((get_sim_time("ns") + PERIOD * self.cycles, beat))

    async def forward(self):
        while True:
            due, beat = await self.waiting.get()
            if (left := due - get_sim_time("ns")) > 0:
                await Timer(left, "ns")
            await self.send(beat)


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
    Clock(dut.clk, PERIOD, "ns").start()
    ram = AxiRam(AxiBus.from_prefix(dut, "axi"), dut.clk, dut.rst, size=1 << 16)
    channels = (
        ram.write_if.aw_channel,
        ram.write_if.w_channel,
        ram.write_if.b_channel,
        ram.read_if.ar_channel,
        ram.read_if.r_channel,
    )
    latencies = [Latency(ram.write_if.b_channel), Latency(ram.read_if.r_channel)]

    async def cycles(latency, long):
        """Those of a run, with a latency and with pauses up to so long."""
        for answers in latencies:
            answers.cycles = latency
        for seed, channel in enumerate(channels):
            channel.clear_pause_generator()
            if long:
                channel.set_pause_generator(pauses(seed, 0.3, long))
        dut.rst.value = 1
        await ClockCycles(dut.clk, 4)
        ram.write(0, job["image"].tobytes())
        dut.rst.value = 0
        begin = get_sim_time("ns")
        await with_timeout(RisingEdge(dut.done), 5, "ms")
        assert int(dut.error.value) == 0
        assert ram.read(0, size) == job["after"].tobytes()
        return (get_sim_time("ns") - begin) / PERIOD

    taken = [await cycles(latency, 0) for latency in LATENCIES]
    assert taken == sorted(set(taken)), f"a run of {taken} cycles"
    for long in (4, 200):
        await cycles(4, long)
