"""Addresses from pairs of numbers."""

from amaranth.hdl import Cat, Module, Mux

from ...machine.faults import Fault
from ...machine.kinds import ADDRESS_BITS
from .unit import Unit

__all__ = ["Address"]


class Address(Unit):
    """a * stride + b, element by element.

    Parameters
    ----------
    params : dict
        ``stride`` (run time).
    t, config, payloads, configured
        See :class:`~penstock.hw.units.unit.Unit`; inputs: scalars a, b;
        output: a scalar of 32 bits.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`; ``cfg.stride``: 32 bits.
    ``error`` bit ``Fault.STOP``: the inputs differ in stop or data.

    Timing
    ------
    L = 0, II = 1: fires when both heads are visible and the output has
    a slot; multiplier and adder are combinational. Source:
    docs/timing.md section 3, ``address``.

    """

    kind = "address"

    def elaborate(self, platform):
        m = Module()
        a = self.a.payload
        b = self.b.payload
        o = self.result
        value = (a.value * self.cfg.stride + b.value)[:ADDRESS_BITS]
        m.d.comb += [
            o.valid.eq(self.a.valid & self.b.valid),
            self.a.ready.eq(o.ready & self.b.valid),
            self.b.ready.eq(o.ready & self.a.valid),
            o.payload.eq(Cat(Mux(a.data, value, 0), a.stop, a.data)),
            self.error[Fault.STOP].eq(o.valid & ((a.stop != b.stop) | (a.data != b.data))),
        ]
        self.report(m, offers=o.valid)
        return m
