"""Several ends of wires and links before one FIFO."""

from amaranth.hdl import Module, ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Choice(wiring.Component):
    """Passes one of several streams.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a beat.
    sources : int
        Number of streams.

    Members
    -------
    select : In(range(sources))
        The one that passes; constant while beats move. The others are never ready.
    i0, i1, ... : In(stream.Signature(shape))
    o : Out(stream.Signature(shape))

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, shape: ShapeLike, sources: int):
        self.sources = sources
        ins = {f"i{k}": In(stream.Signature(shape)) for k in range(sources)}
        super().__init__({"select": In(range(sources)), **ins, "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        with m.Switch(self.select):
            for k in range(self.sources):
                i = getattr(self, f"i{k}")
                with m.Case(k):
                    m.d.comb += [
                        self.o.valid.eq(i.valid),
                        self.o.payload.eq(i.payload),
                        i.ready.eq(self.o.ready),
                    ]
        return m
