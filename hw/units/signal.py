"""One token for each element of some inner dimensions."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.hdl import Signal as Register

from ...machine.beat import STOP_DONE, Scalar
from ..beat import is_done
from .unit import Unit


class Signal(Unit):
    """Takes ``level`` inner dimensions and gives one token when they end: all of it has been read.

    Timing
    ------
    L = 0, II = 1; a beat inside an element needs no slot. Source: docs/timing.md section 3,
    ``signal``.
    """

    implements = "signal"

    def __init__(self, **built):
        super().__init__(**built)
        token = self.payloads.outputs[0]
        if token != Scalar(1):
            raise ValueError(f"Payload of the output must be {Scalar(1)!r}, not {token!r}")

    def elaborate(self, platform):
        m = Module()
        beat = self.data.payload
        o = self.tokens
        level = self.settings.level
        before = Register(4, init=STOP_DONE)  # stop of the beat before
        ends = Register()
        empty = Register()
        data = Register()
        stop = Register(4)
        m.d.comb += [
            ends.eq(beat.stop >= level),
            empty.eq(~beat.data & (beat.stop > level) & ((level == 0) | (before > level))),
            data.eq(~is_done(beat) & ~empty),
            stop.eq(Mux(is_done(beat), STOP_DONE, beat.stop - level)),
            o.valid.eq(self.data.valid & ends),
            o.payload.eq(Cat(data, stop, data)),
            self.data.ready.eq(o.ready | ~ends),
        ]
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += before.eq(beat.stop)
        self.report(m, offers=o.valid)
        return m
