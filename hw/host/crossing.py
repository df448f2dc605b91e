"""A memory with a clock of its own."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out

from ...machine.beat import LINE_BYTES
from .block_ram import LinePort

ASKED = ("req_write", "req_port", "req_group", "req_addr", "req_data", "req_mask")
ANSWERED = ("rsp_port", "rsp_tag", "rsp_data")


class Crossing(wiring.Component):
    """Takes requests to the clock of a memory, and lines back to that of the design.

    Parameters
    ----------
    depth : int
        Requests on their way, and lines: a power of two. A
        :class:`~penstock.hw.host.guard.Guard` of at most so many lines
        has to stand before it: lines are never refused.
    domain : str
        The memory's clock.
    line_bytes : int
        Of each line.

    Members
    -------
    design : In(LinePort(line_bytes))
        In the domain ``sync``.
    memory : Out(LinePort(line_bytes))
        In the other.

    Timing
    ------
    Four to five cycles of either clock each way, a request and a line a
    cycle. Both domains are reset together.
    """

    def __init__(self, *, depth: int, domain: str = "memory", line_bytes: int = LINE_BYTES):
        if not isinstance(depth, int) or depth < 2 or depth & (depth - 1):
            raise ValueError(f"Depth must be a power of two from 2 on, not {depth!r}")
        self.depth = depth
        self.domain = domain
        super().__init__({"design": In(LinePort(line_bytes)), "memory": Out(LinePort(line_bytes))})

    def elaborate(self, platform):
        m = Module()
        design = self.design
        memory = self.memory
        asked = Cat(getattr(design, name) for name in ASKED)
        given = Cat(getattr(memory, name) for name in ASKED)
        m.submodules.requests = requests = AsyncFIFO(
            width=len(asked), depth=self.depth, w_domain="sync", r_domain=self.domain
        )
        m.d.comb += [
            requests.w_data.eq(asked),
            requests.w_en.eq(design.req_valid),
            design.req_ready.eq(requests.w_rdy),
            given.eq(requests.r_data),
            memory.req_valid.eq(requests.r_rdy),
            requests.r_en.eq(memory.req_ready),
        ]
        answered = Cat(getattr(memory, name) for name in ANSWERED)
        answers = Cat(getattr(design, name) for name in ANSWERED)
        m.submodules.lines = lines = AsyncFIFO(
            width=len(answered), depth=self.depth, w_domain=self.domain, r_domain="sync"
        )
        m.d.comb += [
            lines.w_data.eq(answered),
            lines.w_en.eq(memory.rsp_valid),
            answers.eq(lines.r_data),
            design.rsp_valid.eq(lines.r_rdy),
            lines.r_en.eq(1),
        ]
        return m
