"""A fabric's Verilog with its registers on AXI4-Lite and its memory on AXI4, as a host uses it."""

import json
import random

import numpy as np
import cocotb
import pytest
from cocotb.triggers import with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam, AxiResp
from penstock import model
from penstock.machine.beat import beat_number
from penstock.machine.config import load
from penstock.machine.host_map import MAP_ID, register, window
from penstock.machine.image import pack, unpack
from penstock.runs.point import Point
from penstock.system.sources import PACKAGE
from penstock.tb.exported import Design
from penstock.tb.tops import WrittenTop, simulate
from penstock.testing.agents import Bench, StreamBus, StreamDriver, StreamMonitor

PROGRAM = str(PACKAGE / "tests" / "board" / "tiny.py")
CONFIG = "lean_fpga"
BASE = 0x4000
"""Address at which the tensors begin."""


def write(folder):
    from penstock.runs.axi_verilog import axi_verilog

    axi_verilog(PROGRAM, CONFIG, bits=32, out=folder)


TOP = WrittenTop("penstock_axi", write)


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, TOP, {})


def pauses(seed, share, long):
    chosen = random.Random(seed)
    while True:
        for _ in range(chosen.choice([1, long])):
            yield True
        while chosen.random() >= share:
            yield False


class Host:
    """A host, its memory, and the streams of a program."""

    def __init__(self, dut, bench):
        self.dut = dut
        self.bench = bench
        self.sidecar = json.loads((TOP.folder / "penstock_axi.json").read_text())
        self.point = Point(PROGRAM, load(CONFIG), {})
        graph = self.point.graph
        self.sources = [c for c in graph.channels if graph.units[c.src[0]].kind.name == "source"]
        self.sinks = [c for c in graph.channels if graph.units[c.dst[0]].kind.name == "sink"]
        self.image = pack(graph, self.point.tensors)
        self.expected = model.run(
            graph,
            self.point.config,
            self.point.tensors,
            sources=self.point.source_beats(),
            record=[c.id for c in self.sinks],
        )
        self.held = False
        for c in self.sources:
            getattr(dut, f"src{c.src[0]}_valid").value = 0
        self.taken = [
            StreamMonitor(bench, StreamBus.of(dut, f"snk{c.dst[0]}", c.payload), [])
            for c in self.sinks
        ]
        self.axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "axil"), dut.clk, dut.rst)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "axi"), dut.clk, dut.rst, size=1 << 16)

    @classmethod
    async def begun(cls, dut):
        bench = Bench(dut)
        dut.memory_base.value = BASE
        await bench.reset()
        host = cls(dut, bench)
        await bench.reset()
        return host

    async def read(self, name):
        answer = await with_timeout(self.axil.read(register(name).address, 4), 10, "us")
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def write(self, address, value):
        data = value.to_bytes(4, "little")
        answer = await with_timeout(self.axil.write(address, data), 10, "us")
        assert answer.resp == AxiResp.OKAY

    async def start(self):
        design = Design(self.point.graph, {}, "", self.sidecar["registers"])
        for number, value in design.writes(self.point.stimulus()):
            await self.write(window("CONFIGURATION").base + 4 * number, value)
        await self.write(register("CONTROL").address, 1)

    async def cycles(self, count):
        for _ in range(count):
            await self.bench.edge

    async def run(self):
        """Load, run to the end, hold again; True if the memory reported an error."""
        self.ram.write(BASE, self.image.tobytes())
        for monitor in self.taken:
            monitor.beats.clear()
        await self.start()
        given = self.point.source_beats()
        for c in self.sources:
            driver = StreamDriver(self.bench, StreamBus.of(self.dut, f"src{c.src[0]}", c.payload))
            driver.send_beats(c.payload, given[c.src[0]])
        if self.held:
            await self.cycles(60)
            self.held = False
        while not await self.read("STATUS") & 1:
            pass
        assert self.dut.done.value
        wrong = bool(self.dut.memory_error.value)
        assert await self.read("STATUS") >> 8 == 0
        assert await self.read("CYCLES") > 0
        await self.write(register("CONTROL").address, 0)
        await self.cycles(2)
        assert not self.dut.done.value and not self.dut.memory_error.value
        return wrong

    def check(self):
        """Memory, from its base on, and sinks equal the model's."""
        graph = self.point.graph
        after = np.frombuffer(self.ram.read(BASE, len(self.image)), np.uint8)
        outputs = self.expected.outputs
        assert outputs is not None
        for name, values in unpack(graph, after).items():
            assert np.array_equal(values, outputs[name]), name
        assert self.ram.read(0, BASE) == bytes(BASE)
        for c, monitor in zip(self.sinks, self.taken, strict=True):
            beats = [beat_number(row) for row in self.expected.extra["payloads"][c.id]]
            assert [moved.bits for moved in monitor.beats] == beats, c.name


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_host_loads_runs_and_reads(dut):
    host = await Host.begun(dut)
    assert await host.read("ID") == MAP_ID
    (fabric,) = (m for m in host.sidecar["modules"] if m["kind"] == "fabric")
    assert await host.read("DESIGN") == int(fabric["digest"][:8], 16)
    line = host.point.config.machine.dram.line_bytes
    assert await host.read("MEMORY_BYTES") == -(-host.point.graph.memory_bytes // line) * line
    for share, long in ((None, 0), (0.5, 9), (0.3, 200)):
        if share:
            host.ram.read_if.r_channel.set_pause_generator(pauses(1, share, long))
            host.ram.write_if.b_channel.set_pause_generator(pauses(2, share, long))
        assert not await host.run()
        host.check()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_an_error_of_the_memory_is_shown_until_the_design_is_held(dut):
    host = await Host.begun(dut)
    channel = host.ram.read_if.r_channel
    send = channel.send
    sent = []

    async def spoiled(beat):
        sent.append(beat)
        if len(sent) == 3:
            beat.rresp = AxiResp.SLVERR
        await send(beat)

    channel.send = spoiled
    assert await host.run()
    assert not await host.run()
    host.check()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_run_that_is_broken_off_leaves_no_lines(dut):
    """Lines that the first run requested arrive in the next one, after a pause of the memory."""
    host = await Host.begun(dut)
    host.held = True
    host.ram.read_if.r_channel.set_pause_generator(iter(lambda: host.held, None))
    await host.start()
    await host.cycles(60)
    await host.write(register("CONTROL").address, 0)
    host.ram.write(BASE, bytes(len(host.image)))
    assert not await host.run()
    host.check()
