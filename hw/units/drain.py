"""The results of an accumulator."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.limits import SIZE_BITS
from ..beat import beat_layout
from .delay import delay
from .operands import group_layout, note_layout, valid_elements
from .unit import Unit


class Drain(wiring.Component):
    """Delivers the results of each group once its last step is done.

    Parameters
    ----------
    unit : Accum
        The unit that it is of.
    init, same : Value
        An empty group's element, 32 bits; whether elements without value are 0 already.

    Members
    -------
    group : In(stream.Signature(group_layout(depth)))
        Not taken while one drains; with ``scan`` also in the cycle in which the last result leaves.
    at : Out(range(depth + 2))
        The accumulator that is read in the next cycle.
    tile, note : In(32 * t * t), In(note_layout(t))
        The accumulator that has been read.
    drained, leaving : Out(range(depth + 2)), Out(1)
        Results of the group that have left; a beat without data waits to leave.
    result : Out(stream.Signature(beat_layout(payload)))

    Timing
    ------
    A group taken in c drains from c + L, a tile a cycle; a beat without data leaves from c + 1.
    """

    def __init__(self, unit: Unit, init: Value, same: Value):
        self.unit = unit
        self.init = init
        self.same = same
        tile = unit.payloads.outputs[0]
        super().__init__(
            {
                "group": In(stream.Signature(group_layout(unit.depth))),
                "at": Out(range(unit.depth + 2)),
                "tile": In(32 * unit.t**2),
                "note": In(note_layout(unit.t)),
                "drained": Out(range(unit.depth + 2)),
                "leaving": Out(1),
                "result": Out(stream.Signature(beat_layout(tile))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        given = self.group.payload
        group = Signal.like(given)
        pending = Signal()  # its last sums are not written
        draining = Signal()
        takes = Signal()
        ends = Signal()
        last = Signal()
        leaves = draining & self.result.ready
        held = draining | self.leaving
        m.d.comb += [
            self.group.ready.eq(~pending & (~held | (self.unit.settings.scan & self.result.ready))),
            takes.eq(self.group.valid & self.group.ready),
            ends.eq(takes & ~given.bare),
            self.at.eq(self.drained + leaves),
        ]
        with m.If(takes):
            m.d.sync += group.eq(given)
        late = self.unit.latency - 1
        over = delay(m, ends, late, name="over")
        with m.If(ends):
            m.d.sync += pending.eq(1)
            m.d.comb += self.at.eq(0)
        with m.If(over):
            m.d.sync += [pending.eq(0), draining.eq(1)]
            m.d.comb += self.at.eq(group.first if late else given.first)
        with m.Elif(leaves & last):
            m.d.sync += draining.eq(0)
        m.d.sync += self.drained.eq(self.at)
        with m.If(takes & given.bare):
            m.d.sync += self.leaving.eq(1)
        with m.Elif(self.result.ready):
            m.d.sync += self.leaving.eq(0)
        extent, row_end, blank_end = self._blank(m, ends, leaves)
        rows = Mux(group.blank, extent.rows, self.note.rows)
        cols = Mux(group.blank, extent.cols, self.note.cols)
        m.d.comb += [
            last.eq(Mux(group.blank, blank_end, self.drained + 1 == group.tiles)),
            self.result.valid.eq(held),
        ]
        beat = self.result.payload
        m.d.comb += beat.stop.eq(group.stop)
        with m.If(draining):
            m.d.comb += [beat.rows.eq(rows), beat.cols.eq(cols), beat.data.eq(1)]
            m.d.comb += Value.cast(beat.elements).eq(self._elements(m, beat, group.blank))
        with m.If(draining & ~last):
            m.d.comb += beat.stop.eq(Mux(group.blank, row_end, self.note.stop))
        return m

    def _elements(self, m: Module, beat, blank: Value) -> Value:
        """The elements of the beat, 0 where it has no value."""
        valid = valid_elements(self.unit.t, beat)
        # one choice of tiles: a simulator takes time in the square of a concatenation's parts
        tile = Signal.like(self.tile, name="chosen")
        m.d.comb += tile.eq(Mux(blank, self.init.replicate(len(valid)), self.tile))
        return Cat(
            Mux(v | Mux(blank, self.init == 0, self.same), tile.word_select(k, 32), 0)
            for k, v in enumerate(valid)
        )

    def _blank(self, m: Module, starts: Value, leaves: Value):
        """The tile of an empty group that leaves: its valid part, whether it ends a row of tiles,
        and whether it is the last.
        """
        t = self.unit.t
        rows = self.unit.cfg.init_rows
        cols = self.unit.cfg.init_cols
        row = Signal(SIZE_BITS)
        col = Signal(SIZE_BITS)
        row_end = Signal()
        extent = Signal(self.note.shape(), name="blank")
        m.d.comb += [
            row_end.eq(col + t >= cols),
            extent.rows.eq(Mux(rows - row < t, rows - row, t)),
            extent.cols.eq(Mux(cols - col < t, cols - col, t)),
        ]
        with m.If(starts):
            m.d.sync += [row.eq(0), col.eq(0)]
        with m.Elif(leaves):
            m.d.sync += col.eq(col + t)
            with m.If(row_end):
                m.d.sync += [col.eq(0), row.eq(row + t)]
        return extent, row_end, row_end & (row + t >= rows)
