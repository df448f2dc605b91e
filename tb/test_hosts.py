"""A host: its registers and memory before the bus models of cocotbext-axi, and its serial line."""

import random
from itertools import product

import cocotb
import pytest
from cocotb.triggers import with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiResp, AxiSlave, MemoryRegion
from cocotbext.axi.axil_channels import AxiLiteAWTransaction, AxiLiteWTransaction
from penstock.machine.host_frames import (
    ESCAPE,
    FLAG,
    MOST_WORDS,
    Operation,
    Status,
    frame,
    unframed,
)
from penstock.machine.host_map import MAP_ID, register, window
from penstock.tb.host_tops import WIDTHS, components
from penstock.tb.tops import ComponentTop, equal, simulate
from penstock.testing.agents import Bench, StreamBus, StreamDriver, StreamMonitor, bits
from penstock.testing.patterns import releases

TOP = ComponentTop("hosts", components)
SESSION, CONTROL, STATUS = (register(name).address for name in ("SESSION", "CONTROL", "STATUS"))
COUNTERS = window("COUNTERS").base
CONFIGURATION = window("CONFIGURATION").base
LINES = 24
PAUSES = ((0.0, 0.0), (0.6, 0.6), (0.9, 0.0), (0.0, 0.9))
"""Shares of cycles in which the channels of writes, and those of reads, pause."""
BROKEN = 0x8000
"""Some bytes from here on answer with errors; none is compared."""
WAIT = 4000
"""Cycles of the design that anything may take."""


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, TOP, {})


def pauses(seed, share):
    chosen = random.Random(seed)
    while True:
        yield chosen.random() < share


async def begun(dut, name, *inputs):
    """Clock and reset of a component whose own inputs rest at 0."""
    bench = Bench(dut)
    for port in inputs:
        getattr(dut, f"{name}_{port}").value = 0
    dut.rst.value = 1
    await bench.edge
    return bench


