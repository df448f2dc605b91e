"""The memory of a board as synchronous DRAM, with a record of what it did."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ....machine.beat import LINE_BYTES
from ....machine.sdram import SDRAM, Sdram
from ..block_ram import LinePort
from ..guard import Guard
from ..wishbone import Wishbone
from .controller import Controller
from .pins import Pins

OUTSTANDING = 7
"""Lines that the controller may owe: more than it takes before it answers."""


class WordPort(wiring.Component):
    """Words of a bus, each by a line of its own.

    Parameters
    ----------
    line_bytes : int
        Of a line, a power of two from 4 on.

    Members
    -------
    bus : In(Wishbone())
        ``err`` while it is not allowed.
    allowed, free : In(1), In(1)
        Whether the host may; whether nobody else uses the port.
    active : Out(1)
        The port is the host's.
    port : Out(LinePort(line_bytes))

    Timing
    ------
    A transfer begins when the port is free, and is answered in the second cycle after its line is.
    """

    def __init__(self, line_bytes: int = LINE_BYTES):
        self.line_bytes = line_bytes
        super().__init__(
            {
                "bus": In(Wishbone()),
                "allowed": In(1),
                "free": In(1),
                "active": Out(1),
                "port": Out(LinePort(line_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        port = self.port
        words = self.line_bytes // 4
        word = Signal(range(words))
        asked = Signal()
        waits = Signal()
        m.d.comb += [
            asked.eq(bus.cyc & bus.stb & ~bus.ack & ~bus.err),
            word.eq(bus.adr if words > 1 else 0),
            self.active.eq(port.req_valid | waits),
            port.req_write.eq(bus.we),
            port.req_addr.eq((bus.adr >> ceil_log2(words)) << ceil_log2(self.line_bytes)),
            port.req_data.eq(bus.dat_w.replicate(words)),
            port.req_mask.eq(bus.sel << (word << 2)),
        ]
        m.d.sync += [bus.ack.eq(0), bus.err.eq(asked & ~self.allowed)]
        with m.If(waits):
            with m.If(port.rsp_valid):
                m.d.sync += [
                    waits.eq(0),
                    bus.ack.eq(1),
                    bus.dat_r.eq(port.rsp_data.word_select(word, 32)),
                ]
        with m.Elif(port.req_valid):
            with m.If(port.req_ready):
                m.d.sync += [port.req_valid.eq(0), waits.eq(1)]
        with m.Elif(asked & self.allowed & self.free):
            m.d.sync += port.req_valid.eq(1)
        return m


class SdramMemory(wiring.Component):
    """Lines in a chip: the design's while it runs, the host's while it is held.

    Parameters
    ----------
    lines : int
        How many, a power of two from 2 on; no more than the chip has.
    line_bytes : int
        Of each, a power of two from 4 on.
    chip : Sdram
    clock_mhz : float

    Members
    -------
    bus : In(Wishbone())
        A word of a line; ``err`` while the design runs.
    held : In(1)
        The design is in reset.
    design : In(LinePort(line_bytes))
    pins : Out(Pins(chip))
    cycle : In(32)
        Of the design's run.
    requests : Out(stream.Signature(64))
        Of each line that is taken the cycle, and the address, odd for a write.
    deliveries : Out(stream.Signature(32))
        Of each answer the cycle.

    Timing
    ------
    That of :class:`.Controller`, whose answers have the order of requests. Lines that a design has
    asked for before its reset do not reach it afterwards.
    """

    def __init__(
        self,
        *,
        lines: int,
        line_bytes: int = LINE_BYTES,
        chip: Sdram = SDRAM,
        clock_mhz: float = 25.0,
    ):
        if not isinstance(lines, int) or lines < 2 or lines & (lines - 1):
            raise ValueError(f"Number of lines must be a power of two from 2 on, not {lines!r}")
        if lines * line_bytes > chip.bytes:
            raise ValueError(f"The chip has {chip.bytes} bytes, not {lines * line_bytes}")
        self.lines = lines
        self.line_bytes = line_bytes
        self.chip = chip
        self.clock_mhz = clock_mhz
        super().__init__(
            {
                "bus": In(Wishbone()),
                "held": In(1),
                "design": In(LinePort(line_bytes)),
                "pins": Out(Pins(chip)),
                "cycle": In(32),
                "requests": Out(stream.Signature(64)),
                "deliveries": Out(stream.Signature(32)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = controller = Controller(
            chip=self.chip, clock_mhz=self.clock_mhz, line_bytes=self.line_bytes
        )
        m.submodules.guard = guard = Guard(outstanding=OUTSTANDING, line_bytes=self.line_bytes)
        m.submodules.words = words = WordPort(self.line_bytes)
        wiring.connect(m, wiring.flipped(self.bus), words.bus)
        wiring.connect(m, wiring.flipped(self.design), guard.design)
        wiring.connect(m, controller.pins, wiring.flipped(self.pins))
        m.d.comb += [
            guard.held.eq(self.held),
            words.allowed.eq(self.held),
            words.free.eq(controller.idle),
        ]
        self._share(m, controller.port, words, guard)
        self._record(m)
        return m

    def _share(self, m: Module, port, words: WordPort, guard: Guard) -> None:
        """The controller's port, to the host or to the design."""
        size = self.lines * self.line_bytes
        host = words.active
        for name in ("valid", "write", "port", "group", "addr", "data", "mask"):
            mine = getattr(words.port, f"req_{name}")
            theirs = getattr(guard.memory, f"req_{name}")
            chosen = Mux(host, mine, theirs)
            m.d.comb += getattr(port, f"req_{name}").eq(
                chosen & (size - 1) if name == "addr" else chosen
            )
        m.d.comb += [
            words.port.req_ready.eq(port.req_ready & host),
            guard.memory.req_ready.eq(port.req_ready & ~host),
            words.port.rsp_valid.eq(port.rsp_valid & host),
            guard.memory.rsp_valid.eq(port.rsp_valid & ~host),
        ]
        for name in ("rsp_port", "rsp_tag", "rsp_data"):
            for end in (words.port, guard.memory):
                m.d.comb += getattr(end, name).eq(getattr(port, name))

    def _record(self, m: Module) -> None:
        """Record the design's requests and answers, with their cycles."""
        design = self.design
        address = Cat(design.req_write, design.req_addr[1:])  # lines begin at even bytes
        m.d.comb += [
            self.requests.valid.eq(design.req_valid & design.req_ready),
            self.requests.payload.eq(Cat(self.cycle, address)),
            self.deliveries.valid.eq(design.rsp_valid),
            self.deliveries.payload.eq(self.cycle),
        ]
