"""Putting a row below a tile's valid rows."""

from amaranth.hdl import Cat, Module, Mux, Signal

from ...machine.faults import Fault
from .unit import Unit


class RowAppend(Unit):
    """Appends a row to each logical tile: below its valid rows, in the first band that has room.

    Members
    -------
    ``error`` bits ``Fault.ROWS``: a tile without room; ``Fault.STOP``: tile and row have different
    numbers of columns.

    Timing
    ------
    L = 0, II = 1: fires when the tile, the row where it goes into this band, and a slot are there.
    Source: docs/timing.md section 3.3.
    """

    implements = "row_append"

    def elaborate(self, platform):
        m = Module()
        t = self.t
        tile = self.tile.payload
        row = self.row.payload
        o = self.result
        placed = Signal()  # the row lies in a band above
        takes = Signal()
        needs = Signal()
        wrong = Signal()
        crowded = Signal()
        fire = Signal()
        m.d.comb += [
            takes.eq(tile.data & ~placed & (tile.rows != t)),
            needs.eq(takes | ~tile.data),
            wrong.eq(
                self.tile.valid
                & needs
                & self.row.valid
                & Mux(
                    takes,
                    ~row.data | ((row.stop != 0) != (tile.stop != 0)),
                    row.data | (row.stop != tile.stop),
                )
            ),
            crowded.eq(self.tile.valid & tile.data & ~takes & ~placed & (tile.stop >= 2)),
            o.valid.eq(self.tile.valid & (~needs | self.row.valid) & ~wrong & ~crowded),
            fire.eq(o.valid & o.ready),
            self.tile.ready.eq(fire),
            self.row.ready.eq(fire & needs),
            self.error[Fault.ROWS].eq(crowded),
            self.error[Fault.STOP].eq(wrong),
        ]
        with m.If(fire & tile.data):
            m.d.sync += placed.eq((tile.stop < 2) & (placed | (takes & (tile.stop == 1))))
        row_bits = len(tile.elements.as_value()) // t
        first = row.elements.as_value()[:row_bits]
        elements = Cat(
            Mux(takes & (tile.rows == r), first, tile.elements.as_value().word_select(r, row_bits))
            for r in range(t)
        )
        m.d.comb += [
            o.payload.eq(tile),
            o.payload.elements.as_value().eq(elements),
            o.payload.rows.eq(tile.rows + takes),
            o.payload.cols.eq(Mux(takes & (row.cols > tile.cols), row.cols, tile.cols)),
        ]
        self.report(m, offers=o.valid)
        return m
