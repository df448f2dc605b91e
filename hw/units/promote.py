"""Inserting a dimension of size 1."""

from amaranth.hdl import Module, Mux, Signal

from ..beat import is_done, with_stop
from .unit import Unit


class Promote(Unit):
    """Inserts a dimension of size 1 at stop level ``level``.

    Timing
    ------
    Inner level: L = 0, II = 1. ``outermost``: a beat is held until the next one shows whether it is
    the last; with a beat held the unit fires when the next is visible and the output has a slot. A
    held Done needs a slot only. Source: docs/timing.md section 3, ``promote``.
    """

    implements = "promote"

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        level = self.settings.level
        outermost = self.settings.outermost
        held = Signal.like(beat)
        full = Signal()
        takes = self.data.valid & self.data.ready
        leaves = self.result.valid & self.result.ready
        leaving_done = is_done(held)
        last = is_done(beat) & ~leaving_done
        above = (beat.stop >= level) & ~is_done(beat)
        with m.If(outermost):
            m.d.comb += [
                self.result.valid.eq(full & (leaving_done | self.data.valid)),
                self.data.ready.eq(~full | (~leaving_done & self.result.ready)),
                self.result.payload.eq(with_stop(held, Mux(last, level, held.stop))),
            ]
        with m.Else():
            m.d.comb += [
                self.result.valid.eq(self.data.valid),
                self.data.ready.eq(self.result.ready),
                self.result.payload.eq(with_stop(beat, beat.stop + above)),
            ]
        m.d.sync += full.eq(outermost & (takes | (full & ~leaves)))
        with m.If(takes):
            m.d.sync += held.eq(beat)
        self.report(m, offers=self.result.valid)
        return m
