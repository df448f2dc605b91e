"""The registers by which a host holds, configures, starts and watches a design."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...machine.host_map import MAP_ID, REGISTERS_BITS, field, register, window
from ...machine.limits import REGISTER_BITS, UNIT_BITS
from .wishbone import Wishbone


class Control(wiring.Signature):
    """The ports of docs/top.md that a host drives and reads, seen from the host; and ``rst``."""

    def __init__(self):
        super().__init__(
            {
                "rst": Out(1, init=1),
                "cfg_we": Out(1),
                "cfg_addr": Out(REGISTER_BITS),
                "cfg_data": Out(32),
                "cycle": In(32),
                "done": In(1),
                "error": In(8),
                "stat_addr": Out(UNIT_BITS + 2),
                "stat_data": In(32),
            }
        )


class Registers(wiring.Component):
    """The registers and windows of :mod:`penstock.machine.host_map`, but streams and memory.

    Parameters
    ----------
    design : int
        What ``DESIGN`` holds.
    memory_bytes, stream_beats, recorded_lines : int
        What the registers of these names hold.

    Members
    -------
    bus : In(Wishbone())
    design : Out(Control())

    Timing
    ------
    A transfer is answered in the second cycle after it is asked for; a write takes effect with the
    answer, and one of part of a word is refused. The design's reset falls in the cycle after
    ``run`` is set, and its last configuration word is written long before. ``STATUS`` and
    ``CYCLES`` hold from the cycle after ``done``.
    """

    def __init__(
        self, *, design: int, memory_bytes: int, stream_beats: int = 0, recorded_lines: int = 0
    ):
        self._fixed = {
            "ID": MAP_ID,
            "DESIGN": design,
            "MEMORY_BYTES": memory_bytes,
            "STREAM_BEATS": stream_beats,
            "RECORDED_LINES": recorded_lines,
        }
        super().__init__({"bus": In(Wishbone()), "design": Out(Control())})

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        design = self.design
        held = design.rst
        asked = Signal()
        answer = Signal()
        m.d.comb += asked.eq(bus.cyc & bus.stb & ~answer & ~bus.ack & ~bus.err)
        m.d.sync += [answer.eq(asked), bus.ack.eq(0), bus.err.eq(0)]
        session = Signal(32)
        cycles = self._watch(m, held)
        status = self._status(m, held)

        words = {r.name: Signal(32, name=f"is_{r.name.lower()}") for r in self._shown()}
        for name, value in self._fixed.items():
            m.d.comb += words[name].eq(value)
        m.d.comb += [
            words["SESSION"].eq(session),
            words["CONTROL"].eq(~held),
            words["STATUS"].eq(status),
            words["CYCLES"].eq(cycles),
            design.cfg_addr.eq(bus.adr),
            design.cfg_data.eq(bus.dat_w),
        ]
        m.d.sync += design.stat_addr.eq(bus.adr)
        whole = Signal()
        m.d.comb += whole.eq(~bus.we | bus.sel.all())
        with m.If(answer & bus.cyc & bus.stb & ~whole):
            m.d.sync += bus.err.eq(1)
        with m.Elif(answer & bus.cyc & bus.stb):
            with m.If(self._within(bus.adr, "COUNTERS")):
                m.d.sync += [
                    bus.ack.eq(~bus.we),
                    bus.err.eq(bus.we),
                    bus.dat_r.eq(design.stat_data),
                ]
            with m.Elif(self._within(bus.adr, "CONFIGURATION")):
                m.d.sync += [bus.ack.eq(held & bus.we), bus.err.eq(~(held & bus.we))]
                m.d.comb += design.cfg_we.eq(held & bus.we)
            with m.Else():
                self._access(m, words, session)
        return m

    def _shown(self):
        return [register(name) for name in (*self._fixed, "SESSION", "CONTROL", "STATUS", "CYCLES")]

    def _within(self, address, name: str):
        """True if a word's address is in a window."""
        low = window(name).bits - 2
        return address[low : REGISTERS_BITS - 2] == window(name).base >> window(name).bits

    def _access(self, m: Module, words: dict[str, Signal], session: Signal) -> None:
        """A register's word."""
        bus = self.bus
        run = field("CONTROL", "run").low
        m.d.sync += bus.err.eq(1)
        with m.Switch(bus.adr):
            for name, word in words.items():
                with m.Case(register(name).address >> 2):
                    m.d.sync += bus.dat_r.eq(word)
                    if register(name).access == "rw":
                        m.d.sync += [bus.err.eq(0), bus.ack.eq(1)]
                    else:
                        m.d.sync += [bus.err.eq(bus.we), bus.ack.eq(~bus.we)]
        with m.If(bus.we & (bus.adr == register("SESSION").address >> 2)):
            m.d.sync += session.eq(bus.dat_w)
        with m.If(bus.we & (bus.adr == register("CONTROL").address >> 2)):
            m.d.sync += self.design.rst.eq(~bus.dat_w[run])

    def _watch(self, m: Module, held: Signal) -> Signal:
        """Cycles of the last run; 0 until it has ended."""
        cycles = Signal(32)
        with m.If(held):
            m.d.sync += cycles.eq(0)
        with m.Elif(self.design.done & (cycles == 0)):
            m.d.sync += cycles.eq(self.design.cycle + 1)
        return cycles

    def _status(self, m: Module, held: Signal) -> Signal:
        status = Signal(32)
        ended = Signal()
        m.d.sync += ended.eq(~held & self.design.done)
        for name, value in (
            ("done", ended),
            ("running", ~held & ~ended),
            ("error", self.design.error),
        ):
            part = field("STATUS", name)
            m.d.comb += status[part.low : part.low + part.bits].eq(value)
        return status
