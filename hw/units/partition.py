"""Sending units of a stream where a selector says."""

from amaranth.hdl import Cat, Module, Mux, Signal

from ...machine.beat import Selector
from ...machine.faults import Fault
from ..beat import is_done, with_stop
from .unit import Unit


class Partition(Unit):
    """Copies each unit of the data to the outputs whose bits the selector has set; with no bit the
    unit is dropped.

    Members
    -------
    post : Out(post_layout(page_bits))
        The change of the reference count, copies - 1, in the cycle of the copy; only where
        ``scratchpad`` is not None.

    ``error`` bit ``Fault.STOP``: a unit's end does not fit its selector.

    Timing
    ------
    L = 0, II = 1: fires when both heads are visible and every selected output has a free slot, so
    ``parts_k.valid`` depends on other outputs' ``ready``. The beat that ends a unit takes the
    selector with it. Source: docs/timing.md section 3, ``partition``; paper section 3.
    """

    implements = "partition"

    def __init__(self, **built):
        super().__init__(**built)
        self.n = self.kind.n
        self.expect("selector", self.payloads.inputs[1], Selector(self.n))

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        selector = self.selector.payload
        rank = self.settings.rank
        both = Signal()
        done = Signal()
        ends = Signal()
        fire = Signal()
        hot = Signal(self.n)
        room = Cat(o.ready for o in self.outputs)
        m.d.comb += [
            both.eq(self.data.valid & self.selector.valid),
            done.eq(is_done(beat)),
            ends.eq(beat.stop >= rank),
            hot.eq(Mux(done, self.settings.n, Mux(selector.data, selector.hot, 0))),
            fire.eq(both & (room | ~hot).all()),
            self.data.ready.eq(self.selector.valid & (room | ~hot).all()),
            self.selector.ready.eq(self.data.valid & ends & (room | ~hot).all()),
        ]
        kept = with_stop(beat, Mux(done | ~ends, beat.stop, rank))
        for k, o in enumerate(self.outputs):
            m.d.comb += [o.valid.eq(fire & hot[k]), o.payload.eq(kept)]
        empty = ~beat.data & selector.data
        unpaired = (ends & (beat.stop != (selector.stop + rank))) | (
            ~selector.data & (beat.data | ~ends)
        )
        unpaired |= (rank == 0) & empty
        m.d.comb += self.error[Fault.STOP].eq(
            both & ((done != is_done(selector)) | (~done & unpaired))
        )
        if self.held is not None:
            copies = sum(hot[k] for k in range(self.n))
            refers = beat.data & self.settings.scratchpad
            m.d.comb += [
                self.post.valid.eq(fire & refers),
                self.post.page.eq(self.page_of(beat)),
                self.post.delta.eq(copies - 1),
            ]
        self.report(m, offers=both)
        return m
