"""Ready nodes in the order in which they fired."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....machine.overlay import bits_for
from ..fifo import Fifo

__all__ = ["ReadyQueue"]


class ReadyQueue(wiring.Component):
    """The set of nodes ready to send, first in, first out: the sources
    by a counter, then a queue of those that fired.

    Parameters
    ----------
    senders : int
        Local addresses of nodes that send: 0 to ``senders`` - 1.
    depth : int
        Queue entries: as many as operations that send.

    Members
    -------
    restart : In(1)
        The sources are ready anew.
    sources : In
        Number of sources; they have the lowest addresses.
    enter : In({valid, node})
        A node becomes ready.
    o : Out(stream.Signature(address))
        The node that is next; taken when ``ready``.

    Timing
    ------
    A node that enters at c is offered from c + 1 at the earliest.
    ``o.valid`` comes from registers. Source: docs/overlay.md section 3,
    R.

    """

    RESTART_CYCLES = 1

    def __init__(self, *, senders: int, depth: int):
        self.senders = senders
        self.depth = depth
        address = unsigned(bits_for(senders))
        super().__init__(
            {
                "restart": In(1),
                "sources": In(range(senders + 1)),
                "enter": In(data.StructLayout({"valid": 1, "node": address})),
                "o": Out(stream.Signature(address)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Fifo(shape=unsigned(bits_for(self.senders)), depth=self.depth)
        source = Signal(range(self.senders + 1))
        first = Signal()
        m.d.comb += [
            first.eq(source != self.sources),
            queue.i.valid.eq(self.enter.valid),
            queue.i.payload.eq(self.enter.node),
            self.o.valid.eq(first | queue.o.valid),
            self.o.payload.eq(Mux(first, source, queue.o.payload)),
            queue.o.ready.eq(self.o.ready & ~first),
        ]
        with m.If(self.restart):
            m.d.sync += source.eq(0)
        with m.Elif(self.o.ready & first):
            m.d.sync += source.eq(source + 1)
        return m
