"""cocotb tests of a fabric's exported Verilog with its registers on AXI4-Lite and its memory on
AXI4, as a host uses it.
"""

import random
from pathlib import Path

import numpy as np
import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam, AxiResp
from penstock.machine.host_map import MAP_ID, register, window

BASE = 0x4000
"""Where the tensors begin."""


def numbers(words):
    return [int.from_bytes(beat.astype("<u4").tobytes(), "little") for beat in words]


def pauses(seed, share, long):
    chosen = random.Random(seed)
    while True:
        for _ in range(chosen.choice([1, long])):
            yield True
        while chosen.random() >= share:
            yield False


class Bench:
    """A host, a memory, and the streams of ``job.npz``."""

    def __init__(self, dut):
        self.dut = dut
        self.job = np.load(Path("job.npz"))
        self.axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "axil"), dut.clk, dut.rst)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "axi"), dut.clk, dut.rst, size=1 << 16)
        self.sunk = {unit: [] for unit in self.job["sinks"].tolist()}

    async def start(self):
        dut = self.dut
        dut.memory_base.value = BASE
        for unit in self.job["sources"].tolist():
            getattr(dut, f"src{unit}_valid").value = 0
        for unit in self.sunk:
            getattr(dut, f"snk{unit}_ready").value = 1
        dut.rst.value = 1
        Clock(dut.clk, 10, "ns").start()
        await ClockCycles(dut.clk, 4)
        dut.rst.value = 0

    async def read(self, address):
        answer = await with_timeout(self.axil.read(address, 4), 10, "us")
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def write(self, address, value):
        told = await with_timeout(self.axil.write(address, value.to_bytes(4, "little")), 10, "us")
        assert told.resp == AxiResp.OKAY

    async def configure(self):
        for number, value in self.job["writes"].tolist():
            await self.write(window("CONFIGURATION").base + 4 * number, value)

    async def offer(self, unit):
        """The beats of a source."""
        valid, ready, payload = (
            getattr(self.dut, f"src{unit}_{name}") for name in ("valid", "ready", "payload")
        )
        for beat in numbers(self.job[f"source{unit}"]):
            payload.value = beat
            valid.value = 1
            await ReadOnly()
            while not (ready.value and self.dut.design.rst.value == 0):
                await FallingEdge(self.dut.clk)
                await ReadOnly()
            await FallingEdge(self.dut.clk)
        valid.value = 0

    async def take(self, unit):
        """The beats of a sink."""
        valid, payload = (getattr(self.dut, f"snk{unit}_{name}") for name in ("valid", "payload"))
        while True:
            await FallingEdge(self.dut.clk)
            await ReadOnly()
            if valid.value:
                self.sunk[unit].append(int(payload.value))

    async def run(self):
        """Load, run to the end, hold again; whether the memory told an error."""
        self.ram.write(BASE, self.job["image"].tobytes())
        for beats in self.sunk.values():
            beats.clear()
        await self.configure()
        await FallingEdge(self.dut.clk)
        offered = [cocotb.start_soon(self.offer(unit)) for unit in self.job["sources"].tolist()]
        await self.write(register("CONTROL").address, 1)
        while not await self.read(register("STATUS").address) & 1:
            pass
        assert self.dut.done.value
        for task in offered:
            await task
        wrong = bool(self.dut.memory_error.value)
        assert await self.read(register("STATUS").address) >> 8 == 0
        assert await self.read(register("CYCLES").address) > 0
        await self.write(register("CONTROL").address, 0)
        await ClockCycles(self.dut.clk, 2)
        assert not self.dut.done.value and not self.dut.memory_error.value
        return wrong

    def check_memory(self):
        """It has what the model's has, from its base on."""
        after = self.job["after"].tobytes()
        assert self.ram.read(BASE, len(after)) == after
        assert self.ram.read(0, BASE) == bytes(BASE)

    def check_sinks(self):
        """They have taken what the model's have."""
        for unit, beats in self.sunk.items():
            assert beats == numbers(self.job[f"sunk{unit}"]), f"sink {unit}"


@cocotb.test()
async def a_host_loads_runs_and_reads(dut):
    bench = Bench(dut)
    await bench.start()
    assert await bench.read(register("ID").address) == MAP_ID
    assert await bench.read(register("DESIGN").address) == int(bench.job["design"])
    assert await bench.read(register("MEMORY_BYTES").address) == int(bench.job["memory_bytes"])
    for unit in bench.sunk:
        cocotb.start_soon(bench.take(unit))
    for share, long in ((None, 0), (0.5, 9), (0.3, 200)):
        if share:
            bench.ram.read_if.r_channel.set_pause_generator(pauses(1, share, long))
            bench.ram.write_if.b_channel.set_pause_generator(pauses(2, share, long))
        assert not await bench.run()
        bench.check_memory()
        bench.check_sinks()


@cocotb.test()
async def an_error_of_the_memory_is_told_until_the_design_is_held(dut):
    bench = Bench(dut)
    await bench.start()
    channel = bench.ram.read_if.r_channel
    send = channel.send
    sent = []

    async def spoiled(beat):
        sent.append(beat)
        if len(sent) == 3:
            beat.rresp = AxiResp.SLVERR
        await send(beat)

    channel.send = spoiled
    assert await bench.run()
    assert not await bench.run()
    bench.check_memory()


@cocotb.test()
async def a_run_that_is_broken_off_leaves_no_lines(dut):
    """Those that it asked for come while the next one runs, after a pause of the memory."""
    bench = Bench(dut)
    await bench.start()
    channel = bench.ram.read_if.r_channel
    held = True
    channel.set_pause_generator(iter(lambda: held, None))
    await bench.configure()
    await bench.write(register("CONTROL").address, 1)
    await ClockCycles(dut.clk, 60)
    await bench.write(register("CONTROL").address, 0)
    bench.ram.write(BASE, bytes(len(bench.job["image"])))

    async def answer():
        nonlocal held
        await FallingEdge(dut.design.rst)
        await ClockCycles(dut.clk, 60)
        held = False

    cocotb.start_soon(answer())
    assert not await bench.run()
    bench.check_memory()
