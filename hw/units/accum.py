"""Reduction of a stream over some of its dimensions."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.memory import Memory

from ...machine.beat import STOP_DONE, Tile
from ...machine.faults import Fault
from ...machine.functions import identity_bits
from ...machine.functions import lookup as entry
from ...machine.kinds import accum_levels, kind_of
from ...machine.limits import SIZE_BITS
from ..beat import is_bare, is_done, words
from ..functions import lookup
from ..module_key import module_key
from ..place import place
from .unit import Unit

__all__ = ["Accum"]


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
        only; optional ``scan``: the state leaves after every beat, instead of the groups' results.
    t, config, payloads
        See :class:`~penstock.hw.units.unit.Unit`; a tile in, an fp32 tile out.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`; ``cfg.init_rows``, ``cfg.init_cols``: 20 bits each.
    ``error`` bits ``Fault.ACCUMULATORS``: a group has more than ``depth`` kept positions;
    ``Fault.STOP``: the tiles that are reduced together differ in their physical tiles.

    Timing
    ------
    II = t * t / lanes, L = II: a group whose last beat is taken in c is drained from c + II, a tile
    a cycle. Meanwhile a beat is taken only into an accumulator already drained, and not if it ends
    a group. The accumulators are read one cycle ahead (block RAM), with the cycle's write passed
    through. An empty group's result is drained likewise. A scan delivers each beat's state from c +
    II on, and takes a beat when the one before leaves. Source: docs/timing.md sections 3.1 and 3.4.

    """

    kind = "accum"

    def __init__(self, *, params, t, config, payloads):
        self.fn = params["fn"]
        self.reduce = params["reduce"]
        self.depth = params["depth"]
        self.lanes = params["lanes"]
        if entry(self.fn).arity != 2 or entry(self.fn).stages != 1:
            raise ValueError(
                f"Function of an accumulator must have two operands and one stage, not {self.fn!r}"
            )
        if not 0 < self.reduce < 2**14:
            raise ValueError(
                f"Mask of reduced dimensions must be from 1 to 2**14 - 1, not {self.reduce!r}"
            )
        if self.depth < 1:
            raise ValueError(f"Depth must be at least 1, not {self.depth!r}")
        if not isinstance(self.lanes, int) or self.lanes < 1 or t * t % self.lanes:
            raise ValueError(f"Lanes must divide t * t = {t * t}, not {self.lanes!r}")
        self.identity = identity_bits(self.fn)
        self.scan = bool(params.get("scan"))
        super().__init__(params=params, t=t, config=config, payloads=payloads)
        if payloads.outputs[0] != Tile(t, "fp32"):
            raise ValueError(
                f"Payload of the output must be {Tile(t, 'fp32')!r}, not {payloads.outputs[0]!r}"
            )
        self.interval = kind_of("accum").of(params).interval(t)
        count = payloads.outputs[0].count_bits
        self._tiles = Memory(
            shape=data.ArrayLayout(32 * self.lanes, self.interval), depth=self.depth, init=[]
        )
        self._extents = Memory(
            shape=data.StructLayout({"rows": count, "cols": count}), depth=self.depth, init=[]
        )
        self._stops = Memory(shape=4, depth=self.depth, init=[])

    @classmethod
    def cfg_layout(cls, params: dict) -> dict[str, int]:
        return {"init_rows": SIZE_BITS, "init_cols": SIZE_BITS}

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        steps = self.interval
        done = Signal()
        last = Signal()
        top = self.reduce.bit_length() - 1
        m.d.comb += [done.eq(is_done(beat)), last.eq(beat.stop > top)]
        kept = Signal(4)  # kept dimensions that end with the beat
        m.d.comb += kept.eq(
            Cat(
                Const(sum(not self.reduce >> d & 1 for d in range(s)), 4) for s in range(16)
            ).word_select(beat.stop, 4)
        )
        index = Signal(range(self.depth + 1))
        index_next = Signal(range(self.depth + 1))
        wait = Signal(range(steps))  # cycles until the next take
        # a group's last step; its drain; a beat without data held
        ending = Signal()
        draining = Signal()
        leaving = Signal()
        high = Signal(range(self.depth + 2))  # tiles of the open group
        before = Signal(4, init=STOP_DONE)  # stop of the beat before
        total = Signal(range(self.depth + 2))
        drained = Signal(range(self.depth + 2))
        drained_next = Signal(range(self.depth + 2))

        free = Signal()
        take = Signal()
        taken = Signal()
        m.d.comb += [
            free.eq(~draining | (~last & (~beat.data | (index < drained)))),
            self.data.ready.eq(
                (~(draining | leaving) | self.result.ready if self.scan else free & ~leaving)
                & ~ending
                & (wait == 0)
            ),
            take.eq(self.data.valid & self.data.ready),
            taken.eq(take & beat.data),
            self.error[Fault.ACCUMULATORS].eq(taken & (index >= self.depth)),
        ]
        # A group that ends without a beat: one that is open, or an empty one.
        closes = Signal()
        passes = Signal()
        empty = Signal()
        m.d.comb += [
            empty.eq(
                (high == 0)
                & (((beat.stop > top + 1) & (before > top + 1)) | (self.cfg.init_rows == 0))
            ),
            closes.eq(0 if self.scan else take & is_bare(beat) & last & ~empty),
            passes.eq(take & (~beat.data if self.scan else done | (is_bare(beat) & last & empty))),
        ]
        with m.If(take):
            m.d.sync += before.eq(beat.stop)
        with m.If((closes | passes | taken) & last):
            m.d.sync += high.eq(0)
        with m.Elif(taken & (high <= index)):
            m.d.sync += high.eq(index + 1)
        m.d.sync += wait.eq(Mux(taken | closes, steps - 1, Mux(wait == 0, 0, wait - 1)))
        initial = self._walk(m, taken, (closes | passes) & last, index, index_next, top)
        lowest, outer = accum_levels(self.reduce)
        # a pass over a reduced dimension that visits other accumulators than the first did
        differs = []
        if outer != lowest:
            differs += [~initial & (index >= high), (beat.stop >= outer) & (high > index + 1)]

        # One step a cycle: the operands of the first come from the input, the others' are held.
        step = Signal(range(steps))
        target = Signal.like(index)
        fresh = Signal()
        tile = self._filled(m, beat)
        group = Signal(32 * self.lanes)
        working = Signal()
        m.d.comb += [
            group.eq(Cat(tile[: self.lanes])),
            target.eq(index),
            fresh.eq(initial),
            working.eq(taken),
        ]
        if steps > 1:
            rest = Signal(32 * (len(tile) - self.lanes), reset_less=True)
            held_target = Signal.like(index)
            held_fresh = Signal()
            accumulating = Signal()
            with m.If(take):
                m.d.sync += accumulating.eq(taken)
            with m.If(taken):
                m.d.sync += [
                    rest.eq(Cat(tile[self.lanes :])),
                    held_target.eq(index),
                    held_fresh.eq(initial),
                    step.eq(1),
                ]
            with m.Elif((wait != 0) & accumulating):
                m.d.comb += [
                    group.eq(rest[: len(group)]),
                    target.eq(held_target),
                    fresh.eq(held_fresh),
                    working.eq(1),
                ]
                m.d.sync += [rest.eq(rest[len(group) :]), step.eq(step + 1)]
        first_step = Mux(wait == 0, 0, step)

        m.submodules.tiles = self._tiles
        m.submodules.extents = self._extents
        m.submodules.stops = self._stops
        tile_write = self._tiles.write_port(granularity=1)
        extent_write = self._extents.write_port()
        stop_write = self._stops.write_port()
        tile_out = self._tiles.read_port(transparent_for=[tile_write])
        extent_out = self._extents.read_port(transparent_for=[extent_write])
        stop_out = self._stops.read_port(transparent_for=[stop_write])
        tile_in = self._tiles.read_port(transparent_for=[tile_write])
        extent_in = self._extents.read_port(transparent_for=[extent_write])
        m.d.comb += [
            tile_in.addr.eq(index_next if steps == 1 else Mux((wait > 1) | taken, target, index)),
            extent_in.addr.eq(index_next),
        ]

        if lowest:
            stop_in = self._stops.read_port(transparent_for=[stop_write])
            ends = Signal(range(lowest + 1))
            ended = Signal(range(lowest + 1))
            m.d.comb += [
                stop_in.addr.eq(index_next),
                ends.eq(Mux(beat.stop < lowest, beat.stop, lowest)),
                ended.eq(Mux(stop_in.data < lowest, stop_in.data, lowest)),
            ]
            differs.append(~initial & (ends != ended))
        m.d.comb += self.error[Fault.STOP].eq(taken & Cat(differs).any())

        old = Signal(len(group))
        m.d.comb += old.eq(tile_in.data[0] if steps == 1 else Array(tile_in.data)[first_step])
        sums = []
        for j in range(self.lanes):
            lane = lookup(self.fn)()
            m.submodules[f"lane{j}"] = place(lane, module_key("lane", {"fn": self.fn}), f"lane{j}")
            value = group.word_select(j, 32)
            m.d.comb += [
                lane.en.eq(working & ~fresh),
                lane.a.eq(old.word_select(j, 32)),
                lane.b.eq(value),
            ]
            sums.append(Mux(fresh, value, lane.o))
        m.d.comb += [
            tile_write.addr.eq(target),
            tile_write.data.eq(Cat(sums).replicate(steps)),
            tile_write.en.eq(Mux(working, 1 << first_step, 0)),
            extent_write.addr.eq(index),
            extent_write.data.rows.eq(
                Mux(~initial & (extent_in.data.rows > beat.rows), extent_in.data.rows, beat.rows)
            ),
            extent_write.data.cols.eq(
                Mux(~initial & (extent_in.data.cols > beat.cols), extent_in.data.cols, beat.cols)
            ),
            extent_write.en.eq(taken),
            stop_write.addr.eq(Mux(taken, index, high - 1)),
            stop_write.data.eq(kept),
            stop_write.en.eq(taken | closes),
        ]

        end_of_group = Signal()
        m.d.comb += end_of_group.eq(taken if self.scan else (taken & last) | closes)
        with m.If(end_of_group):
            m.d.sync += total.eq(Mux(taken, index + 1, high))
        if steps > 1:
            with m.If(end_of_group):
                m.d.sync += ending.eq(1)
            end_of_group = ending & (wait == 1)
        blank, blank_extent, blank_stop, blank_last = self._blank(
            m, closes, closes & (high == 0), kept, draining
        )
        m.d.comb += drained_next.eq(
            drained if self.scan else drained + (draining & self.result.ready)
        )
        with m.If(end_of_group):
            m.d.sync += [ending.eq(0), draining.eq(1)]
            m.d.comb += drained_next.eq(target if self.scan else 0)
        with m.Elif(
            draining
            & self.result.ready
            & (1 if self.scan else Mux(blank, blank_last, drained + 1 == total))
        ):
            m.d.sync += draining.eq(0)
        m.d.sync += drained.eq(drained_next)
        leaving_stop = Signal(4)
        held_stop = Signal(4)
        with m.If(taken):
            m.d.sync += held_stop.eq(beat.stop)
        with m.If(passes):
            m.d.sync += [
                leaving.eq(1),
                leaving_stop.eq(beat.stop if self.scan else Mux(done, STOP_DONE, kept)),
            ]
        with m.Elif(self.result.ready):
            m.d.sync += leaving.eq(0)
        m.d.comb += [port.addr.eq(drained_next) for port in (tile_out, extent_out, stop_out)]
        m.d.comb += self.result.valid.eq(draining | leaving)
        with m.If(draining):
            elements = Signal(len(Value.cast(tile_out.data)))
            extent = Signal(self._extents.shape)
            m.d.comb += [
                elements.eq(
                    Mux(blank, Const(self.identity, 32).replicate(self.t**2), tile_out.data)
                ),
                extent.eq(Mux(blank, blank_extent.as_value(), extent_out.data.as_value())),
                self.result.payload.eq(
                    Cat(
                        self._masked(elements, extent),
                        extent,
                        held_stop if self.scan else Mux(blank, blank_stop, stop_out.data),
                        1,
                    )
                ),
            ]
        with m.Else():
            m.d.comb += [self.result.payload.stop.eq(leaving_stop), self.result.payload.data.eq(0)]
        self.report(m, offers=self.result.valid)
        return m

    def _valid(self, rows, cols) -> list:
        """Whether each element, row-major, is valid."""
        row = [k < rows for k in range(self.t)]
        col = [k < cols for k in range(self.t)]
        return [r & c for r in row for c in col]

    def _filled(self, m, beat) -> list:
        """The elements of a tile; those without value are the function's identity."""
        if not self.identity:
            return words(beat)
        return [
            Mux(valid, word, self.identity)
            for valid, word in zip(self._valid(beat.rows, beat.cols), words(beat), strict=False)
        ]

    def _masked(self, elements, extent):
        if not self.identity:
            return elements
        return Cat(
            Mux(valid, elements.word_select(k, 32), 0)
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

    def _walk(self, m, taken, reset, index, index_next, top):
        """Position of the beats: drives the next ``index``; returns whether the head beat opens its
        accumulator.
        """
        stop = self.data.payload.stop
        reduced = [d for d in range(top + 1) if self.reduce >> d & 1]
        start = {d: Signal.like(index, name=f"start{d}") for d in reduced}
        first = {d: Signal(init=1, name=f"first{d}") for d in reduced}
        onward = Signal.like(index)
        m.d.comb += [onward.eq(index + 1), index_next.eq(index)]
        with m.If(taken):
            with m.Switch(stop):
                for d in reduced:
                    with m.Case(d):
                        m.d.comb += onward.eq(start[d])
                        m.d.sync += first[d].eq(0)
            m.d.comb += index_next.eq(Mux(stop > top, 0, onward))
            for d in reduced:
                with m.If(stop > d):
                    m.d.sync += [first[d].eq(1), start[d].eq(index_next)]
        with m.If(reset):
            m.d.comb += index_next.eq(0)
            m.d.sync += [
                register.eq(register.init) for register in [*start.values(), *first.values()]
            ]
        m.d.sync += index.eq(index_next)
        return Cat(first.values()).all()
