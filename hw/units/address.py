"""Arithmetic on numbers: addresses from pairs of them, and functions of one and a constant."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...machine.faults import Fault
from ...machine.kinds import ADDRESS_BITS
from .unit import Unit

HALF = ADDRESS_BITS // 2


class Address(Unit):
    """a * stride + b, or another function of a * stride and b, or a constant, element by element.

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
        o = self.result
        if self.kind.alone:
            m.d.comb += [o.valid.eq(self.a.valid), self.a.ready.eq(o.ready)]
        else:
            b = self.b.payload
            m.d.comb += [
                o.valid.eq(self.a.valid & self.b.valid),
                self.a.ready.eq(o.ready & self.b.valid),
                self.b.ready.eq(o.ready & self.a.valid),
                self.error[Fault.STOP].eq(o.valid & ((a.stop != b.stop) | (a.data != b.data))),
            ]
        m.d.comb += o.payload.eq(Cat(self._result(m), a.stop, a.data))
        self.report(m, offers=o.valid)
        return m

    def _result(self, m: Module) -> Value:
        """The function's value, or 0 without data."""
        kind = self.kind
        y = Const(kind.constant, ADDRESS_BITS) if kind.alone else self.b.payload.value
        if kind.fn == "add":
            return self._sum(m, y)
        x = Signal(ADDRESS_BITS)
        m.d.comb += x.eq(self._sum(m, y if kind.fn == "hot" else Const(0, ADDRESS_BITS)))
        if kind.fn == "hot":
            some = self.a.payload.data & (x < kind.targets)
            return Mux(some, 1 << x[: kind.targets.bit_length()], 0)[: kind.targets]
        value = {
            "min": Mux(x < y, x, y),
            "max": Mux(x < y, y, x),
            "less": x < y,
            "equal": x == y,
            "place": x + _quotient(x, kind.divisor) * y,
        }[kind.fn]
        return Mux(self.a.payload.data, value | Const(0, ADDRESS_BITS), 0)[:ADDRESS_BITS]

    def _sum(self, m: Module, b: Value) -> Value:
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
            more.eq(b),
        ]
        some = a.data.replicate(HALF)
        crossed, carries = _saved(m, "crossed", left, right, more[HALF:])
        upper, carries = _saved(m, "upper", crossed, carries, low[HALF:])
        first = Cat(low[:HALF] & some, upper & some)
        second = Cat(more[:HALF] & some, carries & some)
        return (first + second)[:ADDRESS_BITS]


def _quotient(x: Value, divisor: int) -> Value:
    """x // divisor, a product with the reciprocal rounded up."""
    shift = ADDRESS_BITS + (divisor - 1).bit_length()
    return (x * Const(-(-(1 << shift) // divisor), ADDRESS_BITS + 1)) >> shift


def _saved(m: Module, name: str, a: Value, b: Value, c: Value) -> tuple[Signal, Signal]:
    """The sum of three numbers as that of two: no carry goes on."""
    total = Signal(HALF, name=name)
    carries = Signal(HALF, name=f"{name}_carries")
    m.d.comb += [total.eq(a ^ b ^ c), carries.eq(((a & b) | (c & (a | b))) << 1)]
    return total, carries
