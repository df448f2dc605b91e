"""Ready nodes in the order in which they fired."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import bits_for
from ...noc.token import ram_attributes


class ReadyQueue(wiring.Component):
    """The set of nodes ready to send, first in, first out: the sources by a counter, then a queue
    of those that fired.

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
    direct : Out(1)
        If there is a node, it is the one that enters.

    Timing
    ------
    A node that enters at c is offered from c on. ``o.valid`` comes from registers and
    ``enter.valid``. ``o.payload`` is one multiplexer behind registers, ``enter.node`` and the
    memory. Source: docs/overlay.md section 3, R.
    """

    RESTART_CYCLES = 1

    def __init__(self, *, senders: int, depth: int):
        self.senders = senders
        self.depth = depth
        address = unsigned(bits_for(senders))
        self._memory = Memory(
            shape=address, depth=2 ** bits_for(depth), init=[], attrs=ram_attributes(None)
        )
        super().__init__(
            {
                "restart": In(1),
                "sources": In(range(senders + 1)),
                "enter": In(data.StructLayout({"valid": 1, "node": address})),
                "o": Out(stream.Signature(address)),
                "direct": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = self._memory
        read = self._memory.read_port()
        write = self._memory.write_port()
        source = Signal(range(self.senders + 1))
        first = Signal()
        bits = len(write.addr)
        to = Signal(bits + 1)  # with the parity of the turn, like those below
        start = Signal(bits + 1)
        after = Signal(bits + 1, init=1)  # `start` + 1
        empty = Signal()
        one = Signal()  # there is one node
        take = Signal()
        passed = Signal()  # the head is in `front`
        front = Signal.like(self.enter.node)
        head = Signal.like(self.enter.node)
        m.d.comb += [
            first.eq(source != self.sources),
            empty.eq(to == start),
            one.eq(to == after),
            take.eq(self.o.ready & self.o.valid & ~first),
            write.en.eq(self.enter.valid),
            write.addr.eq(to[:bits]),
            write.data.eq(self.enter.node),
            # Of an empty queue nobody looks.
            read.en.eq(self.o.ready),
            read.addr.eq(Mux(first, start, after)[:bits]),
            head.eq(Mux(passed, front, read.data)),
            self.direct.eq(~first & empty),
            self.o.valid.eq(first | ~empty | self.enter.valid),
            self.o.payload.eq(Mux(first, source, Mux(empty, self.enter.node, head))),
        ]
        m.d.sync += passed.eq(empty | Mux(take, one, passed))
        with m.If(empty | (take & one)):
            m.d.sync += front.eq(self.enter.node)
        with m.If(self.enter.valid):
            m.d.sync += to.eq(to + 1)
        with m.If(take):
            m.d.sync += [start.eq(after), after.eq(after + 1)]
        with m.If(self.restart):
            m.d.sync += source.eq(0)
        with m.Elif(self.o.ready & first):
            m.d.sync += source.eq(source + 1)
        return m
