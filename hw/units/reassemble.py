"""Collecting units of several streams where a selector says."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data

from ...machine.beat import STOP_DONE, Selector
from ...machine.faults import Fault
from ..beat import is_done, with_stop
from .arrival import ArrivalOrder
from .unit import Unit


def index_of(m: Module, hot: Signal, name: str) -> Signal:
    """The index of the one bit that is set."""
    index = Signal(range(len(hot)), name=name)
    m.d.comb += [
        index[b].eq(Cat(hot[i] for i in range(len(hot)) if i >> b & 1).any())
        for b in range(len(index))
    ]
    return index


class Reassemble(Unit):
    """One unit from every input whose bit is set, for each selector, in the order of arrival, as a
    new dimension.

    Members
    -------
    ``done`` is low while the Done of a data input is awaited. ``error`` bit ``Fault.STOP``: Done
    inside a unit, data where a Done is awaited, or a beat without data as a unit of rank 0.

    Timing
    ------
    L = 0, II = 1: a beat passes when the selector, and a beat of the unit that is open (or of the
    first to have arrived), are visible and the output has a slot. The selector leaves with its last
    beat. After the selector's Done a cycle or more goes by in which the inputs' Dones are taken.
    Source: docs/timing.md sections 3, ``reassemble``, and 3.2; paper section 3.
    """

    implements = "reassemble"

    def __init__(self, **built):
        super().__init__(**built)
        self.n = self.kind.n
        self.expect("selector", self.payloads.inputs[-1], Selector(self.n))

    def elaborate(self, platform):
        m = Module()
        n = self.n
        o = self.result
        *parts, select = self.inputs
        m.submodules.order = order = ArrivalOrder(n=n)
        ended = Signal(n)
        visible = Signal(n)
        # of this selector; Dones awaited; the unit that is open
        given = Signal(n)
        draining = Signal(n)
        current = Signal(n)
        m.d.comb += ended.eq(Cat(i.valid & is_done(i.payload) for i in parts))
        m.d.comb += visible.eq(Cat(i.valid for i in parts) & ~ended)
        idle = Signal()
        over = Signal()
        left = Signal(n)
        active = Signal(n)
        m.d.comb += [
            idle.eq(~draining.any()),
            over.eq(is_done(select.payload)),
            left.eq(Mux(select.payload.data & select.valid, select.payload.hot & ~given, 0)),
            order.visible.eq(visible),
            order.among.eq(left),
            active.eq(Mux(current.any(), current, order.first)),
        ]
        beat = self._chosen(m, active)
        moving = Signal()
        empty = Signal()
        ends = Signal()
        last = Signal()
        fire = Signal()
        moves = Signal()
        m.d.comb += [
            # nothing is wanted (any more): an empty dimension, or Done
            empty.eq(select.valid & ~left.any()),
            moving.eq((active & visible).any()),
            ends.eq(beat.stop >= self.settings.rank),
            last.eq((left & ~active) == 0),
            o.valid.eq(idle & (empty | moving)),
            fire.eq(o.valid & o.ready),
            moves.eq(fire & moving),
            order.moved.eq(Mux(moves, active, current)),
        ]
        self._result(m, beat, over, moving, ends, last)
        m.d.comb += select.ready.eq(idle & o.ready & (empty | (moving & ends & last)))
        for k, i in enumerate(parts):
            m.d.comb += i.ready.eq(Mux(idle, o.ready & moving & active[k], draining[k] & ended[k]))
        self._advance(m, moves, active, ends, last, current, given)
        with m.If(~idle):
            m.d.sync += draining.eq(draining & ~ended)
        with m.Elif(fire & over):
            m.d.sync += draining.eq(self.settings.n)
        wrong = (current & ended).any() | (draining & visible).any()
        wrong |= (self.settings.rank == 0) & idle & moving & ~beat.data
        self.report(m, offers=o.valid)
        m.d.comb += self.error[Fault.STOP].eq(wrong)
        m.d.comb += self.done.eq(Mux(idle, ~(fire & over), ~(draining & ~ended).any()))
        return m

    def _chosen(self, m: Module, active: Signal) -> data.View:
        """The head beat of the input that is active."""
        parts = self.inputs[: self.n]
        index = index_of(m, active, "index")
        beat = Signal.like(parts[0].payload)
        with m.Switch(index):
            for k, i in enumerate(parts):
                with m.Case(k):
                    m.d.comb += beat.eq(i.payload)
        return beat

    def _result(
        self, m: Module, beat: data.View, over: Signal, moving: Signal, ends: Signal, last: Signal
    ) -> None:
        """The beat that passes, or a bare stop or Done, with the stop that it gets."""
        stop = Signal(4)
        rank = self.settings.rank
        m.d.comb += stop.eq(
            Mux(
                moving & ~ends,
                beat.stop,
                Mux(moving & ~last, rank, rank + 1 + self.selector.payload.stop),
            )
        )
        with m.If(moving):
            m.d.comb += self.result.payload.eq(with_stop(beat, stop))
        with m.Else():
            m.d.comb += self.result.payload.eq(
                Cat(Const(0, self.payloads.outputs[0].bits), Mux(over, STOP_DONE, stop), 0)
            )

    def _advance(
        self,
        m: Module,
        moves: Signal,
        active: Signal,
        ends: Signal,
        last: Signal,
        current: Signal,
        given: Signal,
    ) -> None:
        """Next state after a beat: the open unit, and those that have been given."""
        with m.If(moves):
            m.d.sync += [
                current.eq(Mux(ends, 0, active)),
                given.eq(Mux(~ends, given, Mux(last, 0, given | active))),
            ]
