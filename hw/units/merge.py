"""Collecting the streams of several units."""

from amaranth.hdl import Cat, Module, Mux, Signal

from ...machine.faults import Fault
from ..beat import is_done
from .unit import Unit


class Merge(Unit):
    """Beat i comes from input i mod n; Done comes from all.

    Timing
    ------
    L = 0, II = 1: waits for a visible beat on the input whose turn it is and for a slot; a Done
    there waits for Done on all inputs, and the index returns to 0 after it. Source: docs/timing.md
    section 3, ``merge``.
    """

    implements = "merge"

    def elaborate(self, platform):
        m = Module()
        n = len(self.inputs)
        used = self.settings.n
        o = self.result
        index = Signal(range(n))
        done = Signal()
        visible = Signal()
        ended = Cat(is_done(i.payload) for i in self.inputs)
        there = Cat(i.valid for i in self.inputs)
        finished = (there & ended) | ~used
        m.d.comb += [
            visible.eq(there.bit_select(index, 1)),
            done.eq(finished.bit_select(index, 1)),
            o.valid.eq(Mux(done, finished.all(), visible)),
            self.error[Fault.STOP].eq(done & (there & ~ended & used).any()),
        ]
        with m.Switch(index):
            for k, i in enumerate(self.inputs):
                with m.Case(k):
                    m.d.comb += o.payload.eq(i.payload)
        for k, i in enumerate(self.inputs):
            ends = used[k] & finished.all()
            m.d.comb += i.ready.eq(o.ready & Mux(done, ends, index == k))
        with m.If(o.valid & o.ready):
            m.d.sync += index.eq(Mux(done | (index == sum(used) - 1), 0, index + 1))
        self.report(m, offers=o.valid)
        return m
