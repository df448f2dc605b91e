"""Conversions between fp32 and bf16."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .lane import Lane, let


def canonical(m: Module, a: Value, *, name: str = "canonical") -> Signal:
    """``a``, 32 bits of fp32, with subnormals flushed and NaNs made canonical."""
    nan = a[23:31].all() & a[:23].any()
    return let(m, name, Mux(nan, 0x7FC00000, Cat(Mux(a[23:31].any(), a[:31], 0), a[31])))


def bf16_round(m: Module, a: Value, *, name: str = "cast") -> Signal:
    """The 16 bits of ``a`` rounded to bf16, nearest even."""
    a = canonical(m, a, name=f"{name}_a")
    return let(m, f"{name}_out", (a[16:] + (a[15] & (a[:15].any() | a[16])))[:16])


class CastBf16(Lane):
    """``o`` = ``a`` rounded to bf16, in the upper half of the word; the lower half is zero.

    Combinational (``STAGES`` = 1).
    """

    STAGES = 1

    def __init__(self):
        super().__init__(arity=1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(Cat(Const(0, 16), bf16_round(m, self.a)))
        return m


class CastFp32(Lane):
    """``o`` = the fp32 value of the bf16 number in the upper half of ``a``.

    Combinational (``STAGES`` = 1).
    """

    STAGES = 1

    def __init__(self):
        super().__init__(arity=1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(canonical(m, self.a))
        return m
