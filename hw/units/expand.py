"""Copying elements along the dimensions of another stream."""

from amaranth.hdl import Cat, Module, Mux, Signal

from ...machine.faults import Fault
from ..beat import is_done
from .unit import Unit


class Expand(Unit):
    """Copies each element of the data once for every element in the ``level`` inner dimensions of
    the reference.

    Members
    -------
    post : Out(post_layout(page_bits))
        The change of the reference count; only where ``scratchpad`` is not None.

    ``error`` bit ``Fault.STOP``: the stop of an element is not that of its last copy.

    Timing
    ------
    L = 0, II = 1: fires when both heads are visible and the output has a slot. A reference of stop
    ``level`` or more takes the element with it. Source: docs/timing.md section 3, ``expand``; paper
    section 3.
    """

    implements = "expand"

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        reference = self.reference.payload
        o = self.result
        both = Signal()
        ends = Signal()
        m.d.comb += [
            both.eq(self.data.valid & self.reference.valid),
            ends.eq(reference.stop >= self.settings.level),
            o.valid.eq(both),
            o.payload.eq(
                Cat(Mux(reference.data, beat.as_value()[:-5], 0), reference.stop, reference.data)
            ),
            self.data.ready.eq(self.reference.valid & ends & o.ready),
            self.reference.ready.eq(self.data.valid & o.ready),
            self.error[Fault.STOP].eq(
                both
                & (
                    (is_done(beat) != is_done(reference))
                    | (ends & (beat.stop != reference.stop))
                    | (reference.data & ~beat.data)
                )
            ),
        ]
        if self.held is not None:
            copied = both & o.ready & beat.data
            m.d.comb += [
                self.post.valid.eq(copied & self.settings.scratchpad),
                self.post.page.eq(self.page_of(beat)),
                self.post.delta.eq(reference.data - ends),
            ]
        self.report(m, offers=both)
        return m
