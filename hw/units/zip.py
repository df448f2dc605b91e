"""Joining two streams."""

from amaranth.hdl import Cat, Module

from ...machine.faults import Fault
from .unit import Unit


class Zip(Unit):
    """Joins the beats of two streams of equal shape into tuples.

    Members
    -------
    ``error`` bit ``Fault.STOP``: the two beats joined differ in stop or data; those of ``a`` are
    kept.

    Timing
    ------
    L = 0, II = 1: fires when both beats are visible and the output has a slot. Source:
    docs/timing.md section 3, ``zip``.
    """

    implements = "zip"

    def elaborate(self, platform):
        m = Module()
        a = self.a.payload
        b = self.b.payload
        o = self.pair
        m.d.comb += [
            o.valid.eq(self.a.valid & self.b.valid),
            self.a.ready.eq(o.ready & self.b.valid),
            self.b.ready.eq(o.ready & self.a.valid),
            o.payload.eq(Cat(a.as_value()[:-5], b.as_value()[:-5], a.stop, a.data)),
            self.error[Fault.STOP].eq(
                o.valid & o.ready & ((a.stop != b.stop) | (a.data != b.data))
            ),
        ]
        self.report(m, offers=o.valid)
        return m
