"""The deflection router of the dynamic overlay."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .token import link_layout


class HopliteRouter(wiring.Component):
    """Router of a torus of East and South rings, without buffers: a token without a free output
    stays on the ring.

    Parameters
    ----------
    token : data.StructLayout
        With the fields ``x`` and ``y``.

    Members
    -------
    x, y : In
        This router's place.
    p_i : In(stream.Signature(token))
        From the PE. ``ready`` depends on ``payload``.
    p_o : Out(stream.Signature(token))
        To the PE. A token that is not taken goes South.
    w_i, n_i : In(link_layout(token))
    e_o, s_o : Out(link_layout(token))
        From the West and North, to the East and South neighbour.

    idle : Out(1)
        No token comes from the neighbours.

    Timing
    ------
    ``e_o`` and ``s_o`` are registers: one cycle a hop. ``p_o`` comes from ``w_i``, ``n_i`` and
    ``p_i`` in the same cycle (a token of the PE is never for the PE itself, so it is never on
    ``p_o``). Source: docs/overlay.md section 5.
    """

    def __init__(self, *, token: data.StructLayout):
        self.token = token
        link = link_layout(token)
        super().__init__(
            {
                "x": In(token["x"].shape),
                "y": In(token["y"].shape),
                "p_i": In(stream.Signature(token)),
                "p_o": Out(stream.Signature(token)),
                "w_i": In(link),
                "n_i": In(link),
                "e_o": Out(link),
                "s_o": Out(link),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        w_turns = Signal()
        p_turns = Signal()
        w_on_y = Signal()
        p_on_y = Signal()
        p_on_e = Signal()
        m.d.comb += [
            self.idle.eq(~self.w_i.valid & ~self.n_i.valid),
            w_turns.eq(self.w_i.valid & (self.w_i.token.x == self.x)),
            p_turns.eq(self.p_i.payload.x == self.x),
            w_on_y.eq(w_turns & ~self.n_i.valid),
            p_on_y.eq(self.p_i.valid & p_turns & ~self.n_i.valid & ~w_turns),
            p_on_e.eq(self.p_i.valid & ~p_turns & (~self.w_i.valid | w_on_y)),
            self.p_i.ready.eq(p_on_y | p_on_e),
        ]
        # Only a token from a link can have arrived.
        linked = Signal(self.token)
        m.d.comb += [
            linked.eq(Mux(self.n_i.valid, self.n_i.token, self.w_i.token)),
            self.p_o.payload.eq(linked),
            self.p_o.valid.eq(
                (self.n_i.valid | w_on_y) & (linked.x == self.x) & (linked.y == self.y)
            ),
        ]
        m.d.sync += [
            self.s_o.valid.eq(
                ((self.n_i.valid | w_on_y) & ~(self.p_o.valid & self.p_o.ready)) | p_on_y
            ),
            self.e_o.valid.eq((self.w_i.valid & ~w_on_y) | p_on_e),
            self.s_o.token.eq(Mux(self.n_i.valid | w_turns, linked, self.p_i.payload)),
            self.e_o.token.eq(Mux(self.w_i.valid & ~w_on_y, self.w_i.token, self.p_i.payload)),
        ]
        return m
