"""The router of the hybrid overlay: packets where the switch's contexts leave a link free."""

from amaranth.hdl import Module, Mux
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...overlay.core.config import LINKS, Layout
from .tm_switch import TimeMultiplexedSwitch
from .xy_router import XYRouter


class HybridRouter(wiring.Component):
    """A time-multiplexed switch and a packet router on the same links.

    Parameters
    ----------
    token : data.StructLayout
        Of a packet, with the fields ``x``, ``y`` and ``value``.
    fifo_depth : int
        Of the router's FIFOs.
    width : int
        Bits of a value.
    contexts : int
        Depth of the context memory.
    layout : Layout
        Of a switch's context, with the field ``held``.

    Members
    -------
    write, fetch, active
        See :class:`~penstock.hw.noc.tm_switch.TimeMultiplexedSwitch`.
    x, y, clear, idle
        See :class:`~penstock.hw.noc.xy_router.XYRouter`.
    value_i, value_o : In(width), Out(width)
        From and to the PE, of the switch.
    p_i, w_i, e_i, n_i, s_i : In(stream.Signature(token))
    p_o, w_o, e_o, n_o, s_o : Out(stream.Signature(token))
        Packets, from and to the PE and the neighbours. A value of the switch is on the wires of
        ``value``, and nothing is valid then.

    Timing
    ------
    As of both. A link is the switch's in the cycle in which its register
    holds a context's value. Source: docs/overlay.md section 7.1.
    """

    def __init__(
        self,
        *,
        token: data.StructLayout,
        fifo_depth: int,
        width: int,
        contexts: int,
        layout: Layout,
    ):
        self._packets = XYRouter(token=token, fifo_depth=fifo_depth, shared=True)
        self._switch = TimeMultiplexedSwitch(width=width, contexts=contexts, layout=layout)
        place = self._packets.signature.members
        contexts_of = self._switch.signature.members
        super().__init__(
            {
                **{name: contexts_of[name] for name in ("write", "fetch", "active")},
                **{name: place[name] for name in ("x", "y", "clear", "idle")},
                "value_i": In(width),
                "value_o": Out(width),
                **{f"{port}_i": In(stream.Signature(token)) for port in "pwens"},
                **{f"{port}_o": Out(stream.Signature(token)) for port in "pwens"},
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.packets = packets = self._packets
        m.submodules.switch = switch = self._switch
        m.d.comb += [
            switch.write.eq(self.write),
            switch.fetch.eq(self.fetch),
            switch.active.eq(self.active),
            switch.p_i.eq(self.value_i),
            self.value_o.eq(switch.p_o),
            packets.held.eq(switch.holds),
            packets.x.eq(self.x),
            packets.y.eq(self.y),
            packets.clear.eq(self.clear),
            self.idle.eq(packets.idle),
        ]
        wiring.connect(m, wiring.flipped(self.p_i), packets.p_i)
        wiring.connect(m, packets.p_o, wiring.flipped(self.p_o))
        for k, side in enumerate(LINKS):
            given, taken = getattr(self, f"{side}_i"), getattr(self, f"{side}_o")
            wiring.connect(m, wiring.flipped(given), getattr(packets, f"{side}_i"))
            wiring.connect(m, getattr(packets, f"{side}_o"), wiring.flipped(taken))
            value = getattr(packets, f"{side}_o").payload.value
            m.d.comb += [
                getattr(switch, f"{side}_i").eq(given.payload.value),
                taken.payload.value.eq(Mux(switch.holds[k], getattr(switch, f"{side}_o"), value)),
            ]
        return m
