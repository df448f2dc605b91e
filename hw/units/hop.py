"""A switch input of an array's network."""

from amaranth.hdl import Cat, Module

from .unit import Unit


class Hop(Unit):
    """Copies each beat to ``n`` outputs.

    Timing
    ------
    L = 0, II = 1: fires when a beat is visible and all outputs have a free slot, so
    ``copies_k.valid`` depends on the other outputs' ``ready``. Source: docs/timing.md section 3,
    ``hop``.
    """

    implements = "hop"

    def elaborate(self, platform):
        m = Module()
        used = self.settings.n
        room = (Cat(o.ready for o in self.outputs) | ~used).all()
        m.d.comb += self.data.ready.eq(room)
        for x, o in zip(used, self.outputs, strict=True):
            m.d.comb += [o.valid.eq(self.data.valid & room & x), o.payload.eq(self.data.payload)]
        self.report(m, offers=self.data.valid)
        return m
