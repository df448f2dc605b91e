"""Reduction of a stream over some of its dimensions."""

from types import SimpleNamespace
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.memory import Memory, WritePort

from ...machine.beat import STOP_DONE, Tile
from ...machine.faults import Fault
from ...machine.functions import identity_bits
from ...machine.functions import lookup as entry
from ...machine.kinds import OneOf, accum
from ...machine.limits import SIZE_BITS
from ..beat import is_bare, is_done, words
from .delay import delay
from .reducing import reduced
from .unit import Unit


class _Ports(NamedTuple):
    """Write ports of the accumulators: elements, valid parts, stops."""

    tile_write: WritePort
    extent_write: WritePort
    stop_write: WritePort


class _Beat:
    """The beat at the input: what it is, and what it does in this cycle."""

    def __init__(self, positions: range):
        self.index = Signal(positions)  # its accumulator
        self.kept = Signal(4)  # kept dimensions that end with it
        self.done = Signal()
        self.last = Signal()  # of its group
        self.take = Signal()
        self.taken = Signal()  # with data
        self.closes = Signal()  # ends a group without a tile of its own
        self.passes = Signal()  # leaves as it is


class _Step:
    """One step of an accumulation: ``lanes`` elements into one accumulator."""

    def __init__(self, numbers: range, positions: range, bits: int):
        self.number = Signal(numbers, name="step")
        self.target = Signal(positions)
        self.fresh = Signal()  # opens its accumulator
        self.group = Signal(bits)
        self.working = Signal()

    def late(self, m: Module, cycles: int) -> SimpleNamespace:
        """The same, ``cycles`` later."""
        values = {"number": self.number, "target": self.target}
        values |= {"fresh": self.fresh, "group": self.group}
        late = {
            name: delay(m, value, cycles, name=f"{name}_late", reset_less=True)
            for name, value in values.items()
        }
        working = delay(m, self.working, cycles, name="working_late")
        return SimpleNamespace(**late, working=working)


class _Drain:
    """How far a group's results have left."""

    def __init__(self, positions: range):
        self.ending = Signal()  # a group's last step
        self.pending = Signal()  # its last sums are in the pipeline
        self.draining = Signal()
        self.leaving = Signal()  # a beat without data is held
        self.drained = Signal(positions)
        self.drained_next = Signal(positions)


