"""The beats that an accumulator takes, and the action of each."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import STOP_BITS, STOP_DONE, Tile
from ..beat import beat_layout, is_bare, is_done, words
from .unit import Unit


def note_layout(t: int) -> data.StructLayout:
    """Valid part and stop of an accumulated tile."""
    tile = Tile(t, "fp32")
    return data.StructLayout({"rows": tile.count_bits, "cols": tile.count_bits, "stop": STOP_BITS})


def step_layout(unit: Unit) -> data.StructLayout:
    """The ``number``-th elements of a beat, for the accumulator ``at``; ``fresh``: the beat opens
    it; ``note``: of the beat.
    """
    step = {"number": range(unit.interval), "at": range(unit.depth + 1), "fresh": 1}
    note = note_layout(unit.t)
    elements = 32 * unit.lanes
    # elements first: at a word's boundary, a simulator moves them without a shift
    return data.StructLayout({"elements": elements, "step": data.StructLayout(step), "note": note})


def group_layout(depth: int) -> data.StructLayout:
    """Results that leave: the accumulators from ``first`` up to ``tiles``, or the tiles of an
    empty group (``blank``), the last with ``stop``; or a beat without data (``bare``).
    """
    tiles = range(depth + 2)
    return data.StructLayout(
        {"first": tiles, "tiles": tiles, "blank": 1, "bare": 1, "stop": STOP_BITS}
    )


def levels(m: Module, reduce: Value) -> tuple[Signal, Signal, Signal]:
    """The highest and the lowest reduced dimension, and the lowest one with only reduced dimensions
    from it to the highest.
    """
    most = len(reduce) - 1
    top = Signal(range(most + 1))
    lowest = Signal.like(top)
    outer = Signal.like(top)
    for d in range(most + 1):
        with m.If(reduce[d]):
            m.d.comb += top.eq(d)
        with m.If(reduce[most - d]):
            m.d.comb += lowest.eq(most - d)
        with m.If(~reduce[d] & (d < top)):
            m.d.comb += outer.eq(d + 1)
    return top, lowest, outer


def valid_elements(t: int, extent: data.View) -> list[Value]:
    """True for each element of a tile, row-major, that is valid."""
    rows = [k < extent.rows for k in range(t)]
    cols = [k < extent.cols for k in range(t)]
    return [r & c for r in rows for c in cols]


class Operands(wiring.Component):
    """Takes the beats of an accumulator, each for the accumulator of its position, and says which
    groups end.

    Parameters
    ----------
    unit : Accum
        The unit that it is of.
    identity : Value
        Of the unit's function, 32 bits.

    Members
    -------
    data : In(stream.Signature(beat_layout(payload)))
    steps : Out(stream.Signature(step_layout(unit), always_ready=True))
        The elements of a beat, from the cycle in which it is taken.
    ahead : Out(range(depth + 1))
        Accumulator of the next cycle's step, if there is one.
    group : Out(stream.Signature(group_layout(depth)))
        What ends with the beat at the input, which is taken with it.
    drained, leaving : In(range(depth + 2)), In(1)
        Results of the group that drains that have left; a beat without data has not.
    taken : Out(1)
        A beat with data is taken.
    over : Out(1)
        It belongs to an accumulator that the unit does not have.
    differs : Out(1)
        A pass over a reduced dimension visits other accumulators than the first.
    """

    def __init__(self, unit: Unit, identity: Value):
        self.unit = unit
        self.identity = identity
        super().__init__(
            {
                "data": In(stream.Signature(beat_layout(unit.payloads.inputs[0]))),
                "steps": Out(stream.Signature(step_layout(unit), always_ready=True)),
                "ahead": Out(range(unit.depth + 1)),
                "group": Out(stream.Signature(group_layout(unit.depth))),
                "drained": In(range(unit.depth + 2)),
                "leaving": In(1),
                "taken": Out(1),
                "over": Out(1),
                "differs": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        unit = self.unit
        beat = self.data.payload
        group = self.group.payload
        scan = unit.settings.scan
        top, lowest, outer = levels(m, unit.settings.reduce)
        wait = Signal(range(unit.interval))  # cycles until the next take
        high = Signal(range(unit.depth + 2))  # tiles of the open group
        before = Signal(STOP_BITS, init=STOP_DONE)  # stop of the beat before
        last = Signal()  # of its group
        free = Signal()
        take = Signal()
        may = Signal()
        kept = Signal(STOP_BITS)
        empty = Signal()
        closes = Signal()  # ends a group without a tile of its own
        passes = Signal()  # leaves as it is
        resets = Signal()
        index, fresh = self._position(m, top, resets, wait)
        bare = is_bare(beat) & last
        ends = closes | passes
        m.d.comb += [
            last.eq(beat.stop > top),
            free.eq(
                self.group.ready | (~last & (~beat.data | (index < self.drained)) & ~self.leaving)
            ),
            may.eq((wait == 0) & (scan | ~self._under_way(m, index))),
            self.data.ready.eq(may & Mux(scan, self.group.ready, free)),
            take.eq(self.data.valid & self.data.ready),
            self.taken.eq(take & beat.data),
            empty.eq(
                (high == 0)
                & (((beat.stop > top + 1) & (before > top + 1)) | (unit.cfg.init_rows == 0))
            ),
            kept.eq(self._kept(beat)),
            closes.eq(bare & ~empty & ~scan),
            passes.eq(Mux(scan, ~beat.data, is_done(beat) | (bare & empty))),
            resets.eq(take & ends & last),
            self.group.valid.eq(self.data.valid & may & (ends | (beat.data & (scan | last)))),
            group.first.eq(Mux(scan, index, 0)),
            group.tiles.eq(Mux(beat.data, index + 1, high)),
            group.blank.eq(closes & (high == 0)),
            group.bare.eq(passes),
            group.stop.eq(Mux(scan, beat.stop, Mux(is_done(beat), STOP_DONE, kept))),
            self.over.eq(self.taken & (index >= unit.settings.depth)),
            self.differs.eq(
                self.taken
                & (outer != lowest)
                & ((~fresh & (index >= high)) | ((beat.stop >= outer) & (high > index + 1)))
            ),
        ]
        with m.If(take):
            m.d.sync += before.eq(beat.stop)
        with m.If((self.taken | (take & ends)) & last):
            m.d.sync += high.eq(0)
        with m.Elif(self.taken & (high <= index)):
            m.d.sync += high.eq(index + 1)
        starts = take & (beat.data | closes)
        m.d.sync += wait.eq(Mux(starts, unit.interval - 1, Mux(wait == 0, 0, wait - 1)))
        m.d.comb += self.steps.payload.note.stop.eq(kept)
        self._steps(m, take, wait, index, fresh)
        return m

    def _kept(self, beat: data.View) -> Value:
        """Kept dimensions that end with a beat."""
        kept = [~bit for bit in self.unit.settings.reduce] + [Const(1)] * STOP_DONE
        counts = [(sum(kept[:stop]) + Const(0, STOP_BITS))[:STOP_BITS] for stop in range(16)]
        return Cat(counts).word_select(beat.stop, STOP_BITS)

    def _position(self, m: Module, top: Value, resets: Value, wait: Value) -> tuple[Signal, Value]:
        """The accumulator of the beat at the input, and whether the beat opens it."""
        stop = self.data.payload.stop
        reduce = self.unit.settings.reduce
        index = Signal(range(self.unit.depth + 1))
        following = Signal.like(index)
        onward = Signal.like(index)
        start = [Signal.like(index, name=f"start{d}") for d in range(len(reduce))]
        first = [Signal(init=1, name=f"first{d}") for d in range(len(reduce))]
        m.d.comb += [onward.eq(index + 1), following.eq(index), self.ahead.eq(following)]
        with m.If(self.taken):
            with m.Switch(stop):
                for d, reduced in enumerate(reduce):
                    with m.Case(d):
                        m.d.comb += onward.eq(Mux(reduced, start[d], index + 1))
                        m.d.sync += first[d].eq(~reduced)
            m.d.comb += following.eq(Mux(stop > top, 0, onward))
            for d in range(len(reduce)):
                with m.If(stop > d):
                    m.d.sync += [first[d].eq(1), start[d].eq(following)]
        with m.If(resets):
            m.d.comb += following.eq(0)
            m.d.sync += [register.eq(register.init) for register in (*start, *first)]
        m.d.sync += index.eq(following)
        if self.unit.interval > 1:
            with m.If((wait > 1) | self.taken):
                m.d.comb += self.ahead.eq(self.steps.payload.step.at)
        return index, (Cat(first) | ~reduce).all()

    def _under_way(self, m: Module, index: Signal) -> Value:
        """True if a beat of the next one's accumulator is in the function's pipeline."""
        taken = self.taken
        into = index
        meets = [Const(0)]
        for k in range(1, self.unit.loop):
            before = Signal(name=f"taken{k}")
            there = Signal.like(index, name=f"into{k}", reset_less=True)
            m.d.sync += [before.eq(taken), there.eq(into)]
            meets.append(before & (there == index))
            taken = before
            into = there
        return Cat(meets).any()

    def _steps(self, m: Module, take: Value, wait: Signal, index: Signal, fresh: Value) -> None:
        """One step a cycle: the operands of the first come from the input, the others' are held."""
        unit = self.unit
        beat = self.data.payload
        step = self.steps.payload.step
        elements = self.steps.payload.elements
        note = self.steps.payload.note
        valid = valid_elements(unit.t, beat)
        # elements without value are 0, and here the function's identity
        tile = [x | Mux(v, 0, self.identity) for x, v in zip(words(beat), valid, strict=True)]
        m.d.comb += [
            self.steps.valid.eq(self.taken),
            step.at.eq(index),
            step.fresh.eq(fresh),
            elements.eq(Cat(tile[: unit.lanes])),
            note.rows.eq(beat.rows),
            note.cols.eq(beat.cols),
        ]
        if unit.interval == 1:
            return
        bits = len(elements)
        rest = Signal(bits * (unit.interval - 1), reset_less=True)
        held = Signal.like(step, name="held", reset_less=True)
        accumulating = Signal()
        with m.If(take):
            m.d.sync += accumulating.eq(self.taken)
        with m.If(self.taken):
            m.d.sync += [rest.eq(Cat(tile[unit.lanes :])), held.eq(step), held.number.eq(1)]
        with m.Elif((wait != 0) & accumulating):
            m.d.comb += [step.eq(held), elements.eq(rest[:bits]), self.steps.valid.eq(1)]
            m.d.sync += [rest.eq(rest[bits:]), held.number.eq(held.number + 1)]
