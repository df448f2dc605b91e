"""The memory of a board as block RAM."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ...machine.beat import LINE_BYTES
from ...machine.limits import ADDRESS_BITS, PORT_BITS, TAG_BITS
from ..ram import read_port, write_port
from .wishbone import Wishbone

LATENCY = 2
"""Cycles from the request of a line to its delivery: `ideal` memory of this latency."""


class LinePort(wiring.Signature):
    """The ``mem_`` ports of docs/top.md, of one lane and one response a cycle, seen from the
    design, with lines of so many bytes.
    """

    def __init__(self, line_bytes: int = LINE_BYTES):
        self.line_bytes = line_bytes
        super().__init__(
            {
                "req_valid": Out(1),
                "req_write": Out(1),
                "req_port": Out(PORT_BITS),
                "req_group": Out(TAG_BITS),
                "req_addr": Out(ADDRESS_BITS),
                "req_data": Out(8 * line_bytes),
                "req_mask": Out(line_bytes),
                "req_ready": In(1, init=1),
                "rsp_valid": In(1),
                "rsp_port": In(PORT_BITS),
                "rsp_tag": In(TAG_BITS),
                "rsp_data": In(8 * line_bytes),
            }
        )


class BlockRam(wiring.Component):
    """Lines in block RAM: the design's while it runs, the host's while it is held.

    Parameters
    ----------
    lines : int
        How many, a power of two from 2 on.
    line_bytes : int
        Of each, a power of two from 4 on.

    Members
    -------
    bus : In(Wishbone())
        A word of a line; ``err`` while the design runs.
    held : In(1)
        The design is in reset.
    design : In(LinePort())

    Timing
    ------
    A line requested in c is delivered in c + ``LATENCY``, one a cycle; what is requested while the
    design is held is not. A host's transfer is answered in the second cycle after it is asked for.
    Addresses wrap at the end: the host sees to it that tensors fit.
    """

    def __init__(self, *, lines: int, line_bytes: int = LINE_BYTES):
        if not isinstance(lines, int) or lines < 2 or lines & (lines - 1):
            raise ValueError(f"Number of lines must be a power of two from 2 on, not {lines!r}")
        self.lines = lines
        self.line_bytes = line_bytes
        super().__init__({"bus": In(Wishbone()), "held": In(1), "design": In(LinePort(line_bytes))})

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        design = self.design
        words = self.line_bytes // 4
        m.submodules.memory = memory = Memory(shape=8 * self.line_bytes, depth=self.lines, init=[])
        write = write_port(memory, "write", granularity=8)
        read = read_port(memory, "read")

        line = Signal(range(self.lines))
        word = Signal(range(words))
        requested = Signal()
        m.d.comb += [
            word.eq(bus.adr),
            line.eq(
                Mux(
                    self.held,
                    bus.adr[ceil_log2(words) :],
                    design.req_addr[ceil_log2(self.line_bytes) :],
                )
            ),
            requested.eq(design.req_valid & ~self.held),
            write.addr.eq(line),
            read.addr.eq(line),
            read.en.eq(1),
        ]
        asked = Signal()
        answer = Signal()
        m.d.comb += asked.eq(bus.cyc & bus.stb & ~answer & ~bus.ack & ~bus.err)
        with m.If(self.held):
            m.d.comb += [
                write.data.eq(bus.dat_w.replicate(words)),
                write.en.eq(Mux(asked & bus.we, bus.sel, 0) << (word << 2)),
            ]
        with m.Else():
            m.d.comb += [
                write.data.eq(design.req_data),
                write.en.eq(Mux(requested & design.req_write, design.req_mask, 0)),
            ]
        m.d.sync += [
            answer.eq(asked),
            bus.ack.eq(answer & self.held),
            bus.err.eq(answer & ~self.held),
            bus.dat_r.eq(read.data.word_select(word, 32)),
        ]
        self._deliver(m, requested, read.data)
        return m

    def _deliver(self, m: Module, requested: Signal, data: Signal) -> None:
        """Responses, behind the register of the memory and one of their own."""
        design = self.design
        due = Signal()
        name = Signal(PORT_BITS + TAG_BITS)
        m.d.sync += [
            due.eq(requested),
            name.eq(Cat(design.req_group, design.req_port)),
            design.rsp_valid.eq(due & ~self.held),
            Cat(design.rsp_tag, design.rsp_port).eq(name),
            design.rsp_data.eq(data),
        ]
