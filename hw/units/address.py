"""Addresses from pairs of numbers."""

from amaranth.hdl import Cat, Module, Signal, Value

from ...machine.faults import Fault
from ...machine.kinds import ADDRESS_BITS
from .unit import Unit

HALF = ADDRESS_BITS // 2


class Address(Unit):
    """a * stride + b, element by element.

    Members
    -------
    ``cfg.stride``: 32 bits. ``error`` bit ``Fault.STOP``: the inputs differ in stop or data.

    Timing
    ------
    L = 0, II = 1: fires when both heads are visible and the output has a slot; multipliers and
    adders are combinational. Source: docs/timing.md section 3, ``address``.
    """

    implements = "address"

    def elaborate(self, platform):
        m = Module()
        a = self.a.payload
        b = self.b.payload
        o = self.result
        m.d.comb += [
            o.valid.eq(self.a.valid & self.b.valid),
            self.a.ready.eq(o.ready & self.b.valid),
            self.b.ready.eq(o.ready & self.a.valid),
            o.payload.eq(Cat(self._value(m), a.stop, a.data)),
            self.error[Fault.STOP].eq(o.valid & ((a.stop != b.stop) | (a.data != b.data))),
        ]
        self.report(m, offers=o.valid)
        return m

    def _value(self, m: Module) -> Value:
        """a * stride + b, or 0 without data: products of halves side by side, terms that are added
        without carries, then one sum.
        """
        a = self.a.payload
        stride = self.cfg.stride
        low = Signal(ADDRESS_BITS)
        left = Signal(HALF)
        right = Signal(HALF)
        more = Signal(ADDRESS_BITS)
        m.d.comb += [
            low.eq(a.value[:HALF] * stride[:HALF]),
            left.eq(a.value[:HALF] * stride[HALF:]),
            right.eq(a.value[HALF:ADDRESS_BITS] * stride[:HALF]),
            more.eq(self.b.payload.value),
        ]
        some = a.data.replicate(HALF)
        crossed, carries = _saved(m, "crossed", left, right, more[HALF:])
        upper, carries = _saved(m, "upper", crossed, carries, low[HALF:])
        first = Cat(low[:HALF] & some, upper & some)
        second = Cat(more[:HALF] & some, carries & some)
        return (first + second)[:ADDRESS_BITS]


def _saved(m: Module, name: str, a: Value, b: Value, c: Value) -> tuple[Signal, Signal]:
    """The sum of three numbers as that of two: no carry goes on."""
    total = Signal(HALF, name=name)
    carries = Signal(HALF, name=f"{name}_carries")
    m.d.comb += [total.eq(a ^ b ^ c), carries.eq(((a & b) | (c & (a | b))) << 1)]
    return total, carries
