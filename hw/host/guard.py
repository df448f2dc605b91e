"""Keeps what a design asked before its reset from reaching it afterwards."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import LINE_BYTES
from .block_ram import LinePort


class Guard(wiring.Component):
    """Counts the lines that a memory owes. After a reset of the design it lets no request pass
    until all of them have come, and drops these.

    Parameters
    ----------
    outstanding : int
        Most lines that a memory owes at a time.
    line_bytes : int
        Of each.

    Members
    -------
    held : In(1)
        The design is in reset; this is not.
    design : In(LinePort(line_bytes))
    memory : Out(LinePort(line_bytes))

    Timing
    ------
    Combinational. Requests wait while ``outstanding`` lines are owed.
    """

    def __init__(self, *, outstanding: int, line_bytes: int = LINE_BYTES):
        if not isinstance(outstanding, int) or outstanding < 1:
            raise ValueError(f"Lines outstanding must be at least 1, not {outstanding!r}")
        self.outstanding = outstanding
        super().__init__(
            {"held": In(1), "design": In(LinePort(line_bytes)), "memory": Out(LinePort(line_bytes))}
        )

    def elaborate(self, platform):
        m = Module()
        design = self.design
        memory = self.memory
        owed = Signal(range(self.outstanding + 1))
        stale = Signal()
        opens = Signal()
        m.d.comb += [
            opens.eq(~self.held & ~stale & (owed != self.outstanding)),
            memory.req_valid.eq(design.req_valid & opens),
            design.req_ready.eq(memory.req_ready & opens),
            design.rsp_valid.eq(memory.rsp_valid & ~self.held & ~stale),
        ]
        for name in ("req_write", "req_port", "req_group", "req_addr", "req_data", "req_mask"):
            m.d.comb += getattr(memory, name).eq(getattr(design, name))
        for name in ("rsp_port", "rsp_tag", "rsp_data"):
            m.d.comb += getattr(design, name).eq(getattr(memory, name))
        asked = memory.req_valid & memory.req_ready
        m.d.sync += owed.eq(owed + asked - memory.rsp_valid)
        with m.If(owed + asked == memory.rsp_valid):
            m.d.sync += stale.eq(0)
        with m.Elif(self.held):
            m.d.sync += stale.eq(1)
        return m
