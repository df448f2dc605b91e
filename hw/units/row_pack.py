"""Packing rows, or columns, into tiles."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.memory import Memory

from ...machine.beat import STOP_DONE
from ...machine.faults import Fault
from ...machine.limits import SIZE_BITS
from ..beat import is_bare, is_done
from .unit import Unit

__all__ = ["RowPack"]


class RowPack(Unit):
    """Concatenates the valid rows of the one-band tiles of a group into bands of t rows.

    Parameters
    ----------
    params : dict
        ``depth``: tiles of a band, at most; ``level``: stop level that ends a group; ``bands``:
        bands of the result, 0 if known at run time only; ``cols``: columns of the result in
        elements (both run time); optional ``along``: ``cols`` for columns: a band is a column of
        tiles then, and what is said of rows holds of columns (``cols``: rows of the result).
    t, config, payloads
        See :class:`~penstock.hw.units.unit.Unit`; one input and one output of the same tiles.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`; ``cfg.bands``, ``cfg.cols``: 20 bits each. ``error``
    bit ``Fault.ROWS``: rows that do not fit into the open band, or a band of more than ``depth``
    tiles.

    Timing
    ------
    II = 1 while a band fills; a full band costs two cycles when the first row behind it comes, and
    drains a tile a cycle while the next fills. A group that ends in c drains from c + 1. The band
    is read one cycle ahead (block RAM). Source: docs/timing.md section 3.3.

    """

    kind = "row_pack"

    def __init__(self, *, params, t, config, payloads):
        super().__init__(params=params, t=t, config=config, payloads=payloads)
        self.depth = params["depth"]
        self.level = params["level"]
        self.across = params.get("along") == "cols"
        if self.depth < 1:
            raise ValueError(f"Depth must be at least 1, not {self.depth!r}")
        if not 2 <= self.level <= 14:
            raise ValueError(f"Level must be from 2 to 14, not {self.level!r}")
        tile = payloads.inputs[0]
        self._tiles = Memory(
            shape=data.ArrayLayout(tile.element_bits * t, t), depth=self.depth, init=[]
        )
        self._extents = Memory(
            shape=tile.count_bits, depth=self.depth, init=[]
        )  # the other way: columns of each tile, or rows

    @classmethod
    def cfg_layout(cls, params):
        return {"bands": SIZE_BITS, "cols": SIZE_BITS}

    def elaborate(self, platform):
        m = Module()
        t = self.t
        beat = self.data.payload
        level = self.level
        m.submodules.tiles = self._tiles
        m.submodules.extents = self._extents
        valid, theirs = (
            (Mux(beat.rows == 0, 0, beat.cols), beat.rows)
            if self.across
            else (beat.rows, beat.cols)
        )
        tile_write = self._tiles.write_port(granularity=1)
        extent_write = self._extents.write_port()
        tile_out = self._tiles.read_port(transparent_for=[tile_write])
        extent_out = self._extents.read_port(transparent_for=[extent_write])

        # The open band and the group.
        fill = Signal(range(t + 1))
        at = Signal(range(self.depth + 1))
        width = Signal(range(self.depth + 1))
        gone = Signal(SIZE_BITS)  # bands of the group that have left
        open_ = Signal()
        before = Signal(4, init=STOP_DONE)
        leaving = Signal()
        leaving_stop = Signal(4)
        draining = Signal()
        drained = Signal(SIZE_BITS)
        full = Signal()
        ends_group = Signal()
        take = Signal()
        done = Signal()
        bare = Signal()
        m.d.comb += [
            done.eq(is_done(beat)),
            bare.eq(is_bare(beat)),
            full.eq(
                self.data.valid & beat.data & (at == 0) & (fill == t) & (valid != 0) & ~leaving
            ),
            ends_group.eq(beat.stop >= level),
            self.data.ready.eq(
                ~leaving & ~full & ~(draining & (ends_group | (beat.data & (at >= drained))))
            ),
            take.eq(self.data.valid & self.data.ready),
        ]
        taken = Signal()
        row_ends = Signal()
        closes = Signal()
        passes = Signal()
        # rows of the open row of tiles: those of its first one
        first = Signal(range(t + 1))
        ours = Signal(range(t + 1))
        with m.If(taken & (at == 0)):
            m.d.sync += first.eq(valid)
        m.d.comb += ours.eq(Mux(at == 0, valid, first))
        filled = Signal(range(2 * t + 1))
        m.d.comb += [
            taken.eq(take & beat.data),
            row_ends.eq(beat.data & (beat.stop > int(self.across))),
            filled.eq(fill + Mux(row_ends, ours, 0)),
            passes.eq(
                take
                & (done | (bare & ends_group & ~open_ & (before > level) & (beat.stop > level)))
            ),
            closes.eq(take & ends_group & ~passes),
            self.error[Fault.ROWS].eq(taken & ((fill + ours > t) | (at >= self.depth))),
        ]
        with m.If(take):
            m.d.sync += before.eq(beat.stop)
        with m.If(taken):
            m.d.sync += [open_.eq(1), at.eq(Mux(row_ends, 0, at + 1)), fill.eq(filled)]
            with m.If(row_ends):
                m.d.sync += width.eq(at + 1)
        with m.If(closes | passes):
            m.d.sync += [open_.eq(0), at.eq(0), fill.eq(0), gone.eq(0)]
        bits = len(beat.elements.as_value()) // t**2
        cells = [
            [beat.elements.as_value().word_select(r * t + c, bits) for c in range(t)]
            for r in range(t)
        ]
        rows = [Cat(row) for row in (zip(*cells, strict=False) if self.across else cells)]
        m.d.comb += [
            tile_write.addr.eq(at),
            extent_write.addr.eq(at),
            extent_write.data.eq(theirs),
            extent_write.en.eq(taken & (ours != 0)),
        ]
        with m.Switch(fill):
            for f in range(t):
                with m.Case(f):
                    for r in range(f, t):
                        m.d.comb += [
                            tile_write.data[r].eq(rows[r - f]),
                            tile_write.en[r].eq(taken & (ours > r - f)),
                        ]

        # What drains: the open band, then empty ones.
        starts = Signal()
        has_band = Signal()
        more_next = Signal(SIZE_BITS)
        in_band = Signal()
        band_width = Signal.like(width)
        band_rows = Signal.like(fill)
        stop = Signal(4)
        more = Signal(SIZE_BITS)
        column = Signal(SIZE_BITS)
        room = Signal()
        group_stop = Signal(4)
        m.d.comb += [
            room.eq(full & ~draining),
            has_band.eq(filled != 0),
            more_next.eq(
                Mux(self.cfg.bands > gone + has_band, self.cfg.bands - gone - has_band, 0)
            ),
            starts.eq(room | (closes & (has_band | (more_next != 0)))),
            group_stop.eq(beat.stop - level + 2),
        ]
        with m.If(room):
            m.d.sync += [fill.eq(0), gone.eq(gone + 1)]
        with m.If(passes | (closes & ~starts)):
            m.d.sync += [leaving.eq(1), leaving_stop.eq(Mux(done, STOP_DONE, group_stop))]
        with m.Elif(self.result.ready):
            m.d.sync += leaving.eq(0)
        delivers = Signal()
        band_end = Signal()
        blank_end = Signal()
        last = Signal()
        drained_next = Signal.like(drained)
        m.d.comb += [
            delivers.eq(draining & self.result.ready),
            band_end.eq(drained + 1 == band_width),
            blank_end.eq(column + t >= self.cfg.cols),
            last.eq(Mux(in_band, band_end & (more == 0), blank_end & (more == 1))),
            drained_next.eq(Mux(starts, 0, drained + delivers)),
            tile_out.addr.eq(drained_next),
            extent_out.addr.eq(drained_next),
        ]
        m.d.sync += drained.eq(drained_next)
        with m.If(starts):
            m.d.sync += [
                draining.eq(1),
                in_band.eq(room | has_band),
                band_width.eq(Mux(taken, at + 1, width)),
                band_rows.eq(Mux(room, t, filled)),
                stop.eq(Mux(room, 1, group_stop)),
                more.eq(Mux(room, 0, more_next)),
                column.eq(0),
            ]
        with m.Elif(delivers):
            with m.If(in_band):
                m.d.sync += in_band.eq(~band_end)
            with m.Else():
                m.d.sync += [column.eq(Mux(blank_end, 0, column + t)), more.eq(more - blank_end)]
            with m.If(last):
                m.d.sync += draining.eq(0)

        o = self.result.payload
        left = Signal(SIZE_BITS)
        m.d.comb += [self.result.valid.eq(draining | leaving), left.eq(self.cfg.cols - column)]
        with m.If(draining):
            within = [
                c < extent_out.data for c in range(t)
            ]  # rows packed together may differ in their columns
            stored = [
                [
                    Mux(
                        in_band & (r < band_rows) & within[c],
                        tile_out.data[r].word_select(c, bits),
                        0,
                    )
                    for c in range(t)
                ]
                for r in range(t)
            ]
            if self.across:
                stored = zip(*stored, strict=False)
            packed, other = (o.cols, o.rows) if self.across else (o.rows, o.cols)
            m.d.comb += [
                o.data.eq(1),
                packed.eq(Mux(in_band, band_rows, 0)),
                other.eq(Mux(in_band, extent_out.data, Mux(left < t, left, t))),
                o.stop.eq(Mux(last, stop, Mux(in_band, band_end, blank_end))),
                o.elements.as_value().eq(Cat(Cat(row) for row in stored)),
            ]
        with m.Else():
            m.d.comb += o.stop.eq(leaving_stop)
        self.report(m, offers=self.result.valid)
        return m
