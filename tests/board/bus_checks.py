"""cocotb tests of tests/board/host_top.py with the bus models of cocotbext-axi."""

import random
from itertools import product

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp
from cocotbext.axi.axil_channels import AxiLiteAWTransaction, AxiLiteWTransaction
from line_driver import BROKEN, PAUSES, Cycles, Lines, Slave, pauses
from penstock.machine.host_map import MAP_ID, register, window


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


@cocotb.test()
async def a_write_of_no_bytes_over_axi_lite_changes_nothing(dut):
    """Write to a register and to an address without one: it is answered, and the next transfer
    too.
    """
    await start(dut)
    axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "axil"), dut.clk, dut.rst)
    await release(dut)
    session = register("SESSION").address
    await with_timeout(axil.write(session, bytes(range(4))), 10, "us")
    channels = axil.write_if
    for address in (session, 0x40):
        await channels.aw_channel.send(AxiLiteAWTransaction(awaddr=address))
        await channels.w_channel.send(AxiLiteWTransaction(wdata=0xFFFFFFFF, wstrb=0))
        told = await with_timeout(channels.b_channel.recv(), 10, "us")
        assert told.bresp == AxiResp.OKAY
        assert (await with_timeout(axil.read(session, 4), 10, "us")).data == bytes(range(4))


def offer(dut, address, data=None, sel=0xF):
    """Ask for a classic cycle of Wishbone B4."""
    dut.wb_cyc.value = 1
    dut.wb_stb.value = 1
    dut.wb_we.value = data is not None
    dut.wb_adr.value = address >> 2
    dut.wb_dat_w.value = data or 0
    dut.wb_sel.value = sel


def drop(dut):
    dut.wb_cyc.value = 0
    dut.wb_stb.value = 0


async def answer(dut):
    """Answer to a request made at this falling edge, at a later one: the cycles that it took,
    whether it was refused, and what was read.
    """
    for cycles in range(10):
        await ReadOnly()
        ack = bool(dut.wb_ack.value)
        err = bool(dut.wb_err.value)
        read = int(dut.wb_dat_r.value)
        assert not (ack and err)
        await FallingEdge(dut.clk)
        if ack or err:
            drop(dut)
            return cycles, err, read
    raise AssertionError("no answer")


async def transfer(dut, address, data=None, sel=0xF):
    """Refusal of the request, and what was read."""
    offer(dut, address, data, sel)
    _, err, read = await answer(dut)
    return err, read


async def silence(dut, cycles):
    """So many without an answer."""
    for _ in range(cycles):
        await ReadOnly()
        assert not dut.wb_ack.value and not dut.wb_err.value, "an answer to nothing"
        await FallingEdge(dut.clk)


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
        await silence(dut, chosen.choice([0, 0, 3]))
    assert await transfer(dut, session) == (False, value)
    assert await transfer(dut, window("COUNTERS").base + 4 * 77) == (False, 84)
    assert (await transfer(dut, window("CONFIGURATION").base))[0]


@cocotb.test()
async def resets_of_wishbone(dut):
    """A transfer that a reset meets has no answer, and no effect; where the initiator, which is not
    reset, still asks for it, it has one in its time.
    """
    await start(dut)
    await release(dut)
    await FallingEdge(dut.clk)
    session = register("SESSION").address
    counter = window("COUNTERS").base + 4 * 77
    cases = [
        (session, 0x1234567, 0xF, False, None),
        (session, 0x1234567, 0x3, True, None),
        (session, None, 0xF, False, 0),
        (counter, None, 0xF, False, 84),
        (register("CONTROL").address, 1, 0xF, False, None),
        (register("STATUS").address, 1, 0xF, True, None),
    ]
    # Of the transfer: asked for, under way, answered.
    for wait, length, asks, case in product(range(3), (1, 2, 3), (False, True), cases):
        address, data, sel, refused, value = case
        assert not (await transfer(dut, session, 7))[0]
        offer(dut, address, data, sel)
        await ClockCycles(dut.clk, wait)
        if wait:
            await FallingEdge(dut.clk)
        dut.rst.value = 1
        await FallingEdge(dut.clk)
        if not asks:
            drop(dut)
        await silence(dut, length - 1)
        dut.rst.value = 0
        if asks:
            cycles, err, read = await answer(dut)
            assert (cycles, err) == (2, refused)
            assert value is None or read == value
        await silence(dut, 4)
        written = asks and address == session and not refused and data
        assert await transfer(dut, session) == (False, written or 0)
        running = asks and address == register("CONTROL").address
        assert await transfer(dut, register("CONTROL").address) == (False, running)
        assert await transfer(dut, counter + 4) == (False, 85)
        assert (await transfer(dut, register("STATUS").address, 1))[0]


async def before_memory(dut, seed):
    """The memory on the bus, the count of its errors, and what asks it for lines."""
    await start(dut)
    slave = Slave(dut, dut.clk, dut.rst)
    errors = Cycles(dut.error, dut.clk)
    await release(dut)
    await FallingEdge(dut.clk)
    return slave, errors, Lines(dut, seed)


@cocotb.test()
async def lines_over_axi(dut):
    """Values are those of memory in order, under every back-pressure; after a reset of the design
    with lines on their way none of them reaches it.
    """
    slave, errors, lines = await before_memory(dut, 7)
    await lines.under_pauses(slave)
    assert lines.most > 3, "several are outstanding"
    beat = len(dut.axi_rdata) // 8
    for size, count in ((dut.axi_awsize, dut.axi_awlen), (dut.axi_arsize, dut.axi_arlen)):
        assert 1 << int(size.value) == beat, "a burst uses the whole bus"
        assert beat * (int(count.value) + 1) == lines.line_bytes

    for wait in range(6):
        for k in range(4):
            await lines.ask(k == 2, k, lines.line_bytes * k)
        for _ in range(wait):
            await lines.cycle()
        await lines.reset(1)
        await lines.ask(0, 9, lines.line_bytes * 3)
        await lines.drain()
    for _ in range(60):
        await lines.cycle()
    assert errors.count == 0


@cocotb.test()
async def errors_over_axi(dut):
    """Each response that is an error is told once: a read has one with each beat, a write one. Its
    line is delivered, and those after it are right.
    """
    slave, errors, lines = await before_memory(dut, 8)
    size = lines.line_bytes
    beat = len(dut.axi_rdata) // 8
    count = size // beat
    # Of line k beat k, and then of one every beat.
    slave.memory.broken.update(BROKEN + size * k + beat * k for k in range(count))
    slave.memory.broken.update(BROKEN + size * count + beat * k for k in range(count))
    whole = 2**size - 1
    for writes, reads in PAUSES:
        slave.pause(writes, reads)
        for line, write in product(range(count + 1), (0, 1)):
            before = errors.count
            # Between others, so that responses of both kinds wait for each other.
            await lines.ask_some(6)
            await lines.ask(write, 1, BROKEN + size * line, mask=whole)
            await lines.ask_some(6)
            await lines.drain()
            await lines.cycle()
            responses = count if line == count and not write else 1
            assert errors.count - before == responses
