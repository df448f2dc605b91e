"""Chained consumers of one bank, in the order in which they were read."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..fifo import Fifo


class Links(wiring.Component):
    """Holds consumers that wait for their bank, the oldest at ``o``.

    Parameters
    ----------
    link : StructLayout
        Of a consumer with the value that it gets.
    depth : int
        Consumers that it holds, the one that comes in this cycle included.

    Members
    -------
    i : In({valid, link})
        A consumer that waits from this cycle on; not when ``depth`` wait already.
    o : Out({valid, link})
        The oldest: of those that waited, else ``i``.
    take : In(1)
        It is served; only with ``o.valid``.
    room : Out(1)
        Fewer than ``depth`` wait, that of ``i`` counted.

    Timing
    ------
    One in and one out a cycle; one may be served in the cycle in which it comes. ``room`` comes
    from the level register and ``i.valid``. Source: docs/overlay.md section 3.1.
    """

    def __init__(self, *, link: data.StructLayout, depth: int):
        self.link = link
        self.depth = depth
        entry = data.StructLayout({"valid": 1, "link": link})
        super().__init__({"i": In(entry), "o": Out(entry), "take": In(1), "room": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.held = held = Fifo(shape=self.link, depth=self.depth)
        count = Signal(range(self.depth + 2))
        m.d.comb += [
            count.eq(held.level + self.i.valid),
            self.room.eq(count < self.depth),
            self.o.valid.eq(held.o.valid | self.i.valid),
            self.o.link.eq(Mux(held.o.valid, held.o.payload, self.i.link)),
            held.o.ready.eq(self.take),
            held.i.valid.eq(self.i.valid & (held.o.valid | ~self.take)),
            held.i.payload.eq(self.i.link),
        ]
        return m
