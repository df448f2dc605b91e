"""cocotb driver of a memory port, and the memory that its lines are in."""

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from cocotbext.axi import AxiBus, AxiSlave, MemoryRegion

LINES = 24
PAUSES = ((0.0, 0.0), (0.6, 0.6), (0.9, 0.0), (0.0, 0.9))
"""Shares of cycles in which the channels of writes, and those of reads, pause."""
BROKEN = 0x8000
"""What lies from here on is not compared: some of it answers with errors."""
WAIT = 4000
"""Cycles of the design that anything may take."""


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


def pauses(seed, share):
    chosen = random.Random(seed)
    while True:
        yield chosen.random() < share


class Slave(AxiSlave):
    """A :class:`Memory` on a bus whose channels pause."""

    def __init__(self, dut, clk, rst):
        self.memory = Memory()
        super().__init__(AxiBus.from_prefix(dut, "axi"), clk, rst, target=self.memory)

    def pause(self, writes, reads):
        """The channels of writes and those of reads, each in so large a share of cycles."""
        write = self.write_if
        read = self.read_if
        shares = {
            write.aw_channel: writes,
            write.w_channel: writes,
            write.b_channel: writes,
            read.ar_channel: reads,
            read.r_channel: reads,
        }
        for seed, (channel, share) in enumerate(shares.items()):
            channel.set_pause_generator(pauses(seed, share))


class Cycles:
    """Counts the cycles of a clock in which a signal is high."""

    def __init__(self, signal, clk):
        self.signal = signal
        self.clk = clk
        self.count = 0
        cocotb.start_soon(self.watch())

    async def watch(self):
        while True:
            await FallingEdge(self.clk)
            await ReadOnly()
            self.count += bool(self.signal.value)


class Lines:
    """Drives the memory port as a design does, and knows what each read has to give."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.random = random.Random(seed)
        self.line_bytes = len(dut.line_req_mask)
        self.content = {}
        self.due = {}
        self.delivered = 0
        self.most = 0

    def line(self):
        """The address of one of the lines."""
        return self.line_bytes * self.random.randrange(LINES)

    def offer(self, write, port, address, mask=None):
        dut = self.dut
        whole = 2**self.line_bytes - 1
        data = self.random.getrandbits(len(dut.line_req_data))
        if mask is None:
            mask = self.random.choice([whole, self.random.getrandbits(self.line_bytes)])
        tag = self.random.randrange(1 << len(dut.line_req_group))
        while (port, tag) in self.due:
            tag = self.random.randrange(1 << len(dut.line_req_group))
        dut.line_req_valid.value = 1
        dut.line_req_write.value = write
        dut.line_req_port.value = port
        dut.line_req_addr.value = address
        dut.line_req_group.value = tag
        dut.line_req_data.value = data
        dut.line_req_mask.value = mask
        return write, port, tag, address, data, mask

    def taken(self, write, port, tag, address, data, mask):
        before = self.content.get(address, 0)
        if write:
            bits = sum(0xFF << 8 * k for k in range(self.line_bytes) if mask >> k & 1)
            self.content[address] = before & ~bits | data & bits
        self.due[port, tag] = None if write or address >= BROKEN else before
        self.most = max(self.most, len(self.due))

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
        await FallingEdge(dut.clk)
        return took

    async def ask(self, write, port, address, mask=None):
        request = self.offer(write, port, address, mask)
        for _ in range(WAIT):
            if await self.cycle():
                self.taken(*request)
                self.dut.line_req_valid.value = 0
                return
        raise AssertionError("the memory takes nothing")

    async def ask_some(self, count, share=0.0):
        """Reads and writes of the lines, with pauses after each in so large a share of cycles."""
        for _ in range(count):
            await self.ask(self.random.random() < 0.5, self.random.randrange(5), self.line())
            while self.random.random() < share:
                await self.cycle()

    async def under_pauses(self, slave):
        """Reads and writes under every back-pressure of a slave, of which each has its line."""
        for writes, reads in PAUSES:
            slave.pause(writes, reads)
            await self.ask_some(120, min(writes, reads))
            await self.drain()
        assert self.delivered == 120 * len(PAUSES)

    async def drain(self):
        for _ in range(WAIT):
            if not self.due:
                return
            await self.cycle()
        raise AssertionError(f"{len(self.due)} lines have not come")

    async def reset(self, cycles):
        """The design is reset: what it asks is not taken, and what it asked does not come."""
        dut = self.dut
        dut.held.value = 1
        self.due.clear()
        for _ in range(cycles):
            assert not await self.cycle(), "a request is taken in reset"
        dut.line_req_valid.value = 0
        dut.held.value = 0
