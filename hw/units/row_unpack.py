"""Streaming the rows or columns of tiles."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.memory import Memory, ReadPort, WritePort

from ...machine.faults import Fault
from ...machine.limits import SIZE_BITS
from ..beat import is_done
from .unit import Unit


class RowUnpack(Unit):
    """Streams the rows of each logical tile one by one, as tiles of one row; or its columns, as
    tiles of one column.

    Members
    -------
    ``cfg.rows``: 20 bits. ``error`` bit ``Fault.ROWS``: a band of more than ``depth`` tiles.

    Timing
    ------
    One tile a cycle leaves; two bands are kept, so that one is taken while another leaves. The rows
    of a band leave from the cycle after its last tile; with ``mask`` the last row of a band inside
    a logical tile waits until a band with rows, or the tile's end, has come. Bands are read one
    cycle ahead (block RAM). Source: docs/timing.md section 3.3.
    """

    implements = "row_unpack"

    def __init__(self, *, t, payloads, **built):
        super().__init__(t=t, payloads=payloads, **built)
        self.depth = self.kind.depth  # of the memories; a unit may have less
        tile = payloads.inputs[0]
        self._tiles = Memory(
            shape=data.ArrayLayout(tile.element_bits * t, t), depth=2 * self.depth, init=[]
        )
        self._extents = Memory(
            shape=tile.count_bits, depth=2 * self.depth, init=[]
        )  # the other way: columns of each tile, or rows

    @property
    def _across(self) -> Value:
        """True if columns leave."""
        return self.pick("along", lambda along: int(along == "cols"))

    def elaborate(self, platform):
        m = Module()
        t = self.t
        depth = self.depth
        m.submodules.tiles = self._tiles
        m.submodules.extents = self._extents
        tile_write = self._tiles.write_port()
        extent_write = self._extents.write_port()
        tile_out = self._tiles.read_port(transparent_for=[tile_write])
        extent_out = self._extents.read_port(transparent_for=[extent_write])

        # Complete bands: two places, `count` in use from `head` on; width 0 is a bare stop.
        head = Signal()
        count = Signal(2)
        band = data.StructLayout(
            {"width": range(depth + 1), "valid": range(t + 1), "leave": range(t + 1), "end": 4}
        )
        bands = [Signal(band, name=f"band{k}") for k in range(2)]
        done = Signal()
        m.d.comb += done.eq(is_done(self.data.payload))
        pushes = self._collect(m, tile_write, extent_write, bands, head, count, done)
        self._emit(m, tile_out, extent_out, bands, head, count, done, pushes)
        self.report(m, offers=self.result.valid)
        return m

    def _collect(
        self,
        m: Module,
        tile_write: WritePort,
        extent_write: WritePort,
        bands: list[data.View],
        head: Signal,
        count: Signal,
        done: Signal,
    ) -> Signal:
        """Stores tiles and notes the bands that they complete; whether one is."""
        t = self.t
        depth = self.depth
        beat = self.data.payload
        at = Signal(range(depth + 1))
        band_row = Signal(SIZE_BITS)
        which = Signal()
        take = Signal()
        leave = Signal(range(t + 1))
        left = Signal(SIZE_BITS)
        void = Mux(self.settings.mask, beat.rows == 0, 0)  # without a row no column is valid
        ours = Mux(self._across, Mux(void, 0, beat.cols), beat.rows)
        theirs = Mux(self._across, beat.rows, beat.cols)
        first = Signal(range(t + 1))  # of a band's first tile
        valid_rows = Signal(range(t + 1))
        with m.If(take & beat.data & (at == 0)):
            m.d.sync += first.eq(ours)
        leaves = Mux(self.settings.mask, valid_rows, Mux(left < t, left, t))
        m.d.comb += [
            valid_rows.eq(Mux(at == 0, ours, first)),
            which.eq(head ^ count[0]),
            take.eq(self.data.valid & ~done & (count != 2)),
            self.data.ready.eq(Mux(done, self.result.ready & (count == 0), count != 2)),
            left.eq(Mux(self.cfg.rows > band_row, self.cfg.rows - band_row, 0)),
            leave.eq(leaves),
            self.error[Fault.ROWS].eq(take & beat.data & (at >= self.settings.depth)),
        ]
        complete = Signal()
        ends_before = Signal()
        pushes = Signal()
        m.d.comb += [
            complete.eq(take & beat.data & (beat.stop != 0)),
            ends_before.eq(
                complete
                & (leave == 0)
                & (beat.stop >= 2)
                & (count != 0)
                & (Array(b.end for b in bands)[~which] == 1)
            ),
            pushes.eq(
                Mux(
                    beat.data,
                    complete & ((leave != 0) | (beat.stop >= 2)) & ~ends_before,
                    take & (beat.stop >= 2),
                )
            ),
            tile_write.addr.eq(at + Mux(which, depth, 0)),
            tile_write.en.eq(take & beat.data),
            tile_write.data.eq(beat.elements.as_value()),
            extent_write.addr.eq(tile_write.addr),
            extent_write.en.eq(tile_write.en),
            extent_write.data.eq(theirs),
        ]
        with m.If(take & beat.data):
            m.d.sync += at.eq(Mux(complete, 0, at + 1))
        with m.If(complete):
            m.d.sync += band_row.eq(Mux(beat.stop >= 2, 0, band_row + t))
        for k, b in enumerate(bands):
            with m.If(pushes & (which == k)):
                m.d.sync += [
                    b.width.eq(Mux(beat.data & (leave != 0), at + 1, 0)),
                    b.valid.eq(valid_rows),
                    b.leave.eq(leave),
                    b.end.eq(beat.stop),
                ]
            with m.If(ends_before & (which != k)):
                m.d.sync += b.end.eq(beat.stop)
        return pushes

    def _emit(
        self,
        m: Module,
        tile_out: ReadPort,
        extent_out: ReadPort,
        bands: list[data.View],
        head: Signal,
        count: Signal,
        done: Signal,
        pushes: Signal,
    ) -> None:
        """The rows of the band at the head."""
        depth = self.depth
        beat = self.data.payload
        row = Signal(range(self.t + 1))
        col = Signal(range(depth + 1))
        col_next = Signal(range(depth + 1))
        now = Signal(bands[0].shape())
        bare = Signal()
        last_row = Signal()
        row_ends = Signal()
        waits = Signal()
        delivers = Signal()
        pops = Signal()
        head_next = Signal()
        last_of_some = ~bare & last_row & (now.end == 1) & (count == 1)
        m.d.comb += [
            now.eq(Mux(head, bands[1].as_value(), bands[0].as_value())),
            bare.eq(now.width == 0),
            last_row.eq(row + 1 == now.leave),
            row_ends.eq(col + 1 == now.width),
            waits.eq(Mux(self.settings.mask, last_of_some, 0)),
            delivers.eq(self.result.valid & self.result.ready & (count != 0)),
            pops.eq(delivers & (bare | (row_ends & last_row))),
            head_next.eq(head ^ pops),
            col_next.eq(Mux(pops | (delivers & row_ends), 0, col + delivers)),
        ]
        place = Signal.like(tile_out.addr)  # of what is read: tile `col` of the band
        with m.If(pops):
            m.d.comb += tile_out.addr.eq(Mux(head, 0, depth))
        with m.Elif(delivers & row_ends):
            m.d.comb += tile_out.addr.eq(Mux(head, depth, 0))
        with m.Else():
            m.d.comb += tile_out.addr.eq(Mux(delivers, place + 1, place))
        m.d.comb += extent_out.addr.eq(tile_out.addr)
        m.d.sync += place.eq(tile_out.addr)
        m.d.sync += [count.eq(count + pushes - pops), head.eq(head_next), col.eq(col_next)]
        with m.If(pops):
            m.d.sync += row.eq(0)
        with m.Elif(delivers & row_ends):
            m.d.sync += row.eq(row + 1)

        o = self.result.payload
        valid = Signal()
        m.d.comb += [
            self.result.valid.eq(Mux(count != 0, ~waits, self.data.valid & done)),
            valid.eq(row < now.valid),
        ]
        with m.If(count == 0):
            m.d.comb += o.eq(beat)
        with m.Elif(bare):
            m.d.comb += o.stop.eq(now.end + 1)
        with m.Else():
            self._row(m, tile_out, extent_out, row, valid)
            m.d.comb += o.stop.eq(
                Mux(~row_ends, self._across, Mux(last_row & (now.end >= 2), now.end + 1, 2))
            )

    def _row(
        self, m: Module, tiles: ReadPort, extents: ReadPort, row: Signal, valid: Signal
    ) -> None:
        """One row of a stored tile."""
        t = self.t
        o = self.result.payload
        line = Signal(len(tiles.data[0]))
        bits = len(line) // t
        across = self._across
        column = Cat(tiles.data[r].word_select(row, bits) for r in range(t))
        down = Cat(Cat(line.word_select(r, bits), Const(0, bits * (t - 1))) for r in range(t))
        along = Cat(line, Const(0, len(line) * (t - 1)))
        m.d.comb += [
            line.eq(Mux(valid, Mux(across, column, tiles.data[row]), 0)),
            o.elements.as_value().eq(Mux(across, down, along)),
            o.rows.eq(Mux(across, extents.data, valid)),
            o.cols.eq(Mux(across, valid, extents.data)),
            o.data.eq(1),
        ]
