"""Inserting a dimension of size 1."""

from amaranth.hdl import Module, Mux, Signal, Value

from ..beat import is_done, with_stop
from .unit import Unit


class Promote(Unit):
    """Inserts a dimension of size 1 at stop level ``level``.

    Parameters
    ----------
    params : dict
        ``level``: the stop level inserted; ``outermost``: whether it lies outside all dimensions of
        the stream.
    t, config, payloads, configured
        See :class:`~penstock.hw.units.unit.Unit`; one input and one output of the same payload.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`.

    Timing
    ------
    Inner level: L = 0, II = 1. ``outermost``: a beat is held until the
    next one shows whether it is the last; with a beat held the unit
    fires when the next is visible and the output has a slot. A held
    Done needs a slot only. Source: docs/timing.md section 3,
    ``promote``.
    """

    kind = "promote"

    def __init__(self, *, params, **built):
        super().__init__(params=params, **built)
        if not 0 <= self.params["level"] <= 14:
            raise ValueError(f"Stop level must be from 0 to 14, not {self.params['level']!r}")

    def elaborate(self, platform):
        m = Module()
        outermost = self.setting("outermost")
        if isinstance(outermost, Value):
            with m.If(outermost):
                self._hold(m)
            with m.Else():
                self._raise(m)
        elif outermost:
            self._hold(m)
        else:
            self._raise(m)
        self.report(m, offers=self.result.valid)
        return m

    def _raise(self, m):
        beat = self.data.payload
        above = (beat.stop >= self.setting("level")) & ~is_done(beat)
        m.d.comb += [
            self.result.valid.eq(self.data.valid),
            self.data.ready.eq(self.result.ready),
            self.result.payload.eq(with_stop(beat, beat.stop + above)),
        ]

    def _hold(self, m):
        held = Signal.like(self.data.payload)
        full = Signal()
        leaving_done = is_done(held)
        last = is_done(self.data.payload) & ~leaving_done
        m.d.comb += [
            self.result.valid.eq(full & (leaving_done | self.data.valid)),
            self.data.ready.eq(~full | (~leaving_done & self.result.ready)),
            self.result.payload.eq(with_stop(held, Mux(last, self.setting("level"), held.stop))),
        ]
        with m.If(self.result.valid & self.result.ready):
            m.d.sync += full.eq(0)
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += [full.eq(1), held.eq(self.data.payload)]
