"""Setting how many rows of a tile are valid, and masks."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed

from ...machine.faults import Fault
from ...machine.limits import SIZE_BITS
from ..beat import is_done
from .unit import Unit


class RowOffset(Unit):
    """Keeps the first rows of each logical tile, as many as a second stream says, and clears the
    others; or fills all from a row, a column or a diagonal on.

    Members
    -------
    ``error`` bit ``Fault.STOP``: the stops of tile and count do not agree.

    Timing
    ------
    L = 0, II = 1: fires when both are visible and the output has a slot; the count is taken with
    the tile's last beat. Source: docs/timing.md section 3.3.
    """

    implements = "row_offset"

    def elaborate(self, platform):
        m = Module()
        t = self.t
        tile = self.tile.payload
        count = self.count.payload
        o = self.result
        band_row = Signal(SIZE_BITS)
        ends = Signal()
        wrong = Signal()
        fire = Signal()
        left = Signal(max(SIZE_BITS, len(count.value)))
        rows = Signal(range(t + 1))
        m.d.comb += [
            ends.eq(tile.stop >= 2),
            wrong.eq(
                self.tile.valid
                & self.count.valid
                & ends
                & ((tile.data != count.data) | (tile.stop != count.stop + Mux(is_done(tile), 0, 2)))
            ),
            o.valid.eq(self.tile.valid & self.count.valid & ~wrong),
            fire.eq(o.valid & o.ready),
            self.tile.ready.eq(fire),
            self.count.ready.eq(fire & ends),
            self.error[Fault.STOP].eq(wrong),
            left.eq(Mux(count.value > band_row, count.value - band_row, 0)),
            rows.eq(Mux(left < tile.rows, left, tile.rows)),
        ]
        with m.If(fire):
            m.d.sync += band_row.eq(Mux(ends, 0, band_row + Mux(tile.stop == 1, t, 0)))
        m.d.comb += [o.payload.eq(tile), o.payload.rows.eq(Mux(tile.data, rows, 0))]
        row_bits = len(tile.elements.as_value()) // t
        if self.kind.fill is None:
            kept = [Mux(r < rows, self._row(r, row_bits), 0) for r in range(t)]
        else:
            kept = self._filled(m, fire, band_row, row_bits)
            m.d.comb += o.payload.rows.eq(tile.rows)
        m.d.comb += o.payload.elements.as_value().eq(Cat(kept))
        self.report(m, offers=o.valid)
        return m

    def _row(self, r: int, bits: int) -> Value:
        return self.tile.payload.elements.as_value().word_select(r, bits)

    def _filled(self, m: Module, fire: Value, band_row: Value, row_bits: int) -> list[Value]:
        """Rows of the tile, with the filling where they do not count."""
        t = self.t
        tile = self.tile.payload
        count = self.count.payload.value
        bits = row_bits // t
        col = Signal(SIZE_BITS)
        with m.If(fire):
            m.d.sync += col.eq(Mux(tile.stop == 0, col + t, 0))
        sign = count[31] if len(count) == 32 else 0
        ends = {
            "rows": count - band_row,
            "cols": count - col,
            "diagonal": Cat(count, sign).as_signed() + band_row - col,
        }
        kept = Signal(signed(36))
        m.d.comb += kept.eq(ends[self.kind.along])
        fill = self.kind.fill >> 32 - bits
        filled = []
        for r in range(t):
            for c in range(t):
                places = {"rows": r, "cols": c, "diagonal": c - r}
                counts = kept > places[self.kind.along]
                valid = (r < tile.rows) & (c < tile.cols)
                word = self._row(r, row_bits).word_select(c, bits)
                filled.append(Mux(counts | ~valid, word, fill))
        return filled
