"""The trigger at which a walk is, in registers."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


class Head(wiring.Component):
    """The head of a queue of triggers, in a register behind the queue.

    Parameters
    ----------
    shape : StructLayout
        Shape of a trigger.

    Members
    -------
    i : In(stream.Signature(shape))
        From the queue.
    o : Out(stream.Signature(shape))
        To the walk, which takes it with its last place.
    use : In(1)
        The register is in use, constant; else ``i`` is ``o``.
    takes : Out(1)
        The register takes the queue's head; only while in use.
    idle : Out(1)
        The register is empty.

    Timing
    ------
    A trigger that is first in its queue in c is on ``o`` from c + 1, if the register is empty or is
    emptied in c. So triggers follow each other without a gap. Source: docs/timing.md section 5,
    ``load``, rule 8.
    """

    def __init__(self, *, shape: data.StructLayout):
        self.shape = shape
        trigger = stream.Signature(shape)
        members = {"i": In(trigger), "o": Out(trigger), "use": In(1)}
        super().__init__(members | {"takes": Out(1), "idle": Out(1)})

    def elaborate(self, platform):
        m = Module()
        held = Signal()
        kept = Signal(self.shape, reset_less=True)
        free = Signal()
        m.d.comb += [
            free.eq(~held | self.o.ready),
            self.takes.eq(self.use & self.i.valid & free),
            self.idle.eq(~held),
            self.i.ready.eq(Mux(self.use, free, self.o.ready)),
            self.o.valid.eq(Mux(self.use, held, self.i.valid)),
            self.o.payload.eq(Mux(self.use, kept, self.i.payload)),
        ]
        with m.If(free):
            m.d.sync += held.eq(self.takes)
        with m.If(self.takes):
            m.d.sync += kept.eq(self.i.payload)
        return m
