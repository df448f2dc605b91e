"""Moving the elements of a tile."""

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal, Value

from .unit import Unit


class Permute(Unit):
    """Transposes a tile, or turns its columns (a, b) into (-b, a).

    Timing
    ------
    L = 0, II = 1: fires when a tile is visible and the output has a slot. Source: docs/timing.md
    section 3.3.
    """

    implements = "permute"

    def elaborate(self, platform):
        m = Module()
        x = self.data.payload
        o = self.result
        halves = self.kind.half // self.t
        at = Signal(range(halves + 1))  # tiles of the row before this one, up to a half's
        first = at != halves
        m.d.comb += [o.valid.eq(self.data.valid), self.data.ready.eq(o.ready), o.payload.eq(x)]
        with m.If(o.valid & o.ready):
            m.d.sync += at.eq(Mux(x.stop == 0, at + first, 0))
        if self.kind.fn == "transpose":
            m.d.comb += [o.payload.rows.eq(x.cols), o.payload.cols.eq(x.rows)]
        words = x.elements.as_value()
        bits = len(words) // self.t**2

        elements = []
        for r, c in np.ndindex(self.t, self.t):
            row, column, negates = self._from(r, c, first)
            word = words.word_select(row * self.t + column, bits)
            valid = (r < x.rows) & (c < x.cols)
            elements.append(Cat(word[:-1], word[-1] ^ (valid & negates)))
        m.d.comb += o.payload.elements.as_value().eq(Cat(elements))
        self.report(m, offers=o.valid)
        return m

    def _from(self, r: int, c: int, first: Value) -> tuple[int, int, bool | Value]:
        """Row and column that an element comes from, and whether it is negated."""
        half = self.kind.half
        if self.kind.fn == "transpose":
            return c, r, False
        if self.kind.fn == "pairs":
            return r, c ^ 1, c % 2 == 0
        if half >= self.t:
            return r, c, first
        return r, (c + half if c < half else c - half if c < 2 * half else c), c < half