class Registers:
    """Host of registers behind AXI4-Lite."""

    def __init__(self, dut):
        bus = AxiLiteBus.from_prefix(dut, "bridged_axil")
        self.axil = AxiLiteMaster(bus, dut.clk, dut.rst)

    async def read(self, address):
        return await with_timeout(self.axil.read(address, 4), 50, "us")

    async def word(self, address):
        return int.from_bytes((await self.read(address)).data, "little")

    async def write(self, address, value, size=4):
        data = value.to_bytes(size, "little")
        return (await with_timeout(self.axil.write(address, data), 50, "us")).resp


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_registers_over_axi_lite(dut):
    bench = await begun(dut, "bridged")
    host = Registers(dut)
    writes, reads = host.axil.write_if, host.axil.read_if
    channels = (writes.aw_channel, writes.w_channel, writes.b_channel)
    for seed, channel in enumerate((*channels, reads.ar_channel, reads.r_channel)):
        channel.set_pause_generator(pauses(seed, 0.4))
    await bench.reset()
    equal(bench, await host.word(register("ID").address), MAP_ID)
    for value in (0xFFFFFFFF, 0x01234567):
        equal(bench, await host.write(SESSION, value), AxiResp.OKAY)
        equal(bench, await host.word(SESSION), value)
    equal(bench, await host.write(register("ID").address, 1), AxiResp.SLVERR)
    equal(bench, await host.write(SESSION, 1, size=1), AxiResp.SLVERR)
    equal(bench, (await host.read(0x40)).resp, AxiResp.SLVERR)
    equal(bench, await host.word(COUNTERS + 4 * 1234), 1241)
    equal(bench, await host.write(CONFIGURATION, 1), AxiResp.OKAY)
    # Many at once, of both kinds: each is answered, and by its own.
    words = [cocotb.start_soon(host.word(COUNTERS + 4 * k)) for k in range(20)]
    answers = [cocotb.start_soon(host.write(SESSION, k)) for k in range(20)]
    equal(bench, [await task for task in words], [k + 7 for k in range(20)])
    equal(bench, [await task for task in answers], [AxiResp.OKAY] * 20)
    # A run: it ends, and is held again.
    equal(bench, await host.write(CONTROL, 1), AxiResp.OKAY)
    equal(bench, await host.write(CONFIGURATION, 1), AxiResp.SLVERR)
    for _ in range(30):
        await bench.edge
    equal(bench, await host.word(STATUS) & 3, 1)
    equal(bench, await host.word(register("CYCLES").address), 21)
    equal(bench, await host.write(CONTROL, 0), AxiResp.OKAY)
    equal(bench, await host.word(register("CYCLES").address), 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(wait=range(1, 13))
async def test_a_reset_amid_axi_lite_transfers_leaves_no_answer(dut, wait):
    bench = await begun(dut, "bridged")
    host = Registers(dut)
    await bench.reset()
    cocotb.start_soon(host.axil.read(COUNTERS + 4 * wait, 4))
    cocotb.start_soon(host.axil.write(register("ID").address, bytes(4)))
    for _ in range(wait):
        await bench.edge
    await bench.reset()
    equal(bench, await host.word(COUNTERS + 4 * 100), 107)
    equal(bench, await host.write(SESSION, wait), AxiResp.OKAY)
    equal(bench, await host.word(SESSION), wait)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(address=[SESSION, 0x40])
async def test_a_write_of_no_bytes_over_axi_lite_changes_nothing(dut, address):
    """At a register and at an address without one: it is answered, and the next transfer too."""
    bench = await begun(dut, "bridged")
    host = Registers(dut)
    await bench.reset()
    await host.write(SESSION, 0x3020100)
    channels = host.axil.write_if
    await channels.aw_channel.send(AxiLiteAWTransaction(awaddr=address))
    await channels.w_channel.send(AxiLiteWTransaction(wdata=0xFFFFFFFF, wstrb=0))
    answer = await with_timeout(channels.b_channel.recv(), 10, "us")
    equal(bench, answer.bresp, AxiResp.OKAY)
    equal(bench, await host.word(SESSION), 0x3020100)


class Initiator:
    """Initiator of classic cycles of Wishbone B4."""

    def __init__(self, dut, bench, name="wishbone"):
        self.dut = dut
        self.bench = bench
        self.name = name
        self.drop()

    def port(self, name):
        return getattr(self.dut, f"{self.name}_bus_{name}")

    def offer(self, address, data=None, sel=0xF):
        values = {"cyc": 1, "stb": 1, "we": data is not None, "adr": address >> 2}
        for port, value in (values | {"dat_w": data or 0, "sel": sel}).items():
            self.port(port).value = int(value)

    def drop(self):
        self.port("cyc").value = 0
        self.port("stb").value = 0

    def read(self, name):
        return bits(self.bench, self.port(name))

    async def answer(self):
        """Cycles that the answer took, refusal, and the word that was read."""
        for cycles in range(10):
            await self.bench.edge
            ack, err = self.read("ack"), self.read("err")
            equal(self.bench, ack and err, 0)
            if ack or err:
                self.drop()
                return cycles, bool(err), self.read("dat_r")
        raise AssertionError(f"no answer by cycle {self.bench.cycle}")

    async def transfer(self, address, data=None, sel=0xF):
        """Refusal of a request, and the word that was read."""
        self.offer(address, data, sel)
        return (await self.answer())[1:]

    async def silence(self, cycles):
        for _ in range(cycles):
            await self.bench.edge
            equal(self.bench, (self.read("ack"), self.read("err")), (0, 0))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_each_wishbone_transfer_has_one_answer(dut):
    """Back to back and with pauses."""
    bench = await begun(dut, "wishbone")
    bus = Initiator(dut, bench)
    await bench.reset()
    chosen = random.Random(3)
    for _ in range(60):
        value = chosen.getrandbits(32)
        equal(bench, (await bus.transfer(SESSION, value))[0], False)
        equal(bench, await bus.transfer(SESSION), (False, value))
        equal(bench, (await bus.transfer(SESSION, 1, sel=chosen.randrange(15)))[0], True)
        equal(bench, (await bus.transfer(STATUS, 1))[0], True)
        await bus.silence(chosen.choice([0, 0, 3]))
    equal(bench, await bus.transfer(COUNTERS + 4 * 77), (False, 84))
    equal(bench, (await bus.transfer(CONFIGURATION))[0], True)


CASES = [
    (SESSION, 0x1234567, 0xF, False, None),
    (SESSION, 0x1234567, 0x3, True, None),
    (SESSION, None, 0xF, False, 0),
    (COUNTERS + 4 * 77, None, 0xF, False, 84),
    (CONTROL, 1, 0xF, False, None),
    (STATUS, 1, 0xF, True, None),
]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(asks=[False, True])
async def test_a_wishbone_transfer_that_a_reset_meets_has_no_answer_and_no_effect(dut, asks):
    """An initiator that is not reset and still ``asks`` has an answer in time."""
    bench = await begun(dut, "wishbone")
    bus = Initiator(dut, bench)
    await bench.reset()
    # Of the transfer: asked for, under way, answered.
    for wait, length, (address, data, sel, refused, value) in product(range(3), (1, 2, 3), CASES):
        equal(bench, (await bus.transfer(SESSION, 7))[0], False)
        bus.offer(address, data, sel)
        for _ in range(wait):
            await bench.edge
        dut.rst.value = 1
        await bench.edge
        if not asks:
            bus.drop()
        await bus.silence(length - 1)
        dut.rst.value = 0
        if asks:
            cycles, err, read = await bus.answer()
            equal(bench, (cycles, err, read), (2, refused, read if value is None else value))
        await bus.silence(4)
        written = asks and address == SESSION and not refused and data
        equal(bench, await bus.transfer(SESSION), (False, written or 0))
        equal(bench, await bus.transfer(CONTROL), (False, asks and address == CONTROL))
        equal(bench, await bus.transfer(COUNTERS + 4 * 78), (False, 85))
        equal(bench, (await bus.transfer(STATUS, 1))[0], True)


class Memory(MemoryRegion):
    """Bytes, and errors where a beat begins at one of ``broken``."""

    def __init__(self):
        super().__init__(2 * BROKEN)
        self.broken = set()

    async def _read(self, address, length, **kwargs):
        self.check(address)
        return await super()._read(address, length, **kwargs)

    async def _write(self, address, data, **kwargs):
        self.check(address)
        await super()._write(address, data, **kwargs)

    def check(self, address):
        if address in self.broken:
            raise ValueError("no memory here")


class Lines:
    """Driver of a memory port that knows the answer of each read, and the memory on its bus."""

    def __init__(self, dut, name, bench, seed):
        self.dut = dut
        self.name = name
        self.bench = bench
        self.random = random.Random(seed)
        self.memory = Memory()
        bus = AxiBus.from_prefix(dut, f"{name}_axi")
        self.slave = AxiSlave(bus, dut.clk, dut.rst, target=self.memory)
        self.line_bytes = WIDTHS[name][1]
        self.content = {}
        self.due = {}
        self.delivered = 0
        self.most = 0
        self.errors = 0
        self.held = False

    @classmethod
    async def begun(cls, dut, name, seed):
        bench = await begun(dut, name, "line_req_valid", "line_req_write", "held")
        lines = cls(dut, name, bench, seed)
        await bench.reset()
        return lines

    def port(self, name):
        return getattr(self.dut, f"{self.name}_{name}")

    def read(self, name):
        return bits(self.bench, self.port(name))

    def pause(self, writes, reads):
        """Pause the channels of writes and those of reads in so large shares of cycles."""
        write, read = self.slave.write_if, self.slave.read_if
        channels = [(c, writes) for c in (write.aw_channel, write.w_channel, write.b_channel)]
        channels += [(c, reads) for c in (read.ar_channel, read.r_channel)]
        for seed, (channel, share) in enumerate(channels):
            channel.set_pause_generator(pauses(seed, share))

    async def cycle(self):
        """True if the request was taken in a cycle."""
        await self.bench.edge
        took = bool(self.read("line_req_valid") and self.read("line_req_ready"))
        self.errors += self.read("error")
        if self.read("line_rsp_valid"):
            name = self.read("line_rsp_port"), self.read("line_rsp_tag")
            equal(self.bench, (name, name in self.due), (name, True))
            expected = self.due.pop(name)
            if expected is not None:
                equal(self.bench, self.read("line_rsp_data"), expected)
            self.delivered += 1
        return took

    async def ask(self, write, port, address, mask=None):
        whole = 2**self.line_bytes - 1
        data = self.random.getrandbits(8 * self.line_bytes)
        if mask is None:
            mask = self.random.choice([whole, self.random.getrandbits(self.line_bytes)])
        groups = 1 << len(self.port("line_req_group"))
        tag = self.random.randrange(groups)
        while (port, tag) in self.due:
            tag = self.random.randrange(groups)
        asked = {"valid": 1, "write": write, "port": port, "addr": address, "group": tag}
        for name, value in (asked | {"data": data, "mask": mask}).items():
            self.port(f"line_req_{name}").value = int(value)
        for _ in range(WAIT):
            if await self.cycle():
                break
        else:
            raise AssertionError(f"nothing is taken by cycle {self.bench.cycle}")
        before = self.content.get(address, 0)
        if write:
            wide = sum(0xFF << 8 * k for k in range(self.line_bytes) if mask >> k & 1)
            self.content[address] = before & ~wide | data & wide
        self.due[port, tag] = None if write or address >= BROKEN else before
        self.most = max(self.most, len(self.due))
        self.port("line_req_valid").value = 0

    async def ask_some(self, count, share=0.0):
        """Reads and writes of lines, with pauses after each in so large a share of cycles."""
        for _ in range(count):
            line = self.line_bytes * self.random.randrange(LINES)
            await self.ask(self.random.random() < 0.5, self.random.randrange(5), line)
            while self.random.random() < share:
                await self.cycle()

    async def drain(self):
        for _ in range(WAIT):
            if not self.due:
                return
            await self.cycle()
        raise AssertionError(f"{len(self.due)} lines have not come by cycle {self.bench.cycle}")

    async def hold(self):
        """Hold the design for a cycle: no request is taken, and no line comes."""
        self.port("held").value = 1
        self.due.clear()
        equal(self.bench, await self.cycle(), False)
        self.port("line_req_valid").value = 0
        self.port("held").value = 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(name=list(WIDTHS))
async def test_lines_over_axi_are_those_of_memory_in_order(dut, name):
    """Under every back-pressure; after a reset of the design no line of before reaches it."""
    lines = await Lines.begun(dut, name, 7)
    for writes, reads in PAUSES:
        lines.pause(writes, reads)
        await lines.ask_some(120, min(writes, reads))
        await lines.drain()
    equal(lines.bench, lines.delivered, 120 * len(PAUSES))
    assert lines.most > 3, "several are outstanding"
    beat = WIDTHS[name][0] // 8
    for channel in ("aw", "ar"):
        equal(lines.bench, 1 << lines.read(f"axi_{channel}size"), beat)  # the whole bus
        equal(lines.bench, beat * (lines.read(f"axi_{channel}len") + 1), lines.line_bytes)
    for wait in range(6):
        for k in range(4):
            await lines.ask(k == 2, k, lines.line_bytes * k)
        for _ in range(wait):
            await lines.cycle()
        await lines.hold()
        await lines.ask(0, 9, lines.line_bytes * 3)
        await lines.drain()
    for _ in range(60):
        await lines.cycle()
    equal(lines.bench, lines.errors, 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(name=list(WIDTHS))
async def test_each_error_over_axi_is_reported_once(dut, name):
    """A read has one with each beat, a write one. Its line is delivered, and those after it are
    right.
    """
    lines = await Lines.begun(dut, name, 8)
    size = lines.line_bytes
    beat = WIDTHS[name][0] // 8
    count = size // beat
    # Of line k beat k, and then of one every beat.
    lines.memory.broken.update(BROKEN + size * k + beat * k for k in range(count))
    lines.memory.broken.update(BROKEN + size * count + beat * k for k in range(count))
    for writes, reads in PAUSES:
        lines.pause(writes, reads)
        for line, write in product(range(count + 1), (0, 1)):
            before = lines.errors
            # Between others, so that responses of both kinds wait for each other.
            await lines.ask_some(6)
            await lines.ask(write, 1, BROKEN + size * line, mask=2**size - 1)
            await lines.ask_some(6)
            await lines.drain()
            await lines.cycle()
            due = count if line == count and not write else 1
            equal(lines.bench, lines.errors - before, due)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_the_last_part_loads_a_word_and_a_busy_overlay_refuses_it(dut):
    bench = await begun(dut, "image")
    bus = Initiator(dut, bench, "image")
    await bench.reset()
    loads = StreamMonitor(bench, StreamBus.of(dut, "image_load"))
    dut.image_load_ready.value = 1
    for words in ((1, 2, 3, 0), (5, 0x106, 7, 0)):
        for k, word in enumerate(words):
            equal(bench, (await bus.transfer(4 * (4 + k), word))[0], False)
    equal(bench, (await bus.transfer(0))[0], True)
    dut.image_load_ready.value = 0
    equal(bench, (await bus.transfer(4 * 3, 1))[0], True)
    await bus.silence(3)
    expected = [sum(w << 32 * k for k, w in enumerate(ws)) for ws in ((1, 2, 3), (5, 0x106, 7))]
    equal(bench, [load.bits for load in loads.beats], [w & (1 << 70) - 1 for w in expected])


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_value_is_read_by_pe_address_and_part(dut):
    bench = await begun(dut, "values", "valid", "look_ready")
    bus = Initiator(dut, bench, "values")
    await bench.reset()
    looks = StreamMonitor(bench, StreamBus.of(dut, "values_look"))

    async def answer():
        for count in (1, 2):
            while len(looks.beats) < count:
                await bench.edge
            await bench.edge
            at = looks.beats[-1].bits
            dut.values_data.value = 0x1111_0000_2222_0000 + at % 4 * 16 + at // 4
            dut.values_valid.value = 1
            await bench.edge
            dut.values_valid.value = 0

    cocotb.start_soon(answer())
    dut.values_look_ready.value = 1
    words = [(2 << 3 | 5) << 1 | part for part in (0, 1)]
    equal(bench, await bus.transfer(4 * words[0]), (False, 0x2222_0025))
    equal(bench, await bus.transfer(4 * words[1]), (False, 0x1111_0000))
    equal(bench, (await bus.transfer(0, 1))[0], True)
    dut.values_look_ready.value = 0
    equal(bench, (await bus.transfer(0))[0], True)
    equal(bench, [look.bits for look in looks.beats], [2 | 5 << 2] * 2)


async def answered(dut, request, expected, effect=None):
    """Compare the loader's answer to a request, and the words that it writes by address."""
    bench = await begun(dut, "loader", "bus_ack", "bus_err")
    written = {}

    async def memory():
        ack = False
        while True:
            await bench.edge
            ack = bool(bits(bench, dut.loader_bus_stb)) and not ack
            dut.loader_bus_ack.value = int(ack)
            if ack:
                address = 4 * bits(bench, dut.loader_bus_adr)
                dut.loader_bus_dat_r.value = address + 1
                if bits(bench, dut.loader_bus_we):
                    written[address] = bits(bench, dut.loader_bus_dat_w)

    driver = StreamDriver(bench, StreamBus.of(dut, "loader_rx"))
    await bench.reset()
    answers = StreamMonitor(bench, StreamBus.of(dut, "loader_tx"), [])
    cocotb.start_soon(memory())
    driver.send(request, releases(len(request), "random").tolist())
    idle = 0
    while idle < 4:
        assert bench.cycle < WAIT, f"the loader is busy in cycle {bench.cycle}"
        await bench.edge
        idle = 0 if driver.queue or bits(bench, dut.loader_busy) else idle + 1
    found = unframed(bytes(moved.bits for moved in answers.beats).strip(bytes([FLAG])))
    equal(bench, (found, written), (expected, effect or {}))


def head(operation, count):
    return 7 | operation << 8 | count << 16


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_words_are_written_and_read_over_a_line(dut):
    write = head(Operation.WRITE, 2)
    await answered(dut, frame([write, 64, 5, 6]), [write, Status.DONE], {64: 5, 68: 6})
    read = head(Operation.READ, 2)
    await answered(dut, frame([read, 64]), [read, 65, 69, Status.DONE])


DAMAGED = {
    "short": [head(Operation.WRITE, 2), 64, 5],
    "long": [head(Operation.WRITE, 2), 64, 5, 6, 7],
    "none": [head(Operation.WRITE, 0), 64, 5],
    "data to read": [head(Operation.READ, 2), 64, 5],
    "no address": [head(Operation.READ, 2)],
    "too many": [head(Operation.READ, MOST_WORDS + 1), 64],
    "no operation": [head(3, 0), 64],
}


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(how=list(DAMAGED))
async def test_a_frame_of_another_length_or_operation_is_damaged_and_does_nothing(dut, how):
    words = DAMAGED[how]
    await answered(dut, frame(words), [words[0] & 0xFFFF, Status.DAMAGED])


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(how=["a bit", "an escape"])
async def test_a_damaged_frame_does_nothing(dut, how):
    write = head(Operation.WRITE, 2)
    sent = frame([write, 64, 5, 6])
    end = bytes([1, *sent[15:]]) if how == "a bit" else bytes([*sent[14:-1], ESCAPE, FLAG])
    await answered(dut, sent[:14] + end, [write & 0xFFFF, Status.DAMAGED])


BYTES = [0x00, 0xFF, 0x55, 0x7E, 0x80, 0x01]


async def receives(dut, levels, divisor, expected):
    """Compare the bytes that a receiver has of a line, given the cycles of each level."""
    bench = await begun(dut, f"receiver{divisor}", "bytes_ready")
    dut.rst.value = 0
    valid, byte = (getattr(dut, f"receiver{divisor}_bytes_{x}") for x in ("valid", "payload"))
    left = list(expected)
    for level, cycles in [(1, 10), *levels]:
        getattr(dut, f"receiver{divisor}_rx").value = level
        for _ in range(cycles):
            await bench.edge
            if bits(bench, valid):
                found = bits(bench, byte)
                assert left[:1] == [found], f"{found:#x} in cycle {bench.cycle - 1}, not {left[:1]}"
                left.pop(0)
    assert not left, f"{left} have not come by cycle {bench.cycle}"


def levels(data, cycles_of_bit):
    """Start bit, data, stop bit of each byte; a bit takes so many cycles on average."""
    line = [1] + [b for byte in data for b in (0, *(byte >> k & 1 for k in range(8)), 1)] + [1] * 3
    edges = [round(k * cycles_of_bit) for k in range(len(line) + 1)]
    return [(b, end - begin) for b, begin, end in zip(line, edges, edges[1:], strict=False)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(divisor=[4, 9, 25])
async def test_bytes_leave_on_a_line_without_a_pause(dut, divisor):
    bench = await begun(dut, f"sender{divisor}")
    driver = StreamDriver(bench, StreamBus.of(dut, f"sender{divisor}_bytes"))
    await bench.reset()
    driver.send(BYTES)
    line = []
    for _ in range(11 * divisor * len(BYTES)):
        await bench.edge
        line.append((bits(bench, getattr(dut, f"sender{divisor}_tx")), 1))
    sent = len(driver.accepted)
    assert sent == len(BYTES), f"{sent} bytes have left by cycle {bench.cycle}"
    await receives(dut, line, divisor, BYTES)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(rate=[0.97, 1.0, 1.03])
async def test_a_line_that_is_three_percent_off_is_understood(dut, rate):
    await receives(dut, levels(BYTES, 25 * rate), 25, BYTES)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_a_byte_without_a_stop_bit_and_a_spike_are_nothing(dut):
    broken = levels([0x55], 16)
    broken[10] = (0, 16)
    spike = [(1, 64), (0, 4), (1, 64)]
    line = [*broken[:11], (1, 200), *spike, *levels([0x42], 16)]
    await receives(dut, line, 16, [0x42])
