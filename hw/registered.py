"""A component between registers: so that its paths from and to ports are timed, too."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class Registered(wiring.Component):
    """A component with a register on every port.

    Place and route of a part alone times paths between registers only; with a register on each of
    its ports every path of the part is one. Not for use in a design: handshakes do not survive it.

    Parameters
    ----------
    part : wiring.Component

    Members
    -------
    Those of the part.

    Timing
    ------
    One cycle later in and out.
    """

    def __init__(self, part: wiring.Component):
        self.part = part
        super().__init__(part.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = self.part
        for (_, member, outer), (_, _, inner) in zip(
            self.signature.flatten(self), self.part.signature.flatten(self.part), strict=True
        ):
            m.d.sync += inner.eq(outer) if member.flow == In else outer.eq(inner)
        return m