class Accum(Unit):
    """Reduces over the dimensions in ``reduce``; positions in the kept dimensions below the highest
    of them index a memory.

    Parameters
    ----------
    params : dict
        ``fn``: a function of two operands and one stage that has an identity (``add``, ``max``);
        ``reduce``: mask of reduced dimensions, bit 0 the innermost; ``depth``: accumulators, in
        tiles; ``lanes``: elements a cycle, a divisor of t * t; ``init_rows``, ``init_cols``:
        elements of an empty group's result (run time), 0 rows if its size is known at run time
        only; optional ``scan``: the state leaves after every beat, instead of the groups' results;
        ``deep``: the function has its deep pipeline.
    t, config, payloads, configured
        See :class:`~penstock.hw.units.unit.Unit`; a tile in, an fp32 tile out.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`; ``cfg.init_rows``,
    ``cfg.init_cols``: 20 bits each. ``error`` bits
    ``Fault.ACCUMULATORS``: a group has more than ``depth`` kept
    positions; ``Fault.STOP``: the tiles that are reduced together
    differ in their physical tiles.

    Timing
    ------
    II = t * t / lanes, L = II + S - 1: a group whose last beat is taken
    in c is drained from c + L, a tile a cycle. Meanwhile a beat is
    taken only into an accumulator already drained, and not if it ends a
    group. S = 1; deep, a register behind the accumulators and the
    stages of the function, and a beat waits until S cycles after the
    last one of its accumulator. The
    accumulators are read one cycle ahead (block RAM), with the cycle's
    write passed through. An empty group's result is drained likewise. A
    scan delivers each beat's state from c + L on, and takes a beat
    when the one before leaves. Source: docs/timing.md sections 3.1 and
    3.4.
    """

    kind = "accum"

    def __init__(self, *, params, t, **built):
        self.depth = params["depth"]  # of the memories; a unit may have less
        self.lanes = params["lanes"]
        for fn in OneOf.choices(params["fn"]):
            if entry(fn).arity != 2 or entry(fn).stages != 1:
                raise ValueError(
                    f"Function of an accumulator must have two operands and one stage, not {fn!r}"
                )
        reduce = params["reduce"]
        if not 0 < reduce < 2**14:
            raise ValueError(
                f"Mask of reduced dimensions must be from 1 to 2**14 - 1, not {reduce!r}"
            )
        if self.depth < 1:
            raise ValueError(f"Depth must be at least 1, not {self.depth!r}")
        if not isinstance(self.lanes, int) or self.lanes < 1 or t * t % self.lanes:
            raise ValueError(f"Lanes must divide t * t = {t * t}, not {self.lanes!r}")
        super().__init__(params=params, t=t, **built)
        tile = Tile(t, "fp32")
        made = self.payloads.outputs[0]
        if made != tile:
            raise ValueError(f"Payload of the output must be {tile!r}, not {made!r}")
        kind = accum.Accum.of(params)
        self.interval = kind.interval(t)
        self.loop = kind.loop
        count = tile.count_bits
        self._tiles = Memory(
            shape=data.ArrayLayout(32 * self.lanes, self.interval), depth=self.depth, init=[]
        )
        self._extents = Memory(
            shape=data.StructLayout({"rows": count, "cols": count}), depth=self.depth, init=[]
        )
        self._stops = Memory(shape=4, depth=self.depth, init=[])

    def elaborate(self, platform):
        m = Module()
        m.submodules.tiles = self._tiles
        m.submodules.extents = self._extents
        m.submodules.stops = self._stops
        tile_write = self._tiles.write_port(granularity=1)
        extent_write = self._extents.write_port()
        stop_write = self._stops.write_port()
        ports = _Ports(tile_write, extent_write, stop_write)
        beat = _Beat(range(self.depth + 1))
        index_next = Signal(range(self.depth + 1))
        wait = Signal(range(self.interval))  # cycles until the next take
        high = Signal(range(self.depth + 2))  # tiles of the open group
        drain = _Drain(range(self.depth + 2))
        self._levels(m)
        self._accept(m, beat, high, wait, drain)
        resets = (beat.closes | beat.passes) & beat.last
        initial = self._walk(m, beat.taken, resets, beat.index, index_next)
        step = self._operands(m, beat, wait, initial)
        target = self._accumulate(m, ports, beat, step, index_next, wait, initial)
        self._check(m, ports, beat, index_next, initial, high)
        m.d.comb += [
            ports.stop_write.addr.eq(Mux(beat.taken, beat.index, high - 1)),
            ports.stop_write.data.eq(beat.kept),
            ports.stop_write.en.eq(beat.taken | beat.closes),
        ]
        self._drain(m, ports, beat, drain, target, high, wait)
        self.report(m, offers=self.result.valid)
        return m

    def _levels(self, m: Module) -> None:
        """The highest and the lowest reduced dimension, and the lowest one with only reduced
        dimensions from it to the highest.
        """
        self._identity = self.pick("fn", lambda fn: Const(identity_bits(fn), 32))
        reduce = self.settings.reduce
        most = len(reduce) - 1
        self._top = Signal(range(most + 1), name="top")
        self._lowest = Signal.like(self._top, name="lowest")
        self._outer = Signal.like(self._top, name="outer")
        for d in range(most + 1):
            with m.If(reduce[d]):
                m.d.comb += self._top.eq(d)
            with m.If(reduce[most - d]):
                m.d.comb += self._lowest.eq(most - d)
            with m.If(~reduce[d] & (d < self._top)):
                m.d.comb += self._outer.eq(d + 1)

    def _accept(self, m: Module, beat: _Beat, high: Signal, wait: Signal, drain: _Drain) -> None:
        """Takes beats; says what each of them does to the open group."""
        payload = self.data.payload
        top = self._top
        before = Signal(4, init=STOP_DONE)  # stop of the beat before
        free = Signal()
        take = beat.take
        empty = Signal()
        outer = [~bit for bit in self.settings.reduce] + [Const(1)] * STOP_DONE
        kept = [(sum(outer[:s]) + Const(0, 4))[:4] for s in range(16)]
        scan = self.settings.scan
        # A group that ends without a beat: one that is open, or an empty one.
        bare = is_bare(payload) & beat.last
        held = drain.draining | drain.leaving
        passed = (~held | self.result.ready) & ~drain.pending
        room = Mux(scan, passed, free & ~drain.leaving & ~self._under_way(m, beat))
        closes = Mux(scan, Const(0), take & bare & ~empty)
        passes = Mux(scan, take & ~payload.data, take & (beat.done | (bare & empty)))
        m.d.comb += [
            beat.done.eq(is_done(payload)),
            beat.last.eq(payload.stop > top),
            beat.kept.eq(Cat(kept).word_select(payload.stop, 4)),
            free.eq(
                ~(drain.draining | drain.pending)
                | (~beat.last & (~payload.data | (beat.index < drain.drained)))
            ),
            self.data.ready.eq(room & ~drain.ending & (wait == 0)),
            take.eq(self.data.valid & self.data.ready),
            beat.taken.eq(take & payload.data),
            self.error[Fault.ACCUMULATORS].eq(beat.taken & (beat.index >= self.settings.depth)),
            empty.eq(
                (high == 0)
                & (((payload.stop > top + 1) & (before > top + 1)) | (self.cfg.init_rows == 0))
            ),
            beat.closes.eq(closes),
            beat.passes.eq(passes),
        ]
        with m.If(take):
            m.d.sync += before.eq(payload.stop)
        with m.If((beat.closes | beat.passes | beat.taken) & beat.last):
            m.d.sync += high.eq(0)
        with m.Elif(beat.taken & (high <= beat.index)):
            m.d.sync += high.eq(beat.index + 1)
        starts = beat.taken | beat.closes
        m.d.sync += wait.eq(Mux(starts, self.interval - 1, Mux(wait == 0, 0, wait - 1)))

    def _under_way(self, m: Module, beat: _Beat) -> Value:
        """True if a beat of the next one's accumulator is in the function's pipeline."""
        taken = beat.taken
        index = beat.index
        meets = []
        for k in range(1, self.loop):
            before = Signal(name=f"taken{k}")
            into = Signal.like(beat.index, name=f"into{k}", reset_less=True)
            m.d.sync += [before.eq(taken), into.eq(index)]
            meets.append(before & (into == beat.index))
            taken = before
            index = into
        return Cat(meets).any() if meets else Const(0)

    def _operands(self, m: Module, beat: _Beat, wait: Signal, initial: Value) -> _Step:
        """One step a cycle: the operands of the first come from the input, the others' are held."""
        index = beat.index
        step = _Step(range(self.interval), range(self.depth + 1), 32 * self.lanes)
        tile = self._filled(m, self.data.payload)
        group = step.group
        m.d.comb += [
            group.eq(Cat(tile[: self.lanes])),
            step.target.eq(index),
            step.fresh.eq(initial),
            step.working.eq(beat.taken),
        ]
        if self.interval == 1:
            return step
        rest = Signal(32 * (len(tile) - self.lanes), reset_less=True)
        held_target = Signal.like(index)
        held_fresh = Signal()
        accumulating = Signal()
        with m.If(beat.take):
            m.d.sync += accumulating.eq(beat.taken)
        with m.If(beat.taken):
            m.d.sync += [
                rest.eq(Cat(tile[self.lanes :])),
                held_target.eq(index),
                held_fresh.eq(initial),
                step.number.eq(1),
            ]
        with m.Elif((wait != 0) & accumulating):
            m.d.comb += [
                group.eq(rest[: len(group)]),
                step.target.eq(held_target),
                step.fresh.eq(held_fresh),
                step.working.eq(1),
            ]
            m.d.sync += [rest.eq(rest[len(group) :]), step.number.eq(step.number + 1)]
        return step

    def _accumulate(
        self,
        m: Module,
        ports: _Ports,
        beat: _Beat,
        step: _Step,
        index_next: Signal,
        wait: Signal,
        initial: Value,
    ) -> Value:
        """Reads an accumulator one cycle ahead, adds a group of elements, and writes it back;
        returns which one is written.
        """
        payload = self.data.payload
        tile_in = self._tiles.read_port(transparent_for=[ports.tile_write])
        extent_in = self._extents.read_port(transparent_for=[ports.extent_write])
        first_step = Mux(wait == 0, 0, step.number)
        if self.interval == 1:
            address = index_next
            stored = tile_in.data[0]
        else:
            address = Mux((wait > 1) | beat.taken, step.target, beat.index)
            stored = Array(tile_in.data)[first_step]
        old = Signal(len(step.group))
        m.d.comb += [tile_in.addr.eq(address), extent_in.addr.eq(index_next), old.eq(stored)]
        ahead = min(self.loop - 1, 1)  # a register behind the memory
        step.number = first_step
        reads = step.late(m, ahead)
        last = step.late(m, self.loop - 1)
        old = delay(m, old, ahead, name="old", reset_less=True)
        sums = []
        for j in range(self.lanes):
            value = reads.group.word_select(j, 32)
            adds = reads.working & ~reads.fresh
            total = reduced(self, m, f"lane{j}", adds, old.word_select(j, 32), value)
            sums.append(Mux(last.fresh, last.group.word_select(j, 32), total))
        was = extent_in.data
        extent = ports.extent_write.data
        m.d.comb += [
            ports.tile_write.addr.eq(last.target),
            ports.tile_write.data.eq(Cat(sums).replicate(self.interval)),
            ports.tile_write.en.eq(Mux(last.working, 1 << last.number, 0)),
            ports.extent_write.addr.eq(beat.index),
            extent.rows.eq(Mux(~initial & (was.rows > payload.rows), was.rows, payload.rows)),
            extent.cols.eq(Mux(~initial & (was.cols > payload.cols), was.cols, payload.cols)),
            ports.extent_write.en.eq(beat.taken),
        ]
        return last.target

    def _check(
        self,
        m: Module,
        ports: _Ports,
        beat: _Beat,
        index_next: Signal,
        initial: Value,
        high: Signal,
    ) -> None:
        """A pass over a reduced dimension must visit the accumulators that the first did."""
        stop = self.data.payload.stop
        lowest = self._lowest
        outer = self._outer
        several = [~initial & (beat.index >= high), (stop >= outer) & (high > beat.index + 1)]
        differs = [(outer != lowest) & x for x in several]
        stop_in = self._stops.read_port(transparent_for=[ports.stop_write])
        ends = Signal.like(lowest)
        ended = Signal.like(lowest)
        m.d.comb += [
            stop_in.addr.eq(index_next),
            ends.eq(Mux(stop < lowest, stop, lowest)),
            ended.eq(Mux(stop_in.data < lowest, stop_in.data, lowest)),
        ]
        differs.append(~initial & (ends != ended))
        m.d.comb += self.error[Fault.STOP].eq(beat.taken & Cat(differs).any())

    def _drain(
        self,
        m: Module,
        ports: _Ports,
        beat: _Beat,
        drain: _Drain,
        target: Signal,
        high: Signal,
        wait: Signal,
    ) -> None:
        """Delivers a group's results once its last step is done."""
        total = Signal(range(self.depth + 2))
        end_of_group = Signal()
        scan = self.settings.scan
        ends = Mux(scan, beat.taken, (beat.taken & beat.last) | beat.closes)
        m.d.comb += end_of_group.eq(ends)
        with m.If(end_of_group):
            m.d.sync += total.eq(Mux(beat.taken, beat.index + 1, high))
        if self.interval > 1:
            with m.If(end_of_group):
                m.d.sync += drain.ending.eq(1)
            end_of_group = drain.ending & (wait == 1)
        blank, extent, stop, last = self._blank(
            m, beat.closes, beat.closes & (high == 0), beat.kept, drain.draining
        )
        leaves = drain.draining & self.result.ready
        following = Mux(scan, drain.drained, drain.drained + leaves)
        first = Mux(scan, target, Const(0))
        is_last = Mux(scan, Const(1), Mux(blank, last, drain.drained + 1 == total))
        m.d.comb += drain.drained_next.eq(following)
        over = end_of_group
        if self.loop > 1:
            over = delay(m, end_of_group, self.loop - 1, name="over")
            with m.If(end_of_group):
                m.d.sync += [drain.ending.eq(0), drain.pending.eq(1)]
                m.d.comb += drain.drained_next.eq(0)
            with m.If(over):
                m.d.sync += drain.pending.eq(0)
        with m.If(over):
            m.d.sync += [drain.ending.eq(0), drain.draining.eq(1)]
            m.d.comb += drain.drained_next.eq(first)
        with m.Elif(drain.draining & self.result.ready & is_last):
            m.d.sync += drain.draining.eq(0)
        m.d.sync += drain.drained.eq(drain.drained_next)
        self._deliver(m, ports, beat, drain, blank, extent, stop)

    def _deliver(
        self,
        m: Module,
        ports: _Ports,
        beat: _Beat,
        drain: _Drain,
        blank: Signal,
        blank_extent: data.View,
        blank_stop: Signal,
    ) -> None:
        """The result at the output, or a beat without data that leaves."""
        payload = self.data.payload
        tile_out = self._tiles.read_port(transparent_for=[ports.tile_write])
        extent_out = self._extents.read_port(transparent_for=[ports.extent_write])
        stop_out = self._stops.read_port(transparent_for=[ports.stop_write])
        leaving_stop = Signal(4)
        held_stop = Signal(4)
        scan = self.settings.scan
        leaves_with = Mux(scan, payload.stop, Mux(beat.done, STOP_DONE, beat.kept))
        stop = Mux(scan, held_stop, Mux(blank, blank_stop, stop_out.data))
        with m.If(beat.taken):
            m.d.sync += held_stop.eq(payload.stop)
        with m.If(beat.passes):
            m.d.sync += [drain.leaving.eq(1), leaving_stop.eq(leaves_with)]
        with m.Elif(self.result.ready):
            m.d.sync += drain.leaving.eq(0)
        m.d.comb += [port.addr.eq(drain.drained_next) for port in (tile_out, extent_out, stop_out)]
        m.d.comb += self.result.valid.eq(drain.draining | drain.leaving)
        nothing = self._identity.replicate(self.t**2)
        elements = Signal(len(Value.cast(tile_out.data)))
        extent = Signal(self._extents.shape)
        with m.If(drain.draining):
            m.d.comb += [
                elements.eq(Mux(blank, nothing, tile_out.data)),
                extent.eq(Mux(blank, blank_extent.as_value(), extent_out.data.as_value())),
                self.result.payload.eq(Cat(self._masked(elements, extent), extent, stop, 1)),
            ]
        with m.Else():
            m.d.comb += [self.result.payload.stop.eq(leaving_stop), self.result.payload.data.eq(0)]

    def _valid(self, rows, cols) -> list:
        """True if each element, row-major, is valid."""
        row = [k < rows for k in range(self.t)]
        col = [k < cols for k in range(self.t)]
        return [r & c for r in row for c in col]

    def _filled(self, m, beat) -> list:
        """The elements of a tile; those without value, 0, are the function's identity."""
        return [
            word | Mux(valid, 0, self._identity)
            for valid, word in zip(self._valid(beat.rows, beat.cols), words(beat), strict=True)
        ]

    def _masked(self, elements, extent):
        same = self._identity == 0  # it is 0 already
        return Cat(
            Mux(valid | same, elements.word_select(k, 32), 0)
            for k, valid in enumerate(self._valid(extent.rows, extent.cols))
        )

    def _blank(self, m, closes, start, stop, draining):
        """The tiles of an empty group: whether they drain, and extent and stop of the one that
        does, and whether it is the last.
        """
        t = self.t
        rows = self.cfg.init_rows
        cols = self.cfg.init_cols
        active = Signal(name="blank")
        group_stop = Signal(4, name="blank_group_stop")
        row = Signal(SIZE_BITS, name="blank_row")
        col = Signal(SIZE_BITS, name="blank_col")
        row_end = Signal(name="blank_row_end")
        last = Signal(name="blank_last")
        extent = Signal(self._extents.shape, name="blank_extent")
        beat_stop = Signal(4, name="blank_stop")
        m.d.comb += [
            row_end.eq(col + t >= cols),
            last.eq(row_end & (row + t >= rows)),
            extent.rows.eq(Mux(rows - row < t, rows - row, t)),
            extent.cols.eq(Mux(cols - col < t, cols - col, t)),
            beat_stop.eq(Mux(last, group_stop, row_end)),
        ]
        with m.If(closes):
            m.d.sync += [active.eq(start), group_stop.eq(stop), row.eq(0), col.eq(0)]
        with m.Elif(draining & self.result.ready):
            m.d.sync += col.eq(col + t)
            with m.If(row_end):
                m.d.sync += [col.eq(0), row.eq(row + t)]
            with m.If(last):
                m.d.sync += active.eq(0)
        return active, extent, beat_stop, last

    def _walk(self, m, taken, reset, index, index_next):
        """Position of the beats: drives the next ``index``; returns whether the head beat opens its
        accumulator.
        """
        stop = self.data.payload.stop
        top = self._top
        reduce = self.settings.reduce
        start = [Signal.like(index, name=f"start{d}") for d in range(len(reduce))]
        first = [Signal(init=1, name=f"first{d}") for d in range(len(reduce))]
        onward = Signal.like(index)
        m.d.comb += [onward.eq(index + 1), index_next.eq(index)]
        with m.If(taken):
            with m.Switch(stop):
                for d, over in enumerate(reduce):
                    with m.Case(d):
                        m.d.comb += onward.eq(Mux(over, start[d], index + 1))
                        m.d.sync += first[d].eq(~over)
            m.d.comb += index_next.eq(Mux(stop > top, 0, onward))
            for d in range(len(reduce)):
                with m.If(stop > d):
                    m.d.sync += [first[d].eq(1), start[d].eq(index_next)]
        with m.If(reset):
            m.d.comb += index_next.eq(0)
            m.d.sync += [register.eq(register.init) for register in (*start, *first)]
        m.d.sync += index.eq(index_next)
        return (Cat(first) | ~reduce).all()
