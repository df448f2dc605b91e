"""Joining two streams."""

from amaranth.hdl import Cat, Module

from ...machine.faults import Fault
from .unit import Unit

__all__ = ["Zip"]


class Zip(Unit):
    """Joins the beats of two streams of equal shape into tuples.

    Parameters
    ----------
    params : dict
        None.
    t, config, payloads
        See :class:`~penstock.hw.units.unit.Unit`; two inputs; the output is the tuple of their
        payloads.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`. ``error`` bit ``Fault.STOP``: the two beats joined
    differ in stop or data; those of ``i0`` are kept.

    Timing
    ------
    L = 0, II = 1: fires when both beats are visible and the output has a slot.
    Source: docs/timing.md section 3, ``zip``.

    """

    def __init__(self, *, params, t, config, payloads):
        super().__init__(params=params, t=t, config=config, payloads=payloads)
        self.expect(2, 1)

    def elaborate(self, platform):
        m = Module()
        a = self.i0.payload
        b = self.i1.payload
        o = self.o0
        m.d.comb += [
            o.valid.eq(self.i0.valid & self.i1.valid),
            self.i0.ready.eq(o.ready & self.i1.valid),
            self.i1.ready.eq(o.ready & self.i0.valid),
            o.payload.eq(Cat(a.as_value()[:-5], b.as_value()[:-5], a.stop, a.data)),
            self.error[Fault.STOP].eq(
                o.valid & o.ready & ((a.stop != b.stop) | (a.data != b.data))
            ),
        ]
        self.report(m, offers=o.valid)
        return m
