"""The channel between two units."""

from functools import cached_property

from amaranth.hdl import Module, Mux, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class Fifo(wiring.Component):
    """First-word-fall-through FIFO with a registered level.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a beat.
    depth : int
        Number of entries, at least 1.
    configured : bool
        A FIFO of an array, which stands for one of up to ``depth`` entries.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape))
    level : Out(range(depth + 1))
        Entries held at the start of the cycle.
    limit : In(range(depth + 1))
        Entries that it may hold, at least 1, constant while it is in use; only where configured.

    Timing
    ------
    A beat accepted in cycle c is visible on ``o`` from c + 1; a slot freed in c can be filled from
    c + 1, so depth 1 carries a beat every two cycles and depth 2 one a cycle. ``i.ready`` and
    ``o.valid`` come from the level register only: the ready path is cut here. From depth 9 the
    storage is read synchronously (block RAM). Source: docs/timing.md section 1.
    """

    def __init__(self, *, shape: ShapeLike, depth: int, configured: bool = False):
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"Depth must be at least 1, not {depth!r}")
        self.depth = depth
        self._shape = shape
        self._to = Signal(range(depth), name="to")
        self._start = Signal(range(depth), name="start")
        members = {
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
            "level": Out(range(depth + 1)),
        }
        if configured:
            members["limit"] = In(range(depth + 1))
        super().__init__(members)

    @cached_property
    def _memory(self) -> Memory:
        """Made by the first use, for most FIFOs of an export are instances of one module."""
        return Memory(shape=self._shape, depth=self.depth, init=[])

    def elaborate(self, platform):
        m = Module()
        put = Signal()
        get = Signal()
        m.d.comb += [
            self.i.ready.eq(self.level != getattr(self, "limit", self.depth)),
            self.o.valid.eq(self.level != 0),
            put.eq(self.i.valid & self.i.ready),
            get.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += self.level.eq(self.level + put - get)

        m.submodules.memory = memory = self._memory
        write = memory.write_port()
        to = self._to
        start = self._start
        start_next = Signal.like(start)
        m.d.comb += [
            write.en.eq(put),
            write.addr.eq(to),
            write.data.eq(self.i.payload),
            start_next.eq(start),
        ]
        with m.If(put):
            m.d.sync += to.eq(Mux(to == self.depth - 1, 0, to + 1))
        with m.If(get):
            m.d.comb += start_next.eq(Mux(start == self.depth - 1, 0, start + 1))
        m.d.sync += start.eq(start_next)

        if self.depth <= 8:
            read = memory.read_port(domain="comb")
            m.d.comb += read.addr.eq(start)
        else:
            read = memory.read_port(transparent_for=[write])
            m.d.comb += read.addr.eq(start_next)
        m.d.comb += self.o.payload.eq(read.data)
        return m
