"""Dealing a stream to several units."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal

from ..beat import is_done
from .unit import Unit


class Split(Unit):
    """Beat i goes to output i mod n; Done goes to all.

    Timing
    ------
    L = 0, II = 1: waits for a visible beat and a slot of the output it goes to; Done waits for a
    slot of every output, and the index returns to 0 after it. Source: docs/timing.md section 3,
    ``split``.
    """

    implements = "split"

    def elaborate(self, platform):
        m = Module()
        n = len(self.outputs)
        used = self.settings.n
        index = Signal(range(n))
        done = Signal()
        ready = Cat(o.ready for o in self.outputs) | ~used
        m.d.comb += [
            done.eq(is_done(self.data.payload)),
            self.data.ready.eq(Mux(done, ready.all(), Array(ready)[index])),
        ]
        for k, o in enumerate(self.outputs):
            m.d.comb += [
                o.valid.eq(self.data.valid & Mux(done, used[k] & ready.all(), index == k)),
                o.payload.eq(self.data.payload),
            ]
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += index.eq(Mux(done | (index == sum(used) - 1), 0, index + 1))
        self.report(m, offers=self.data.valid)
        return m
