"""Merging dimensions."""

from amaranth.hdl import Module, Mux, Signal

from ...machine.beat import STOP_DONE
from ...machine.faults import Fault
from ..beat import is_bare, is_done, with_stop
from .unit import Unit, chosen


class Flatten(Unit):
    """Merges the dimensions ``lo`` .. ``hi`` of a stream into one.

    Parameters
    ----------
    params : dict
        ``lo``, ``hi``: innermost and outermost dimension merged.
    t, config, payloads, configured
        See :class:`~penstock.hw.units.unit.Unit`; one input and one
        output of the same payload.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`. ``error`` bit
    ``Fault.EMPTY``: an empty group at the end of a merged dimension of
    groups, which has no form on the wire.

    Timing
    ------
    L = 0, II = 1: takes and delivers in the same cycle; waits for a
    visible beat and a free slot. An empty group inside the merged
    dimension is taken without a slot and leaves nothing. Source:
    docs/timing.md section 3, ``flatten``.

    """

    kind = "flatten"

    def __init__(self, *, params, **built):
        super().__init__(params=params, **built)
        lo = self.params["lo"]
        hi = self.params["hi"]
        if not 0 <= lo <= hi <= 14:
            raise ValueError(
                f"Dimensions lo and hi must satisfy 0 <= lo <= hi <= 14, not {lo!r} and {hi!r}"
            )

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        stop = self.data.payload.stop
        lo = self.setting("lo")
        hi = self.setting("hi")
        merged = Mux(stop <= lo, stop, Mux(stop <= hi, lo, stop - (hi - lo)))
        last = Signal.like(stop, init=STOP_DONE)  # stop of the beat before
        inside = Signal()
        dropped = Signal()
        stuck = Signal()
        m.d.comb += [
            inside.eq(is_bare(beat) & (stop > lo)),
            dropped.eq(inside & (stop <= hi) & chosen(lo == 0, 1, last > lo)),
            stuck.eq(inside & (stop > hi) & chosen(lo == 0, 0, (last > lo) & (last <= hi))),
            self.result.valid.eq(self.data.valid & ~dropped & ~stuck),
            self.data.ready.eq((self.result.ready | dropped) & ~stuck),
            self.result.payload.eq(with_stop(beat, Mux(is_done(beat), stop, merged))),
            self.error[Fault.EMPTY].eq(self.data.valid & stuck),
        ]
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += last.eq(stop)
        self.report(m, offers=self.result.valid)
        return m
