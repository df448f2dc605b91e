"""Setting how many rows of a tile are valid."""

from amaranth.hdl import Cat, Module, Mux, Signal

from ...machine.faults import Fault
from ...machine.limits import SIZE_BITS
from ..beat import is_done
from .unit import Unit


class RowOffset(Unit):
    """Keeps the first rows of each logical tile, as many as a second stream says, and clears the
    others.

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
        row_bits = len(tile.elements.as_value()) // t
        m.d.comb += [
            o.payload.eq(tile),
            o.payload.rows.eq(Mux(tile.data, rows, 0)),
            o.payload.elements.as_value().eq(
                Cat(
                    Mux(r < rows, tile.elements.as_value().word_select(r, row_bits), 0)
                    for r in range(t)
                )
            ),
        ]
        self.report(m, offers=o.valid)
        return m
