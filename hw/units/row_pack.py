"""Packing rows, or columns, into tiles."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.memory import Memory, ReadPort, WritePort

from ...machine.beat import STOP_DONE
from ...machine.faults import Fault
from ...machine.limits import SIZE_BITS
from ..beat import is_bare, is_done
from .unit import Unit


class _Group:
    """The open band and its group, and the effect of the beat at the input on them."""

    def __init__(self, t: int, depth: int):
        self.fill = Signal(range(t + 1))  # rows of the band
        self.at = Signal(range(depth + 1))  # tiles of the open row of tiles
        self.width = Signal(range(depth + 1))  # tiles of the band
        self.wide = Signal(SIZE_BITS)  # columns of the row of tiles, with the beat
        self.blank = Signal(SIZE_BITS, name="group_blank")  # columns of an empty band
        self.open_ = Signal()
        self.done = Signal()
        self.taken = Signal()  # a tile
        self.row_ends = Signal()
        self.ours = Signal(range(t + 1))  # rows of the tile
        self.filled = Signal(range(2 * t + 1))  # rows of the band with the beat
        self.closes = Signal()
        self.passes = Signal()  # leaves as it is
        self.room = Signal()  # a full band leaves, a row waits behind it
        self.has_band = Signal()
        self.owed = Signal(SIZE_BITS, reset_less=True)  # bands, the open one among them
        self.more_next = Signal(SIZE_BITS)  # empty bands to follow
        self.stop = Signal(4, name="group_stop")


class _Drain:
    """Output of the pack: a band, empty bands, or a beat without data."""

    def __init__(self, t: int, depth: int):
        self.starts = Signal()
        self.draining = Signal()
        self.drained = Signal(range(depth + 1))  # tiles; stays at its highest
        self.drained_next = Signal(range(depth + 1))
        self.in_band = Signal()
        self.band_width = Signal(range(depth + 1))
        self.band_rows = Signal(range(t + 1))
        self.band_end = Signal()
        self.blank_end = Signal()
        self.column = Signal(SIZE_BITS)
        self.blank = Signal(SIZE_BITS)  # columns of an empty band
        self.last = Signal()
        self.stop = Signal(4)
        self.leaving = Signal()
        self.leaving_stop = Signal(4)


class RowPack(Unit):
    """Concatenates the valid rows of the one-band tiles of a group into bands of t rows.

    Members
    -------
    ``cfg.bands``, ``cfg.cols``: 20 bits each. ``error`` bit ``Fault.ROWS``: rows that do not fit
    into the open band, or a band of more than ``depth`` tiles.

    Timing
    ------
    II = 1 while a band fills; a full band costs two cycles when the first row behind it comes, and
    drains a tile a cycle while the next fills. A group that ends in c drains from c + 1. The band
    is read one cycle ahead (block RAM). Source: docs/timing.md section 3.3.
    """

    implements = "row_pack"

    def __init__(self, *, t, payloads, **built):
        super().__init__(t=t, payloads=payloads, **built)
        self.depth = self.kind.depth  # of the memories; a unit may have less
        tile = payloads.inputs[0]
        self._tiles = Memory(
            shape=data.ArrayLayout(tile.element_bits * t, t), depth=self.depth, init=[]
        )
        self._extents = Memory(
            shape=tile.count_bits, depth=self.depth, init=[]
        )  # the other way: columns of each tile, or rows

    @property
    def _across(self) -> Value:
        """True if columns are packed."""
        return self.pick("along", lambda along: int(along == "cols"))

    def elaborate(self, platform):
        m = Module()
        m.submodules.tiles = self._tiles
        m.submodules.extents = self._extents
        tile_write = self._tiles.write_port(granularity=1)
        extent_write = self._extents.write_port()
        tile_out = self._tiles.read_port(transparent_for=[tile_write])
        extent_out = self._extents.read_port(transparent_for=[extent_write])
        group = _Group(self.t, self.depth)
        drain = _Drain(self.t, self.depth)
        self._accept(m, group, drain)
        self._count_bands(m, group, drain)
        self._measure(m, group)
        self._write(m, group, tile_write, extent_write)
        self._drain(m, group, drain)
        m.d.comb += [tile_out.addr.eq(drain.drained_next), extent_out.addr.eq(drain.drained_next)]
        self._deliver(m, drain, tile_out, extent_out)
        self.report(m, offers=self.result.valid)
        return m

    def _accept(self, m: Module, group: _Group, drain: _Drain) -> None:
        """Takes beats into the open band; gives the effect of each on the group."""
        t = self.t
        beat = self.data.payload
        level = self.settings.level
        across = self._across
        valid = Mux(across, beat.cols, beat.rows)
        before = Signal(4, init=STOP_DONE)
        ends_group = Signal()
        take = Signal()
        bare = Signal()
        full = Signal()
        taken = group.taken
        at = group.at
        m.d.comb += [
            group.done.eq(is_done(beat)),
            bare.eq(is_bare(beat)),
            full.eq(
                self.data.valid
                & beat.data
                & (at == 0)
                & (group.fill == t)
                & (valid != 0)
                & ~drain.leaving
            ),
            ends_group.eq(beat.stop >= level),
            self.data.ready.eq(
                ~drain.leaving
                & ~full
                & ~(drain.draining & (ends_group | (beat.data & (at >= drain.drained))))
            ),
            take.eq(self.data.valid & self.data.ready),
        ]
        # rows of the open row of tiles: those of its first one
        first = Signal(range(t + 1))
        with m.If(taken & (at == 0)):
            m.d.sync += first.eq(valid)
        m.d.comb += [
            group.ours.eq(Mux(at == 0, valid, first)),
            taken.eq(take & beat.data),
            group.row_ends.eq(beat.data & (beat.stop > across)),
            group.filled.eq(group.fill + Mux(group.row_ends, group.ours, 0)),
            group.passes.eq(
                take
                & (
                    group.done
                    | (bare & ends_group & ~group.open_ & (before > level) & (beat.stop > level))
                )
            ),
            group.closes.eq(take & ends_group & ~group.passes),
            group.room.eq(full & ~drain.draining),
            self.error[Fault.ROWS].eq(
                taken & ((group.fill + group.ours > t) | (at >= self.settings.depth))
            ),
        ]
        with m.If(take):
            m.d.sync += before.eq(beat.stop)

    def _count_bands(self, m: Module, group: _Group, drain: _Drain) -> None:
        """Count of the open band's rows, and of the empty bands that the group still owes."""
        at = group.at
        beat = self.data.payload
        owed = group.owed
        with m.If(group.taken):
            m.d.sync += [
                group.open_.eq(1),
                at.eq(Mux(group.row_ends, 0, at + 1)),
                group.fill.eq(group.filled),
            ]
            with m.If(group.row_ends):
                m.d.sync += group.width.eq(at + 1)
        with m.If(group.closes | group.passes):
            m.d.sync += [group.open_.eq(0), at.eq(0), group.fill.eq(0)]
        with m.If(group.closes | group.passes | ResetSignal(allow_reset_less=True)):
            m.d.sync += owed.eq(self.cfg.bands)
        with m.Elif(group.room & owed.any()):
            m.d.sync += owed.eq(owed - 1)
        ours = group.row_ends & group.ours.any()
        m.d.comb += [
            group.has_band.eq(group.fill.any() | ours),
            group.more_next.eq(owed - (group.has_band & owed.any())),
            drain.starts.eq(group.room | (group.closes & (group.has_band | owed.any()))),
            group.stop.eq(beat.stop - self.settings.level + 2),
        ]
        with m.If(group.room):
            m.d.sync += group.fill.eq(0)

    def _measure(self, m: Module, group: _Group) -> None:
        """The columns of an empty band: those of the group's last row of tiles that has rows; where
        none has, of its last one.
        """
        beat = self.data.payload
        cols = Mux(self._across, beat.rows, beat.cols)
        wide = Signal(SIZE_BITS, name="wide_before")
        blank = Signal(SIZE_BITS, name="blank_before")
        seen = Signal()
        some = Signal()
        measures = Signal()
        m.d.comb += [
            group.wide.eq(cols + Mux(group.at == 0, 0, wide)),
            measures.eq(group.taken & group.row_ends & (group.ours.any() | ~some)),
            group.blank.eq(Mux(measures, group.wide, Mux(seen, blank, self.cfg.cols))),
        ]
        with m.If(group.taken):
            m.d.sync += wide.eq(group.wide)
        with m.If(measures):
            m.d.sync += blank.eq(group.wide)
        with m.If(group.closes | group.passes):
            m.d.sync += [seen.eq(0), some.eq(0)]
        with m.Elif(group.taken):
            m.d.sync += [seen.eq(seen | group.row_ends), some.eq(some | group.ours.any())]

    def _write(
        self, m: Module, group: _Group, tile_write: WritePort, extent_write: WritePort
    ) -> None:
        """The rows of a tile, below those of the band."""
        t = self.t
        beat = self.data.payload
        bits = len(beat.elements.as_value()) // t**2
        cells = [
            [beat.elements.as_value().word_select(r * t + c, bits) for c in range(t)]
            for r in range(t)
        ]
        columns = zip(*cells, strict=True)
        rows = [
            Mux(self._across, Cat(column), Cat(row))
            for row, column in zip(cells, columns, strict=True)
        ]
        m.d.comb += [
            tile_write.addr.eq(group.at),
            extent_write.addr.eq(group.at),
            extent_write.data.eq(Mux(self._across, beat.rows, beat.cols)),
            extent_write.en.eq(group.taken & (group.ours != 0)),
        ]
        with m.Switch(group.fill):
            for f in range(t):
                with m.Case(f):
                    for r in range(f, t):
                        m.d.comb += [
                            tile_write.data[r].eq(rows[r - f]),
                            tile_write.en[r].eq(group.taken & (group.ours > r - f)),
                        ]

    def _drain(self, m: Module, group: _Group, drain: _Drain) -> None:
        """Drain the open band, then empty ones; a beat without data leaves as it is."""
        with m.If(group.passes | (group.closes & ~drain.starts)):
            stop = Mux(group.done, STOP_DONE, group.stop)
            m.d.sync += [drain.leaving.eq(1), drain.leaving_stop.eq(stop)]
        with m.Elif(self.result.ready):
            m.d.sync += drain.leaving.eq(0)
        delivers = Signal()
        more = Signal(SIZE_BITS)
        column = drain.column
        m.d.comb += [
            delivers.eq(drain.draining & self.result.ready),
            drain.band_end.eq(drain.drained + 1 == drain.band_width),
            drain.blank_end.eq(column + self.t >= self.cfg.cols),
            drain.last.eq(
                Mux(drain.in_band, drain.band_end & (more == 0), drain.blank_end & (more == 1))
            ),
            # what starts is read at 0: nothing does while a band drains
            drain.drained_next.eq(
                Mux(drain.draining, drain.drained + (delivers & ~drain.drained.all()), 0)
            ),
        ]
        m.d.sync += drain.drained.eq(drain.drained_next)
        with m.If(drain.starts):
            m.d.sync += [
                drain.draining.eq(1),
                drain.in_band.eq(group.room | group.has_band),
                drain.band_width.eq(Mux(group.taken, group.at + 1, group.width)),
                drain.band_rows.eq(Mux(group.room, self.t, group.filled)),
                drain.stop.eq(Mux(group.room, 1, group.stop)),
                more.eq(Mux(group.room, 0, group.more_next)),
                drain.blank.eq(group.blank),
                column.eq(0),
            ]
        with m.Elif(delivers):
            with m.If(drain.in_band):
                m.d.sync += drain.in_band.eq(~drain.band_end)
            with m.Else():
                m.d.sync += [
                    column.eq(Mux(drain.blank_end, 0, column + self.t)),
                    more.eq(more - drain.blank_end),
                ]
            with m.If(drain.last):
                m.d.sync += drain.draining.eq(0)

    def _deliver(self, m: Module, drain: _Drain, tile_out: ReadPort, extent_out: ReadPort) -> None:
        """A tile of the band, an empty one, or a beat without data."""
        t = self.t
        o = self.result.payload
        in_band = drain.in_band
        bits = len(o.elements.as_value()) // t**2
        left = Signal(SIZE_BITS)
        m.d.comb += [
            self.result.valid.eq(drain.draining | drain.leaving),
            left.eq(Mux(drain.blank > drain.column, drain.blank - drain.column, 0)),
        ]
        # rows packed together may differ in their columns
        within = [c < extent_out.data for c in range(t)]
        valid = [[in_band & (r < drain.band_rows) & within[c] for c in range(t)] for r in range(t)]
        stored = [
            [Mux(valid[r][c], tile_out.data[r].word_select(c, bits), 0) for c in range(t)]
            for r in range(t)
        ]
        stored = [
            [Mux(self._across, stored[c][r], stored[r][c]) for c in range(t)] for r in range(t)
        ]
        packed = Mux(in_band, drain.band_rows, 0)
        other = Mux(in_band, extent_out.data, Mux(left < t, left, t))
        with m.If(drain.draining):
            m.d.comb += [
                o.data.eq(1),
                o.rows.eq(Mux(self._across, other, packed)),
                o.cols.eq(Mux(self._across, packed, other)),
                o.stop.eq(
                    Mux(drain.last, drain.stop, Mux(in_band, drain.band_end, drain.blank_end))
                ),
                o.elements.as_value().eq(Cat(Cat(row) for row in stored)),
            ]
        with m.Else():
            m.d.comb += o.stop.eq(drain.leaving_stop)
