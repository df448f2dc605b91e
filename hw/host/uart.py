"""A serial line of 8 data bits, no parity, one stop bit."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ...machine.limits import DIVISORS


def _check(divisor: int) -> None:
    if not isinstance(divisor, int) or divisor not in DIVISORS:
        raise ValueError(
            f"Divisor must be an integer from {DIVISORS[0]} to {DIVISORS[-1]}, not {divisor!r}"
        )


class UartReceiver(wiring.Component):
    """Bytes from a serial line.

    Parameters
    ----------
    divisor : int
        Clock cycles of a bit.

    Members
    -------
    rx : In(1, init=1)
        The line, of any clock.
    bytes : Out(stream.Signature(8))
        A byte, offered in one cycle: lost where it is not taken.

    Timing
    ------
    A byte comes in the middle of its stop bit; where that is low, it is dropped.
    """

    def __init__(self, *, divisor: int):
        _check(divisor)
        self.divisor = divisor
        super().__init__({"rx": In(1, init=1), "bytes": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)
        wait = Signal(range(self.divisor + self.divisor // 2))
        left = Signal(range(11))
        bits = Signal(8)
        m.d.sync += self.bytes.valid.eq(0)
        m.d.comb += self.bytes.payload.eq(bits)
        with m.If(left == 0):
            with m.If(~line):
                m.d.sync += [left.eq(10), wait.eq(self.divisor // 2 - 1)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [left.eq(left - 1), wait.eq(self.divisor - 1)]
            with m.If((left == 10) & line):  # too short for a start bit
                m.d.sync += left.eq(0)
            with m.Elif(left == 1):
                m.d.sync += self.bytes.valid.eq(line)
            with m.Elif(left != 10):
                m.d.sync += bits.eq(Cat(bits[1:], line))
        return m


class UartTransmitter(wiring.Component):
    """Bytes to a serial line.

    Parameters
    ----------
    divisor : int
        Clock cycles of a bit.

    Members
    -------
    tx : Out(1, init=1)
        The line.
    bytes : In(stream.Signature(8))

    Timing
    ------
    A byte every 10 * ``divisor`` cycles.
    """

    def __init__(self, *, divisor: int):
        _check(divisor)
        self.divisor = divisor
        super().__init__({"tx": Out(1, init=1), "bytes": In(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        wait = Signal(range(self.divisor))
        left = Signal(range(11))
        bits = Signal(10, init=1)
        m.d.comb += self.bytes.ready.eq(left == 0)
        m.d.sync += self.tx.eq(1)
        with m.If(left == 0):
            with m.If(self.bytes.valid):
                m.d.sync += [
                    left.eq(10),
                    wait.eq(self.divisor - 1),
                    bits.eq(Cat(Const(0, 1), self.bytes.payload, Const(1, 1))),
                ]
        with m.Else():
            m.d.sync += [self.tx.eq(bits[0]), wait.eq(wait - 1)]
            with m.If(wait == 0):
                m.d.sync += [
                    left.eq(left - 1),
                    wait.eq(self.divisor - 1),
                    bits.eq(Cat(bits[1:], Const(1, 1))),
                ]
        return m
