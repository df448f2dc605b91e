"""The time-multiplexed switch of the static overlay."""

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...overlay.core.config import LINKS, SWITCH, SWITCH_CODES, Layout, bits_for
from .token import ram_attributes, struct


class TimeMultiplexedSwitch(wiring.Component):
    """A switch that a memory of contexts sets anew in every cycle: no buffers, no addresses, no
    valid bits.

    Parameters
    ----------
    width : int
        Bits of a value.
    contexts : int
        Depth of the context memory.
    layout : Layout
        Of a context; with the field ``held``, some links are another router's at times.
    context_ram : str
        ``"block"`` or ``"distributed"`` to ask synthesis for this kind of memory; None leaves it
        the choice.

    Members
    -------
    write : In({valid, address, data})
        Loads a context.
    fetch : In
        Address of the context that holds two cycles later.
    p_i, w_i, e_i, n_i, s_i : In(width)
    p_o, w_o, e_o, n_o, s_o : Out(width)
        From and to the PE and the four neighbours.
    active : In(1); holds : Out(4)
        Only with ``held``: a context holds now; the outputs whose register is a context's value, by
        :data:`~penstock.overlay.core.config.LINKS`.

    Timing
    ------
    The context fetched at c sets the switch at c + 2. ``w_o``, ``e_o``, ``n_o`` and ``s_o`` are
    registers; ``p_o`` is combinational. Source: docs/overlay.md section 7.
    """

    def __init__(
        self, *, width: int, contexts: int, layout: Layout = SWITCH, context_ram: str | None = None
    ):
        self.width = width
        self.contexts = contexts
        self._layout = struct(layout)
        shared = {"active": In(1), "holds": Out(len(LINKS))}
        self._memory = Memory(
            shape=self._layout, depth=contexts, init=[], attrs=ram_attributes(context_ram)
        )
        address = bits_for(contexts)
        ports = {f"{port}_i": In(width) for port in "pwens"} | {
            f"{port}_o": Out(width) for port in "pwens"
        }
        super().__init__(
            {
                "write": In(
                    data.StructLayout({"valid": 1, "address": address, "data": layout.width})
                ),
                "fetch": In(unsigned(address)),
                **ports,
                **(shared if "held" in dict(layout.fields) else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.contexts = memory = self._memory
        write = memory.write_port()
        read = memory.read_port()
        context = Signal(self._layout)
        m.d.comb += [
            write.en.eq(self.write.valid),
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
            read.addr.eq(self.fetch),
        ]
        m.d.sync += context.eq(read.data)
        if hasattr(self, "holds"):
            m.d.sync += self.holds.eq(Mux(self.active, context.held, 0))
        for output, codes in SWITCH_CODES.items():
            inputs = Array(getattr(self, f"{port.lower()}_i") for port in codes)
            domain = m.d.comb if output == "p" else m.d.sync
            domain += getattr(self, f"{output}_o").eq(inputs[context[output]])
        return m
