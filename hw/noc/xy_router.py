"""The buffered router of the dynamic overlay."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.overlay import PORTS
from ..units.fifo import Fifo

__all__ = ["SOURCES", "XYRouter"]

SOURCES = {"P": "WENS", "W": "PE", "E": "PW", "N": "PWES", "S": "PWEN"}
"""Input FIFOs that can ask for each output: routes go along x first, and never back."""


class XYRouter(wiring.Component):
    """Router of a buffered mesh: a FIFO per input, routes along x
    first, round robin at every output.

    Parameters
    ----------
    token : data.StructLayout
        With the fields ``x`` and ``y``.
    fifo_depth : int
        Entries of each input FIFO, at least 2 for one token a cycle.

    Members
    -------
    x, y : In
        This router's place; constant while it holds tokens.
    clear : In(1)
        Sets the round robin of every output back to FIFO P.
    p_i, w_i, e_i, n_i, s_i : In(stream.Signature(token))
    p_o, w_o, e_o, n_o, s_o : Out(stream.Signature(token))
        From and to the PE and the four neighbours.

    Timing
    ------
    A token accepted at c is offered at the output of its route from c +
    1, in the turn of the round robin. ``ready`` of an input comes from
    its FIFO's level, ``valid`` and ``payload`` of an output from the
    FIFO heads: both are cut here; an output never waits for its
    ``ready`` to become valid, but which FIFO it offers may change while
    it waits. Source: docs/overlay.md section 4.

    """

    def __init__(self, *, token: data.StructLayout, fifo_depth: int):
        self.token = token
        self.fifo_depth = fifo_depth
        side = {f"{port.lower()}_i": In(stream.Signature(token)) for port in PORTS}
        side |= {f"{port.lower()}_o": Out(stream.Signature(token)) for port in PORTS}
        super().__init__(
            {"x": In(token["x"].shape), "y": In(token["y"].shape), "clear": In(1), **side}
        )

    def elaborate(self, platform):
        m = Module()
        heads = {}
        asks = {}
        for port in PORTS:
            fifo = m.submodules[f"fifo_{port.lower()}"] = Fifo(
                shape=self.token, depth=self.fifo_depth
            )
            wiring.connect(m, wiring.flipped(getattr(self, f"{port.lower()}_i")), fifo.i)
            heads[port] = fifo.o
            east = Signal(name=f"{port}_east")
            west = Signal(name=f"{port}_west")
            m.d.comb += [east.eq(fifo.o.payload.x > self.x), west.eq(fifo.o.payload.x < self.x)]
            south = fifo.o.payload.y > self.y
            north = fifo.o.payload.y < self.y
            turns = ~east & ~west
            asks[port] = {
                "E": east,
                "W": west,
                "S": turns & south,
                "N": turns & north,
                "P": turns & ~south & ~north,
            }

        granted = {port: [] for port in PORTS}
        for output, sources in SOURCES.items():
            out = getattr(self, f"{output.lower()}_o")
            wants = Signal(len(sources), name=f"wants_{output}")
            m.d.comb += wants.eq(Cat(heads[s].valid & asks[s][output] for s in sources))
            choice, pointer = self._round_robin(m, output, wants)
            m.d.comb += [
                out.valid.eq(wants.any()),
                out.payload.eq(Array(heads[s].payload.as_value() for s in sources)[choice]),
            ]
            with m.If(self.clear):
                m.d.sync += pointer.eq(0)
            with m.Elif(out.valid & out.ready):
                m.d.sync += pointer.eq(Mux(choice == len(sources) - 1, 0, choice + 1))
            for k, s in enumerate(sources):
                granted[s].append(wants[k] & (choice == k) & out.ready)
        for port in PORTS:
            m.d.comb += heads[port].ready.eq(Cat(granted[port]).any())
        return m

    @staticmethod
    def _round_robin(m: Module, output: str, wants: Value) -> tuple[Signal, Signal]:
        """The first of ``wants`` at or after the pointer, cyclically; and the pointer."""
        count = len(wants)
        choice = Signal(range(count), name=f"choice_{output}")
        pointer = Signal(range(count), name=f"pointer_{output}")
        with m.Switch(pointer):
            for start in range(count):
                with m.Case(start):
                    for k in reversed(range(count)):
                        with m.If(wants[(start + k) % count]):
                            m.d.comb += choice.eq((start + k) % count)
        return choice, pointer
