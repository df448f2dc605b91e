"""cocotb test of a fabric before the AXI4 memory of cocotbext-axi."""

import random
from pathlib import Path

import numpy as np
import cocotb
from cocotb.clock import Clock
from cocotb.queue import Queue
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge, Timer, with_timeout
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


class Sinks:
    """The beats that each sink unit takes, as numbers."""

    def __init__(self, dut, units):
        self.dut = dut
        self.sunk = [getattr(dut, f"sunk{unit}") for unit in units]
        self.clear()
        if units:
            cocotb.start_soon(self.watch())

    def clear(self):
        self.beats = [[] for _ in self.sunk]

    async def watch(self):
        while True:
            await FallingEdge(self.dut.clk)
            await ReadOnly()
            taken = int(self.dut.taken.value)
            for k, sunk in enumerate(self.sunk):
                if taken >> k & 1:
                    self.beats[k].append(int(sunk.value))


async def count(signal, risen):
    """Notes the time of each rise."""
    while True:
        await RisingEdge(signal)
        risen.append(get_sim_time("ns"))


async def end(dut):
    """When the run is over, which stays so: ``done`` is combinational, and may be high for no time
    where registers change.
    """
    while True:
        await RisingEdge(dut.done)
        risen = get_sim_time("ns")
        await FallingEdge(dut.clk)
        if dut.done.value:
            return risen


def numbers(words):
    return [int.from_bytes(beat.astype("<u4").tobytes(), "little") for beat in words]


def pauses(seed, share, long):
    chosen = random.Random(seed)
    while True:
        for _ in range(chosen.choice([1, long])):
            yield True
        while chosen.random() >= share:
            yield False


@cocotb.test()
async def outputs_are_the_models(dut):
    """So are the beats of sinks; no response of the memory tells an error."""
    job = np.load(Path("job.npz"))
    size = len(job["image"])
    units = job["sinks"].tolist()
    want = [numbers(job[f"sunk{unit}"]) for unit in units]
    if not job["ordered"]:
        want = [sorted(beats) for beats in want]
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
    sinks = Sinks(dut, units)
    wrong = []
    cocotb.start_soon(count(dut.wrong, wrong))
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
        sinks.clear()
        begin = get_sim_time("ns")
        took = (await with_timeout(end(dut), 5, "ms") - begin) / PERIOD
        await ClockCycles(dut.clk, 4)
        assert dut.done.value
        assert int(dut.error.value) == 0
        assert ram.read(0, size) == job["after"].tobytes()
        for unit, beats, due in zip(units, sinks.beats, want, strict=True):
            got = beats if job["ordered"] else sorted(beats)
            assert got == due, f"sink {unit}"
        return took

    taken = [await cycles(latency, 0) for latency in LATENCIES]
    assert taken == sorted(set(taken)), f"a run of {taken} cycles"
    for long in (4, 200):
        await cycles(4, long)
    assert not wrong, f"the memory told an error at {wrong} ns"
