"""Repeating each beat."""

from amaranth.hdl import Module, Mux, ResetSignal, Signal

from ..beat import is_done, with_stop
from .unit import Unit


class Repeat(Unit):
    """Emits each beat ``count`` times, as a new innermost dimension.

    Members
    -------
    ``cfg.count``: 32 bits.

    Timing
    ------
    L = 0; one copy a cycle while the output has a slot; the beat is taken with its last copy (a
    beat without data is passed once). Source: docs/timing.md section 3, ``repeat``.
    """

    implements = "repeat"

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        copies = Signal(32)
        final = Signal(reset_less=True)  # the copy is the last of its beat
        last = Signal()
        moves = Signal()
        m.d.comb += [
            last.eq(~beat.data | final),
            moves.eq(self.copies.valid & self.copies.ready),
            self.copies.valid.eq(self.data.valid),
            self.data.ready.eq(self.copies.ready & last),
            self.copies.payload.eq(
                with_stop(beat, Mux(is_done(beat), beat.stop, Mux(last, beat.stop + 1, 0)))
            ),
        ]
        with m.If(moves):
            m.d.sync += copies.eq(Mux(last, 0, copies + 1))
        with m.If(ResetSignal(allow_reset_less=True) | (moves & last)):
            m.d.sync += final.eq(self.cfg.count == 1)
        with m.Elif(moves):
            m.d.sync += final.eq(copies + 2 == self.cfg.count)
        self.report(m, offers=self.copies.valid)
        return m
