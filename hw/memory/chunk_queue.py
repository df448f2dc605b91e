"""Between the walk of an off-chip unit and its port."""

from amaranth.hdl import Const, Module, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.config import Machine


class ChunkQueue(wiring.Component):
    """Two chunks that wait; the first is in a register of its own.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a chunk.

    Members
    -------
    i : In(stream.Signature(shape))
    o : Out(stream.Signature(shape))

    Timing
    ------
    A chunk accepted in c is on ``o`` from c + 1; a slot freed in c can be filled from c + 1, so a
    chunk a cycle goes through. ``i.ready`` and all of ``o`` are registers. Source: docs/timing.md
    section 5, the walk.
    """

    def __init__(self, *, shape: ShapeLike):
        self._first = Signal(shape, name="first", reset_less=True)
        self._second = Signal(shape, name="second", reset_less=True)
        self._held = Signal(name="held")
        self._full = Signal(name="full")
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        first = self._first
        second = self._second
        held = self._held
        full = self._full
        m.d.comb += [self.i.ready.eq(~full), self.o.valid.eq(held), self.o.payload.eq(first)]
        with m.If(~full):
            m.d.sync += second.eq(self.i.payload)
        with m.If(~held | self.o.ready):
            with m.If(full):
                m.d.sync += [first.eq(second), full.eq(0)]
            with m.Else():
                m.d.sync += [first.eq(self.i.payload), held.eq(self.i.valid)]
        with m.Elif(self.i.valid):
            m.d.sync += full.eq(1)
        return m


def ask(m: Module, port, config: Machine, valid: Value, **chunk: Value) -> tuple[Signal, Signal]:
    """Chunks of a walk at its port; with deep pipelines a queue is between them.

    Parameters
    ----------
    m : Module
        Where it is added.
    port : ReadPort or WritePort
        Its ``request.payload.pitch`` is the caller's.
    config : Machine
        Says whether there is a queue.
    valid : Value
        The walk has a chunk.
    chunk : Value
        The other fields of the request.

    Returns
    -------
    Signal, Signal
        The walk's chunk is taken; the port's is granted.
    """
    request = port.request
    free = getattr(port, "free", Const(1))
    asked = Signal()
    granted = Signal()
    m.d.comb += granted.eq(request.valid & request.ready)
    if not config.chunks_ahead:
        m.d.comb += [request.payload[name].eq(value) for name, value in chunk.items()]
        m.d.comb += [request.valid.eq(valid & free), asked.eq(granted)]
        return asked, granted
    members = request.payload.shape().members
    shape = data.StructLayout({name: members[name] for name in chunk})
    m.submodules.chunks = queue = ChunkQueue(shape=shape)
    for name, value in chunk.items():
        m.d.comb += [
            queue.i.payload[name].eq(value),
            request.payload[name].eq(queue.o.payload[name]),
        ]
    m.d.comb += [
        queue.i.valid.eq(valid),
        asked.eq(valid & queue.i.ready),
        request.valid.eq(queue.o.valid & free),
        queue.o.ready.eq(granted),
    ]
    return asked, granted
