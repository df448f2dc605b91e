"""cocotb tests of tests/board/host_top.py with the bus models of
cocotbext-axi.
"""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiResp, AxiSlave, MemoryRegion
from penstock.machine.host_map import MAP_ID, register, window

LINES = 24
BROKEN = 0x8000
"""From here on the memory answers with errors."""


class Memory(MemoryRegion):
    """Bytes, and errors above them."""

    async def _read(self, address, length, **kwargs):
        self.check(address)
        return await super()._read(address, length, **kwargs)

    async def _write(self, address, data, **kwargs):
        self.check(address)
        await super()._write(address, data, **kwargs)

    def check(self, address):
        if address >= BROKEN:
            raise ValueError("no memory here")


def pauses(seed, share):
    chosen = random.Random(seed)
    while True:
        yield chosen.random() < share


async def start(dut):
    for name in ("line_req_valid", "line_req_write", "held", "wb_cyc", "wb_stb", "wb_we"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    Clock(dut.clk, 10, "ns").start()


async def release(dut):
    await ClockCycles(dut.clk, 4)
    await FallingEdge(dut.clk)
    dut.rst.value = 0


def word(of):
    return int.from_bytes(of.data, "little")


@cocotb.test()
async def registers_over_axi_lite(dut):
    await start(dut)
    axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "axil"), dut.clk, dut.rst)
    channels = (
        axil.write_if.aw_channel,
        axil.write_if.w_channel,
        axil.write_if.b_channel,
        axil.read_if.ar_channel,
        axil.read_if.r_channel,
    )
    for seed, channel in enumerate(channels):
        channel.set_pause_generator(pauses(seed, 0.4))
    await release(dut)
    at = {r: register(r).address for r in ("ID", "SESSION", "CONTROL", "STATUS", "CYCLES")}

    async def read(address):
        return await with_timeout(axil.read(address, 4), 10, "us")

    async def write(address, value, size=4):
        data = value.to_bytes(size, "little")
        return await with_timeout(axil.write(address, data), 10, "us")

    assert word(await read(at["ID"])) == MAP_ID
    for value in (0xFFFFFFFF, 0x01234567):
        assert (await write(at["SESSION"], value)).resp == AxiResp.OKAY
        assert word(await read(at["SESSION"])) == value
    assert (await write(at["ID"], 1)).resp == AxiResp.SLVERR
    assert (await write(at["SESSION"], 1, size=1)).resp == AxiResp.SLVERR
    assert (await read(0x40)).resp == AxiResp.SLVERR
    assert word(await read(window("COUNTERS").base + 4 * 1234)) == 1241
    assert (await write(window("CONFIGURATION").base, 1)).resp == AxiResp.OKAY
    # Many at once, of both kinds: each is answered, and by its own.
    reads = [cocotb.start_soon(axil.read(window("COUNTERS").base + 4 * k, 4)) for k in range(20)]
    writes = [cocotb.start_soon(write(at["SESSION"], k)) for k in range(20)]
    for k, task in enumerate(reads):
        assert word(await with_timeout(task, 50, "us")) == k + 7
    for task in writes:
        assert (await with_timeout(task, 50, "us")).resp == AxiResp.OKAY
    # A run: it ends, and is held again.
    assert (await write(at["CONTROL"], 1)).resp == AxiResp.OKAY
    assert (await write(window("CONFIGURATION").base, 1)).resp == AxiResp.SLVERR
    await ClockCycles(dut.clk, 30)
    assert word(await read(at["STATUS"])) & 3 == 1
    assert word(await read(at["CYCLES"])) == 21
    assert (await write(at["CONTROL"], 0)).resp == AxiResp.OKAY
    assert word(await read(at["CYCLES"])) == 0
    # A reset in the middle of transfers: what follows has answers of its own.
    for wait in range(12):
        cocotb.start_soon(axil.read(window("COUNTERS").base + 4 * wait, 4))
        cocotb.start_soon(axil.write(at["ID"], bytes(4)))
        await ClockCycles(dut.clk, wait)
        dut.rst.value = 1
        await release(dut)
        assert word(await read(window("COUNTERS").base + 4 * 100)) == 107
        assert (await write(at["SESSION"], wait)).resp == AxiResp.OKAY
        assert word(await read(at["SESSION"])) == wait


async def transfer(dut, address, data=None, sel=0xF):
    """A classic cycle of Wishbone B4, from a falling edge to one: whether it was refused, and what
    was read.
    """
    dut.wb_cyc.value = 1
    dut.wb_stb.value = 1
    dut.wb_we.value = data is not None
    dut.wb_adr.value = address >> 2
    dut.wb_dat_w.value = data or 0
    dut.wb_sel.value = sel
    for _ in range(10):
        await ReadOnly()
        ack = bool(dut.wb_ack.value)
        err = bool(dut.wb_err.value)
        read = int(dut.wb_dat_r.value)
        assert not (ack and err)
        await FallingEdge(dut.clk)
        if ack or err:
            dut.wb_cyc.value = 0
            dut.wb_stb.value = 0
            return err, read
    raise AssertionError("no answer")


