"""One token for each element of some inner dimensions, or the numbers in it reduced to one."""

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.hdl import Signal as Register

from ...machine.beat import STOP_DONE, Scalar
from ..beat import is_done
from .unit import Unit


class Signal(Unit):
    """Takes ``level`` inner dimensions and gives one token when they end: all of it has been read;
    with ``fn`` the numbers that they hold, reduced.

    Timing
    ------
    L = 0, II = 1; a beat inside an element needs no slot. Source: docs/timing.md section 3,
    ``signal``.
    """

    implements = "signal"

    def __init__(self, **built):
        super().__init__(**built)
        self.fn = self.kind.fn  # fixed in a slot, too
        if self.fn is None:
            self.expect("output", self.payloads.outputs[0], Scalar(1))

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        o = self.tokens
        level = self.settings.level
        scan = self.kind.scan
        before = Register(4, init=STOP_DONE)  # stop of the beat before
        ends = Register()
        empty = Register()
        data = Register()
        stop = Register(4)
        closes = Register()
        value = data if self.fn is None else self._state(m, closes)
        m.d.comb += [
            closes.eq(beat.stop >= level),
            ends.eq(closes | scan),
            empty.eq(~beat.data & (beat.stop > level) & ((level == 0) | (before > level))),
            data.eq(beat.data if scan else ~is_done(beat) & ~empty),
            stop.eq(Mux(is_done(beat) | scan, beat.stop, beat.stop - level)),
            o.valid.eq(self.data.valid & ends),
            o.payload.eq(Cat(value, stop, data)),
            self.data.ready.eq(o.ready | ~ends),
        ]
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += before.eq(beat.stop)
        self.report(m, offers=o.valid)
        return m

    def _state(self, m: Module, closes: Value) -> Value:
        """The state with the number at hand; 0 where no data leave."""
        beat = self.data.payload
        width = self.payloads.outputs[0].bits
        state = Register(width)
        follows = Register(width)
        fresh = Register(init=1)
        was = Mux(fresh, Const(self.kind.init, width), state)
        number = beat.hot if self.fn == "or" else beat.value
        reduced = {
            "add": was + number,
            "mul": was * number,
            "max": Mux(was > number, was, number),
            "min": Mux(was < number, was, number),
            "or": was | number,
        }[self.fn]
        m.d.comb += follows.eq(Mux(beat.data, reduced, was))
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += [state.eq(follows), fresh.eq(closes)]
        return Mux(self.tokens.payload.data, follows, 0)[:width]
