"""Splitting a dimension into chunks."""

from amaranth.hdl import Const, Module, Mux, Signal, Value

from ...machine.beat import STOP_DONE, Tile
from ..beat import is_done, with_stop
from .unit import Unit


class Reshape(Unit):
    """Splits dimension ``dim`` into chunks of ``chunk`` units, a partial one padded on request.

    Members
    -------
    ``cfg.chunk``: 32 bits, ``cfg.pad_rows``, ``cfg.pad_cols``: 16 bits each.

    Timing
    ------
    L = 0, II = 1; one pad beat a cycle while the output has a slot. Nothing is taken while pads
    leave: the beat that ends a partial chunk is taken before them, a Done in a partial chunk in the
    cycle after the last at the earliest. Source: docs/timing.md section 3, ``reshape``.
    """

    implements = "reshape"

    @property
    def _has_flags(self) -> bool:
        return "padding" in self.output_names

    def _flag_room(self) -> Value:
        """True if the padding stream has a slot, or there is none."""
        if not self._has_flags:
            return Const(1)
        return self.padding.ready | ~self.settings.flags_given

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        o = self.result
        dim = self.settings.dim
        pad = self.settings.pad
        count = Signal(32)  # units of the open chunk that have left
        sent = Signal()  # the beat that ends a partial chunk has left, its pads have not
        ended = Signal(4)  # its stop
        done = Signal()
        ends = Signal()
        outer = Signal()
        fills = Signal()
        fire = Signal()
        offered = Signal()
        room = Signal()
        flag_ready = self._flag_room()
        m.d.comb += [
            done.eq(is_done(beat)),
            ends.eq(beat.stop >= dim),
            outer.eq(beat.stop > dim),
            fills.eq(count + 1 == self.cfg.chunk),
            offered.eq(self.data.valid | sent),
            room.eq(o.ready & flag_ready),
            o.valid.eq(offered & flag_ready),
            fire.eq(offered & room),
        ]
        padding = Signal()
        full = self._full(m, beat, dim)
        m.d.comb += padding.eq(pad & (sent | (~full & outer & (count != 0))))
        self.row = Signal(16, name="row")
        self.column = Signal(16, name="column")
        row_end, unit_end = self._position(m, padding & fire)
        with m.If(padding):
            last = Mux(sent, ended + 1, Mux(done, dim + 1, beat.stop + 1))
            stop = Mux(unit_end, Mux(fills, last, dim), row_end)
            m.d.comb += self._pad(o.payload)
            m.d.comb += [o.payload.stop.eq(stop), o.payload.data.eq(not self.kind.bare)]
            # a bare beat goes with the first pad beat
            m.d.comb += self.data.ready.eq(room & ~sent & ~done)
            with m.If(fire & ~sent & ~done):
                m.d.sync += [sent.eq(1), ended.eq(beat.stop)]
            with m.If(fire & unit_end):
                m.d.sync += count.eq(Mux(fills, 0, count + 1))
                with m.If(fills):
                    m.d.sync += sent.eq(0)
        with m.Elif(done):
            m.d.comb += [o.payload.eq(beat), self.data.ready.eq(room)]
            with m.If(fire):
                m.d.sync += count.eq(0)
        with m.Else():
            partial = Signal()
            stop = Mux(partial, dim, beat.stop + (ends & (fills | outer)))
            m.d.comb += partial.eq(pad & full & outer & ~fills)
            m.d.comb += [self.data.ready.eq(room), o.payload.eq(with_stop(beat, stop))]
            with m.If(fire & ends):
                m.d.sync += [
                    count.eq(Mux(fills | (outer & ~partial), 0, count + 1)),
                    sent.eq(partial),
                    ended.eq(beat.stop),
                ]
        self._flag(m, padding)
        self.report(m, offers=offered)
        return m

    def _full(self, m: Module, beat, dim: Value) -> Value:
        """True if the beat is of a unit; one without data may stand for an empty one."""
        if not self.kind.bare:
            return beat.data
        taken = Signal(4, init=STOP_DONE)  # stop of the beat taken before
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += taken.eq(beat.stop)
        empty = (beat.stop == dim) | ((taken == dim) & (beat.stop > dim))
        return beat.data | (empty & ~is_done(beat))

    def _pad(self, beat) -> list:
        """The payload of a pad beat."""
        value = self.kind.value
        payload = self.payloads.outputs[0]
        if value is None:
            return [beat.as_value()[: payload.bits].eq(0)]
        if not isinstance(payload, Tile):
            return [beat.as_value()[: payload.bits].eq(value)]
        rows, cols = [
            Mux(size - at * self.t < self.t, size - at * self.t, self.t)[: payload.count_bits]
            for size, at in zip(self.kind.extent, (self.row, self.column), strict=True)
        ]
        word = Const(value >> 32 - payload.element_bits, payload.element_bits)
        return [beat.rows.eq(rows), beat.cols.eq(cols)] + [
            beat.elements[r][c].eq(Mux((r < rows) & (c < cols), word, 0))
            for r in range(self.t)
            for c in range(self.t)
        ]

    def _position(self, m: Module, moves: Value) -> tuple[Signal, Signal]:
        """True if the pad beat at hand ends a row of tiles, and whether the unit."""
        row = self.row
        column = self.column
        row_end = Signal()
        unit_end = Signal()
        m.d.comb += [
            row_end.eq(column + 1 >= self.cfg.pad_cols),
            unit_end.eq(row_end & (row + 1 >= self.cfg.pad_rows)),
        ]
        with m.If(moves):
            m.d.sync += column.eq(Mux(row_end, 0, column + 1))
            with m.If(row_end):
                m.d.sync += row.eq(Mux(unit_end, 0, row + 1))
        return row_end, unit_end

    def _flag(self, m, padding) -> None:
        """The padding stream: which elements leave as padding."""
        if not self._has_flags:
            return
        flags = self.settings.flags
        beat = self.result.payload
        flag = self.padding
        before = Signal(4, init=STOP_DONE)
        moved = Signal()
        m.d.comb += [
            moved.eq(self.result.valid & self.result.ready),
            flag.valid.eq(moved & self.settings.flags_given & (beat.stop >= flags)),
            flag.payload.stop.eq(Mux(is_done(beat), STOP_DONE, beat.stop - flags)),
            flag.payload.data.eq(
                ~is_done(beat)
                & (beat.data | (beat.stop <= flags) | ((flags != 0) & (before <= flags)))
            ),
            flag.payload.value.eq(padding & flag.payload.data),
        ]
        with m.If(moved):
            m.d.sync += before.eq(beat.stop)
