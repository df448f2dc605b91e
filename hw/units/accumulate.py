"""A memory of accumulators."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .delay import delay
from .operands import levels, note_layout, step_layout
from .reducing import reduced
from .unit import Unit


class Accumulate(wiring.Component):
    """Adds the elements of each step to an accumulator, by the function of a unit.

    Parameters
    ----------
    unit : Accum
        The unit that it is of.

    Members
    -------
    steps : In(stream.Signature(step_layout(unit), always_ready=True))
    ahead : In(range(depth + 1))
        Accumulator of the next cycle's step.
    at : In(range(depth + 2))
        The accumulator that is read in the next cycle.
    tile, note : Out(32 * t * t), Out(note_layout(t))
        Its elements, and its valid part and the stop of its last beat.
    differs : Out(1)
        A beat has another stop, below the lowest reduced dimension, than the one that opened its
        accumulator.

    Timing
    ------
    What a step in c makes is read from c + S on, S = ``Accum.loop``. The memories are read one
    cycle ahead (block RAM), with the cycle's write passed through.
    """

    def __init__(self, unit: Unit):
        self.unit = unit
        note = note_layout(unit.t)
        groups = data.ArrayLayout(32 * unit.lanes, unit.interval)
        self._tiles = Memory(shape=groups, depth=unit.depth, init=[])
        self._notes = Memory(shape=note, depth=unit.depth, init=[])
        super().__init__(
            {
                "steps": In(stream.Signature(step_layout(unit), always_ready=True)),
                "ahead": In(range(unit.depth + 1)),
                "at": In(range(unit.depth + 2)),
                "tile": Out(32 * unit.t**2),
                "note": Out(note),
                "differs": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        unit = self.unit
        m.submodules.tiles = self._tiles
        m.submodules.notes = self._notes
        tile_write = self._tiles.write_port(granularity=1)
        note_write = self._notes.write_port()
        tile_in = self._tiles.read_port(transparent_for=[tile_write])
        tile_out = self._tiles.read_port(transparent_for=[tile_write])
        note_in = self._notes.read_port(transparent_for=[note_write])
        note_out = self._notes.read_port(transparent_for=[note_write])
        step = self.steps.payload.step
        note = self.steps.payload.note
        _, lowest, _ = levels(m, unit.settings.reduce)
        begins = Signal()
        ends = Signal.like(lowest)
        ended = Signal.like(lowest)
        was = note_in.data
        m.d.comb += [
            tile_in.addr.eq(self.ahead),
            note_in.addr.eq(self.ahead),
            tile_out.addr.eq(self.at),
            note_out.addr.eq(self.at),
            self.tile.eq(tile_out.data),
            self.note.eq(note_out.data),
            begins.eq(self.steps.valid & (step.number == 0)),
            note_write.addr.eq(step.at),
            note_write.en.eq(begins),
            note_write.data.rows.eq(Mux(~step.fresh & (was.rows > note.rows), was.rows, note.rows)),
            note_write.data.cols.eq(Mux(~step.fresh & (was.cols > note.cols), was.cols, note.cols)),
            note_write.data.stop.eq(note.stop),
            ends.eq(Mux(note.stop < lowest, note.stop, lowest)),
            ended.eq(Mux(was.stop < lowest, was.stop, lowest)),
            self.differs.eq(begins & ~step.fresh & (ends != ended)),
        ]
        elements = self.steps.payload.elements
        stored = Signal.like(elements)
        starts = unit.settings.init_given  # the state before the first beat is a constant
        init = Cat(unit.settings.init, Const(0, 32))[:32].replicate(unit.lanes)
        kept = Array(tile_in.data)[step.number] if unit.interval > 1 else tile_in.data[0]
        m.d.comb += stored.eq(Mux(starts & step.fresh, init, kept))
        ahead = min(unit.loop - 1, 1)  # a register behind the memory
        reads = delay(m, step, ahead, name="reads", reset_less=True)
        group = delay(m, elements, ahead, name="group", reset_less=True)
        rest = unit.loop - 1 - ahead
        last = delay(m, reads, rest, name="last", reset_less=True)
        opening = delay(m, group, rest, name="opening", reset_less=True)
        reading = delay(m, self.steps.valid, ahead, name="reading")
        writing = delay(m, reading, rest, name="writing")
        old = delay(m, stored, ahead, name="old", reset_less=True)
        sums = []
        for j in range(unit.lanes):
            value = group.word_select(j, 32)
            adds = reading & (starts | ~reads.fresh)
            total = reduced(unit, m, f"lane{j}", adds, old.word_select(j, 32), value)
            sums.append(Mux(last.fresh & ~starts, opening.word_select(j, 32), total))
        m.d.comb += [
            tile_write.addr.eq(last.at),
            tile_write.data.eq(Cat(sums).replicate(unit.interval)),
            tile_write.en.eq(Mux(writing, 1 << last.number, 0)),
        ]
        return m
