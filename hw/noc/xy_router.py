"""The buffered router of the dynamic overlay."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...overlay.core.config import LINKS, PORTS
from ..units.fifo import Fifo

SOURCES = {"P": "WENS", "W": "PE", "E": "PW", "N": "PWES", "S": "PWEN"}
"""Input FIFOs that can ask for each output: routes go along x first, and never back."""
ROUTES = {
    port: [output for output, sources in SOURCES.items() if port in sources] for port in PORTS
}
"""Outputs for which each input FIFO can ask."""


class XYRouter(wiring.Component):
    """Router of a buffered mesh: a FIFO per input, routes along x first, round robin at every
    output.

    Parameters
    ----------
    token : data.StructLayout
        With the fields ``x`` and ``y``.
    fifo_depth : int
        Entries of each input FIFO, at least 2 for one token a cycle.
    shared : bool
        Its links are a switch's at times.

    Members
    -------
    x, y : In
        This router's place; constant while it holds tokens.
    clear : In(1)
        Sets the round robin of every output back to FIFO P.
    idle : Out(1)
        It holds no token.
    p_i, w_i, e_i, n_i, s_i : In(stream.Signature(token))
    p_o, w_o, e_o, n_o, s_o : Out(stream.Signature(token))
        From and to the PE and the four neighbours.
    held : In(4)
        Only if ``shared``: the outputs (by :data:`~penstock.overlay.core.config.LINKS`) on which no
        token leaves now.

    Timing
    ------
    A token accepted at c is offered at the output of its route from c + 1, in the turn of the round
    robin. Its route is found as it is accepted, and kept beside it. ``ready`` of an input comes
    from its FIFO's level, ``valid`` and ``payload`` of an output from the FIFO heads: both are cut
    here; an output never waits for its ``ready`` to become valid, but which FIFO it offers may
    change while it waits. Source: docs/overlay.md section 4.
    """

    def __init__(self, *, token: data.StructLayout, fifo_depth: int, shared: bool = False):
        self.token = token
        self.fifo_depth = fifo_depth
        side = {f"{port.lower()}_i": In(stream.Signature(token)) for port in PORTS}
        side |= {f"{port.lower()}_o": Out(stream.Signature(token)) for port in PORTS}
        super().__init__(
            {
                "x": In(token["x"].shape),
                "y": In(token["y"].shape),
                "clear": In(1),
                "idle": Out(1),
                **side,
                **({"held": In(len(LINKS))} if shared else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        heads = {}
        for port, outputs in ROUTES.items():
            shape = data.StructLayout({"token": self.token, "route": len(outputs)})
            name = port.lower()
            fifo = m.submodules[f"fifo_{name}"] = Fifo(shape=shape, depth=self.fifo_depth)
            given = getattr(self, f"{name}_i")
            m.d.comb += [
                fifo.i.valid.eq(given.valid),
                given.ready.eq(fifo.i.ready),
                fifo.i.payload.token.eq(given.payload),
                fifo.i.payload.route.eq(self._route(m, port, given.payload)),
            ]
            heads[port] = fifo.o

        m.d.comb += self.idle.eq(~Cat(head.valid for head in heads.values()).any())
        granted = {port: [] for port in PORTS}
        for output, sources in SOURCES.items():
            name = output.lower()
            out = getattr(self, f"{name}_o")
            free = ~self.held[LINKS.index(name)] if hasattr(self, "held") and name in LINKS else 1
            wants = Signal(len(sources), name=f"wants_{output}")
            m.d.comb += wants.eq(
                Cat(
                    heads[s].valid & heads[s].payload.route[ROUTES[s].index(output)]
                    for s in sources
                )
            )
            choice, chosen, pointer = self._round_robin(m, output, wants)
            m.d.comb += [
                out.valid.eq(wants.any() & free),
                out.payload.eq(Array(heads[s].payload.token.as_value() for s in sources)[choice]),
            ]
            with m.If(self.clear):
                m.d.sync += pointer.eq(0)
            with m.Elif(out.valid & out.ready):
                m.d.sync += pointer.eq(Mux(choice == len(sources) - 1, 0, choice + 1))
            for k, s in enumerate(sources):
                granted[s].append(chosen[k] & out.ready & free)
        for port in PORTS:
            m.d.comb += heads[port].ready.eq(Cat(granted[port]).any())
        return m

    def _route(self, m: Module, port: str, token) -> Value:
        """A bit for each of the port's ROUTES: the one that a token takes. Tokens in a column are
        there to stay.
        """
        turns = Const(1) if port in "NS" else token.x == self.x
        asks = {
            "E": token.x > self.x,
            "W": token.x < self.x,
            "S": turns & (token.y > self.y),
            "N": turns & (token.y < self.y),
            "P": turns & (token.y == self.y),
        }
        route = Signal(len(ROUTES[port]), name=f"route_{port}")
        m.d.comb += route.eq(Cat(asks[output] for output in ROUTES[port]))
        return route

    @staticmethod
    def _round_robin(m: Module, output: str, wants: Value) -> tuple[Signal, Signal, Signal]:
        """The first of ``wants`` at or after the pointer, cyclically: its number, and a bit for
        each; and the pointer.
        """
        count = len(wants)
        choice = Signal(range(count), name=f"choice_{output}")
        chosen = Signal(count, name=f"chosen_{output}")
        pointer = Signal(range(count), name=f"pointer_{output}")
        with m.Switch(pointer):
            for start in range(count):
                with m.Case(start):
                    for k in reversed(range(count)):
                        with m.If(wants[(start + k) % count]):
                            m.d.comb += [
                                choice.eq((start + k) % count),
                                chosen.eq(1 << (start + k) % count),
                            ]
        return choice, chosen, pointer
