"""Reduction of a stream over some of its dimensions."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.memory import Memory

from penstock.machine.beat import Tile
from penstock.machine.functions import lookup as entry
from penstock.machine.kinds import kind_of

from ..beat import is_done, words
from ..functions import lookup
from ..place import module_name, place
from .unit import ACCUM_OVERFLOW, Unit


__all__ = ["Accum"]


class Accum(Unit):
    """Reduces over the dimensions in ``reduce``; positions in the kept dimensions below the highest of them index a memory.

    Parameters
    ----------
    params : dict
        ``fn``: a function of two operands and one stage (``add``); ``reduce``: mask of reduced dimensions, bit 0 the innermost;
        ``depth``: accumulators, in tiles; ``lanes``: elements a cycle, a divisor of t * t.
    t, config, payloads
        See :class:`~penstock.hw.units.unit.Unit`; a tile in, an fp32 tile out.

    Members
    -------
    See :class:`~penstock.hw.units.unit.Unit`. ``error`` bit ``ACCUM_OVERFLOW``: a group has more than ``depth`` kept positions.

    Timing
    ------
    II = t * t / lanes, L = II: a group whose last beat is taken in c is drained from c + II, a tile a cycle. Meanwhile a beat is
    taken only into an accumulator already drained, and not if it ends a group. The accumulators are read one cycle ahead
    (block RAM), with the cycle's write passed through. Source: docs/timing.md section 3.1.
    """

    def __init__(self, *, params, t, config, payloads):
        self.fn, self.reduce, self.depth, self.lanes = params["fn"], params["reduce"], params["depth"], params["lanes"]
        if entry(self.fn).arity != 2 or entry(self.fn).stages != 1:
            raise ValueError(f"Function of an accumulator must have two operands and one stage, not {self.fn!r}")
        if not 0 < self.reduce < 2**14:
            raise ValueError(f"Mask of reduced dimensions must be from 1 to 2**14 - 1, not {self.reduce!r}")
        if self.depth < 1:
            raise ValueError(f"Depth must be at least 1, not {self.depth!r}")
        if not isinstance(self.lanes, int) or self.lanes < 1 or t * t % self.lanes:
            raise ValueError(f"Lanes must divide t * t = {t * t}, not {self.lanes!r}")
        super().__init__(params=params, t=t, config=config, payloads=payloads)
        self.expect(1, 1)
        if payloads.outputs[0] != Tile(t, "fp32"):
            raise ValueError(f"Payload of the output must be {Tile(t, 'fp32')!r}, not {payloads.outputs[0]!r}")
        self.interval = kind_of("accum").interval(t, params)
        count = payloads.outputs[0].count_bits
        self._tiles = Memory(shape=data.ArrayLayout(32 * self.lanes, self.interval), depth=self.depth, init=[])
        self._extents = Memory(shape=data.StructLayout({"rows": count, "cols": count}), depth=self.depth, init=[])
        self._stops = Memory(shape=4, depth=self.depth, init=[])

    def elaborate(self, platform):
        m = Module()
        beat, steps = self.i0.payload, self.interval
        done, last, top = Signal(), Signal(), self.reduce.bit_length() - 1
        m.d.comb += [done.eq(is_done(beat)), last.eq(beat.stop > top)]
        index, index_next = Signal(range(self.depth + 1)), Signal(range(self.depth + 1))
        wait = Signal(range(steps))  # cycles until the next take
        ending, draining, leaving = Signal(), Signal(), Signal()  # a group's last step; its drain; a Done held
        total, drained, drained_next = (Signal(range(self.depth + 2), name=name) for name in ("total", "drained", "drained_next"))

        free, take, taken = Signal(), Signal(), Signal()
        m.d.comb += [
            free.eq(~draining | (~done & ~last & (index < drained))),
            self.i0.ready.eq(free & ~leaving & ~ending & (wait == 0)),
            take.eq(self.i0.valid & self.i0.ready),
            taken.eq(take & ~done),
            self.error[ACCUM_OVERFLOW].eq(taken & (index >= self.depth)),
        ]
        m.d.sync += wait.eq(Mux(taken, steps - 1, Mux(wait == 0, 0, wait - 1)))
        initial = self._walk(m, taken, take & done, index, index_next, top)

        # One step a cycle: the operands of the first come from the input, the others' are held.
        step, target, fresh = Signal(range(steps)), Signal.like(index), Signal()
        tile, group, working = words(beat), Signal(32 * self.lanes), Signal()
        m.d.comb += [group.eq(Cat(tile[: self.lanes])), target.eq(index), fresh.eq(initial), working.eq(taken)]
        if steps > 1:
            rest = Signal(32 * (len(tile) - self.lanes), reset_less=True)
            held_target, held_fresh = Signal.like(index), Signal()
            with m.If(taken):
                m.d.sync += [rest.eq(Cat(tile[self.lanes:])), held_target.eq(index), held_fresh.eq(initial), step.eq(1)]
            with m.Elif(wait != 0):
                m.d.comb += [group.eq(rest[: len(group)]), target.eq(held_target), fresh.eq(held_fresh), working.eq(1)]
                m.d.sync += [rest.eq(rest[len(group):]), step.eq(step + 1)]
        first_step = Mux(wait == 0, 0, step)

        ports = []
        for name, memory in (("tiles", self._tiles), ("extents", self._extents), ("stops", self._stops)):
            m.submodules[name] = memory
            write = memory.write_port(granularity=1) if name == "tiles" else memory.write_port()
            ports.append((write, memory.read_port(transparent_for=[write])))
        (tile_write, tile_out), (extent_write, extent_out), (stop_write, stop_out) = ports
        tile_in = self._tiles.read_port(transparent_for=[tile_write])
        m.d.comb += tile_in.addr.eq(index_next if steps == 1 else Mux((wait > 1) | taken, target, index))

        old = Signal(len(group))
        m.d.comb += old.eq(tile_in.data[0] if steps == 1 else Array(tile_in.data)[first_step])
        sums = []
        for j in range(self.lanes):
            lane = lookup(self.fn)()
            m.submodules[f"lane{j}"] = place(lane, module_name("lane", self.fn))
            value = group.word_select(j, 32)
            m.d.comb += [lane.en.eq(working & ~fresh), lane.a.eq(old.word_select(j, 32)), lane.b.eq(value)]
            sums.append(Mux(fresh, value, lane.o))
        m.d.comb += [
            tile_write.addr.eq(target),
            tile_write.data.eq(Cat(sums).replicate(steps)),
            tile_write.en.eq(Mux(working, 1 << first_step, 0)),
            extent_write.addr.eq(index),
            extent_write.data.eq(Cat(beat.rows, beat.cols)),
            extent_write.en.eq(taken & initial),
            stop_write.addr.eq(index),
            stop_write.data.eq(Array(sum(not self.reduce >> d & 1 for d in range(s)) for s in range(16))[beat.stop]),
            stop_write.en.eq(taken),
        ]

        with m.If(taken & last):
            m.d.sync += total.eq(index + 1)
        end_of_group = taken & last
        if steps > 1:
            with m.If(taken & last):
                m.d.sync += ending.eq(1)
            end_of_group = ending & (wait == 1)
        m.d.comb += drained_next.eq(drained + (draining & self.o0.ready))
        with m.If(end_of_group):
            m.d.sync += [ending.eq(0), draining.eq(1)]
            m.d.comb += drained_next.eq(0)
        with m.Elif(draining & self.o0.ready & (drained + 1 == total)):
            m.d.sync += draining.eq(0)
        m.d.sync += drained.eq(drained_next)
        with m.If(take & done):
            m.d.sync += leaving.eq(1)
        with m.Elif(self.o0.ready):
            m.d.sync += leaving.eq(0)
        m.d.comb += [port.addr.eq(drained_next) for port in (tile_out, extent_out, stop_out)]
        m.d.comb += self.o0.valid.eq(draining | leaving)
        with m.If(draining):
            m.d.comb += self.o0.payload.eq(Cat(tile_out.data, extent_out.data, stop_out.data, 1))
        with m.Else():
            m.d.comb += [self.o0.payload.stop.eq(15), self.o0.payload.data.eq(0)]
        self.report(m, offers=self.o0.valid)
        return m

    def _walk(self, m, taken, reset, index, index_next, top):
        """Position of the beats: drives the next ``index``; returns whether the head beat opens its accumulator."""
        stop = self.i0.payload.stop
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
            m.d.sync += [register.eq(register.init) for register in [*start.values(), *first.values()]]
        m.d.sync += index.eq(index_next)
        return Cat(first.values()).all()