@cocotb.test()
async def registers_over_wishbone(dut):
    """Back to back and with pauses: each transfer has one answer."""
    await start(dut)
    await release(dut)
    await FallingEdge(dut.clk)
    chosen = random.Random(3)
    session = register("SESSION").address
    for _ in range(60):
        value = chosen.getrandbits(32)
        assert not (await transfer(dut, session, value))[0]
        assert await transfer(dut, session) == (False, value)
        assert (await transfer(dut, session, 1, sel=chosen.randrange(15)))[0]
        assert (await transfer(dut, register("STATUS").address, 1))[0]
        for _ in range(chosen.choice([0, 0, 3])):
            await ReadOnly()
            assert not dut.wb_ack.value and not dut.wb_err.value
            await FallingEdge(dut.clk)
    assert await transfer(dut, session) == (False, value)
    assert await transfer(dut, window("COUNTERS").base + 4 * 77) == (False, 84)
    assert (await transfer(dut, window("CONFIGURATION").base))[0]


class Lines:
    """Drives the memory port as a design does, and knows what each read
    has to give.
    """

    def __init__(self, dut, seed):
        self.dut = dut
        self.random = random.Random(seed)
        self.content = {}
        self.due = {}
        self.errors = 0
        self.delivered = 0

    def offer(self, write, port, address):
        dut = self.dut
        dut.line_req_valid.value = 1
        dut.line_req_write.value = write
        dut.line_req_port.value = port
        dut.line_req_addr.value = address
        data = self.random.getrandbits(512)
        mask = self.random.choice([2**64 - 1, self.random.getrandbits(64)])
        tag = next(t for t in iter(lambda: self.random.randrange(1 << 16), None))
        dut.line_req_group.value = tag
        dut.line_req_data.value = data
        dut.line_req_mask.value = mask
        return write, port, tag, address, data, mask

    def taken(self, write, port, tag, address, data, mask):
        before = self.content.get(address, 0)
        if write:
            bits = sum(0xFF << 8 * k for k in range(64) if mask >> k & 1)
            self.content[address] = before & ~bits | data & bits
        self.due[port, tag] = None if write or address >= BROKEN else before

    async def cycle(self):
        """One cycle; whether the request was taken."""
        dut = self.dut
        await ReadOnly()
        took = bool(dut.line_req_valid.value) and bool(dut.line_req_ready.value)
        if dut.line_rsp_valid.value:
            name = int(dut.line_rsp_port.value), int(dut.line_rsp_tag.value)
            assert name in self.due, "a line that nobody waits for"
            want = self.due.pop(name)
            assert want is None or int(dut.line_rsp_data.value) == want
            self.delivered += 1
        self.errors += bool(dut.error.value)
        await FallingEdge(dut.clk)
        return took

    async def ask(self, write, port, address):
        request = self.offer(write, port, address)
        for _ in range(2000):
            if await self.cycle():
                self.taken(*request)
                self.dut.line_req_valid.value = 0
                return
        raise AssertionError("the memory takes nothing")

    async def drain(self):
        for _ in range(2000):
            if not self.due:
                return
            await self.cycle()
        raise AssertionError(f"{len(self.due)} lines have not come")


@cocotb.test()
async def lines_over_axi(dut):
    """Values are those of memory in order, under every back-pressure; errors are told; after a
    reset of the design with lines on their way none of them reaches it.
    """
    await start(dut)
    slave = AxiSlave(AxiBus.from_prefix(dut, "axi"), dut.clk, dut.rst, target=Memory(2 * BROKEN))
    await release(dut)
    await FallingEdge(dut.clk)
    lines = Lines(dut, 7)
    most = 0
    for share in (0.0, 0.6):
        channels = (
            slave.write_if.aw_channel,
            slave.write_if.w_channel,
            slave.write_if.b_channel,
            slave.read_if.ar_channel,
            slave.read_if.r_channel,
        )
        for seed, channel in enumerate(channels):
            channel.set_pause_generator(pauses(seed, share))
        for _ in range(120):
            address = 64 * lines.random.randrange(LINES)
            await lines.ask(lines.random.random() < 0.5, lines.random.randrange(5), address)
            most = max(most, len(lines.due))
            while lines.random.random() < share:
                await lines.cycle()
        await lines.drain()
    assert lines.errors == 0 and lines.delivered == 240
    assert most > 3, "several are outstanding"

    await lines.ask(0, 1, BROKEN)
    await lines.ask(1, 2, BROKEN + 64)
    await lines.drain()
    await lines.cycle()
    assert lines.errors > 0

    for wait in range(6):
        for k in range(4):
            await lines.ask(k == 2, k, 64 * k)
        for _ in range(wait):
            await lines.cycle()
        dut.held.value = 1
        lines.due.clear()
        await lines.cycle()
        dut.held.value = 0
        await lines.ask(0, 9, 64 * 3)
        await lines.drain()
    for _ in range(60):
        await lines.cycle()
