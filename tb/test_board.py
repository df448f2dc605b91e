"""The board top, driven through its serial line by the host's own code: loaded, run, read back."""

import cocotb
import pytest
from cocotb.task import bridge, resume
from cocotb.triggers import Event, FallingEdge, First, Timer
from penstock.board.design import TOP, board_design, on_board
from penstock.board.device import Device
from penstock.board.link import Link
from penstock.board.run import compare, device_run
from penstock.machine.config import load
from penstock.machine.errors import RunError
from penstock.machine.host_frames import Operation, Status, frame
from penstock.machine.host_map import MAP_ID, register
from penstock.machine.image import pack
from penstock.machine.limits import DIVISORS
from penstock.runs.point import Point
from penstock.system.sources import PACKAGE
from penstock.tb.tops import WrittenTop, simulate
from penstock.testing.agents import Bench

PROGRAM = str(PACKAGE / "tests" / "board" / "tiny.py")
DIVISOR = DIVISORS[0]
QUIET_BITS = 500
"""Bits of the line that a read waits for."""
BAUD = 115_200
"""Bits a second that the host reckons with."""
SECONDS = 30.0


def board():
    point = Point(PROGRAM, on_board(load("small_board")), {})
    return point, board_design(point.graph, point.config, divisor=DIVISOR)


def write(folder):
    _, design = board()
    (folder / f"{TOP}.v").write_text("\n".join(design.verilog.values()), encoding="utf-8")


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, WrittenTop(TOP, write), {})


class SerialLine:
    """Serial line of the board as the host's code has it, which runs in a thread."""

    def __init__(self, dut, bench):
        self.dut = dut
        self.bit = DIVISOR * bench.period
        self.came = Event()
        self.held = bytearray()
        dut.rx.value = 1
        cocotb.start_soon(self._receive())

    async def _receive(self):
        while True:
            await FallingEdge(self.dut.tx)
            await Timer(self.bit * 3 // 2, "ns")
            byte = 0
            for k in range(8):
                byte |= int(self.dut.tx.value) << k
                await Timer(self.bit, "ns")
            assert self.dut.tx.value == 1, "a byte without a stop bit"
            self.held.append(byte)
            self.came.set()

    @resume
    async def write(self, data):
        for byte in data:
            for level in (0, *(byte >> k & 1 for k in range(8)), 1):
                self.dut.rx.value = level
                await Timer(self.bit, "ns")

    @resume
    async def read(self, size):
        self.came.clear()
        if not self.held:
            await First(self.came.wait(), Timer(QUIET_BITS * self.bit, "ns"))
        read = bytes(self.held[:size])
        del self.held[:size]
        return read

    def close(self):
        pass


async def begun(dut):
    """A board after its reset, and the host's link to it."""
    bench = Bench(dut)
    link = Link(SerialLine(dut, bench), "the simulated board", BAUD, SECONDS)
    await bench.reset()
    return bench, link


@cocotb.test()
async def test_a_program_is_loaded_run_and_read_back_as_on_the_model(dut):
    """Tensors, beats of sinks, cycles and counters."""
    _, link = await begun(dut)
    point, design = board()
    found = await bridge(device_run)(point, design, link, SECONDS)
    compare(point, found)
    assert found.values_ok and found.reloads == found.repeated == 0
    assert found.compared == {"tensors": 1, "streams": 1, "counters": 24}


@cocotb.test()
async def test_a_board_that_is_reset_in_mid_load_is_loaded_again(dut):
    bench, link = await begun(dut)
    point, design = board()
    link.answer_seconds = 5.0  # the answer that the reset takes is waited for in vain
    resets = []

    @resume
    async def reset():
        resets.append(bench.cycle)
        await bench.reset()

    def load():
        image = pack(point.graph, point.tensors)
        device = Device(link, design.number)
        return device.load(image, {}, {}, lambda *_: None if resets else reset())

    loaded = await bridge(load)()
    assert (len(resets), loaded.reloads) == (1, 1)
    compare(point, await bridge(device_run)(point, design, link, SECONDS))


SESSION = register("SESSION").address
REQUEST = [9 | Operation.WRITE << 8 | 1 << 16, SESSION, 8]
GOOD = frame(REQUEST)
DAMAGED = {
    "a bit": GOOD[:9] + bytes([GOOD[9] ^ 1]) + GOOD[10:],
    "too short": GOOD[:-3] + GOOD[-1:],
    "a lone escape": b"\x7e\x7d\x7e",
    "a count of nine bits and one more": frame([0] * 128 + REQUEST),
}


@cocotb.test()
async def test_a_damaged_frame_does_nothing(dut):
    _, link = await begun(dut)

    def send():
        link.write(SESSION, [7])
        for how, bad in DAMAGED.items():
            link.line.write(bad)
            answer = link._answer(Operation.WRITE, 100)
            assert answer and answer[-1] == Status.DAMAGED, how
            assert link.read(SESSION) == [7], how

    await bridge(send)()


@cocotb.test()
async def test_an_address_without_a_register_is_refused(dut):
    _, link = await begun(dut)

    def ask():
        with pytest.raises(RunError, match="refuses to read 1 words at 0x40"):
            link.read(0x40)
        with pytest.raises(RunError, match="refuses to write 1 words at 0x0"):
            link.write(register("ID").address, [1])
        assert link.read(register("ID").address) == [MAP_ID]

    await bridge(ask)()
