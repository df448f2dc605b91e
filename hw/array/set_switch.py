"""A switch with the registers that set it."""

from collections.abc import Sequence

from amaranth.hdl import Module, ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.array.registers import Layout
from ..export.module_key import module_key
from ..noc.switch import Switch, select_layout
from .registers import Registers, bus_layout


class SetSwitch(wiring.Component):
    """A :class:`~penstock.hw.noc.switch.Switch` that an image sets.

    Parameters
    ----------
    shape, inputs, reach
        Of the switch.

    Members
    -------
    bus : In(bus_layout(words))
        Words for its registers.
    i0, i1, ..., o0, o1, ...
        Those of the switch.

    Attributes
    ----------
    layout : Layout
        Its registers.
    """

    def __init__(self, *, shape: ShapeLike, inputs: int, reach: Sequence[Sequence[int]]):
        self.layout = Layout.of(select_layout(reach))
        self._shape = shape
        self._inputs = inputs
        self._reach = tuple(map(tuple, reach))
        ins = {f"i{k}": In(stream.Signature(shape)) for k in range(inputs)}
        outs = {f"o{k}": Out(stream.Signature(shape)) for k in range(len(reach))}
        super().__init__({"bus": In(bus_layout(self.layout.words)), **ins, **outs})

    def key(self, plane: str):
        """Key of its module."""
        return module_key(
            "switch",
            {"plane": plane, "inputs": self._inputs, "outputs": len(self._reach)},
            {"shape": repr(self._shape), "reach": self._reach},
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.registers = registers = Registers(self.layout)
        m.submodules.switch = switch = Switch(
            shape=self._shape, inputs=self._inputs, reach=self._reach
        )
        m.d.comb += registers.bus.eq(self.bus)
        for f in self.layout.common:
            m.d.comb += switch.cfg[f.name].eq(registers.field(f))
        for k in range(self._inputs):
            wiring.connect(m, wiring.flipped(getattr(self, f"i{k}")), getattr(switch, f"i{k}"))
        for k in range(len(self._reach)):
            wiring.connect(m, getattr(switch, f"o{k}"), wiring.flipped(getattr(self, f"o{k}")))
        return m
