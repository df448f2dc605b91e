"""Merging dimensions."""

from amaranth.hdl import Module, Mux, Signal

from ...machine.beat import STOP_DONE
from ...machine.faults import Fault
from ..beat import is_bare, is_done, with_stop
from .unit import Unit


class Flatten(Unit):
    """Merges the dimensions ``lo`` .. ``hi`` of a stream into one.

    Members
    -------
    ``error`` bit ``Fault.EMPTY``: an empty group that stands alone in its group, which has no form
    on the wire; without ``hold`` any empty part that ends a group.

    Timing
    ------
    L = 0, II = 1: takes and delivers in the same cycle; waits for a visible beat and a free slot.
    An empty part of the merged dimension is taken without a slot and leaves nothing. With ``hold``
    a register of one beat: a beat that ends a part (lo < stop <= hi) is taken into it without a
    slot and leaves when the next that is not dropped is visible; what is taken in that cycle leaves
    a cycle later. Source: docs/timing.md section 3, ``flatten``.
    """

    implements = "flatten"

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        stop = beat.stop
        lo = self.settings.lo
        hi = self.settings.hi
        hold = self.settings.hold
        last = Signal.like(stop, init=STOP_DONE)  # stop of the beat before
        part = Signal()
        bare = Signal()
        dropped = Signal()
        unwritten = Signal()
        merged = Signal.like(stop)
        m.d.comb += [
            part.eq((stop > lo) & (stop <= hi)),
            bare.eq(is_bare(beat)),
            dropped.eq(bare & part & ((lo == 0) | (last > lo))),
            unwritten.eq(bare & (stop > hi) & (last > lo) & (last <= hi)),
            merged.eq(Mux(stop > hi, stop - (hi - lo), Mux(part, lo, stop))),
        ]
        with m.If(is_done(beat)):
            m.d.comb += merged.eq(STOP_DONE)
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += last.eq(stop)
        opens = part & ~dropped & hold
        held = Signal.like(beat)
        full = Signal()
        opened = Signal()  # the held beat waits for the next
        ended = Signal(init=1)  # the last beat that was not dropped ends more than its group
        joins = Signal()
        stuck = Signal()
        takes = Signal()
        holds = Signal()
        leaves = self.result.valid & self.result.ready
        m.d.comb += [
            joins.eq(opened & is_bare(beat) & (beat.stop > hi)),
            stuck.eq(unwritten & ~opened & (~hold | (ended & (beat.stop > hi + 1)))),
            self.result.valid.eq(
                (full & ~opened) | (self.data.valid & ~dropped & ~stuck & (full | ~opens))
            ),
            self.data.ready.eq(~stuck & (dropped | (~full & opens) | self.result.ready)),
            takes.eq(self.data.valid & self.data.ready & ~dropped),
            holds.eq(takes & ~joins & (full | opens)),
            self.error[Fault.EMPTY].eq(self.data.valid & stuck),
        ]
        with m.If(full):
            m.d.comb += self.result.payload.eq(with_stop(held, Mux(joins, merged, held.stop)))
        with m.Else():
            m.d.comb += self.result.payload.eq(with_stop(beat, merged))
        m.d.sync += [
            full.eq(hold & (holds | (full & ~leaves))),
            opened.eq(hold & Mux(holds, opens, opened & ~leaves)),
        ]
        with m.If(takes):
            m.d.sync += ended.eq(beat.stop > hi + 1)
        with m.If(holds):
            m.d.sync += held.eq(with_stop(beat, merged))
        self.report(m, offers=self.result.valid)
        return m
