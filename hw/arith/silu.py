"""SiLU, x / (1 + e**-x)."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux

from .exp2 import exp2_steps, pack
from .lane import Lane, Stages, Through, let
from .product import products
from .recip import reciprocal_steps


class Silu(Lane):
    """``o`` = ``a / (1 + e**-a)``, fp32, below 0.58 ulp; -0 at minus infinity.

    With e = e**-|a|, the result is a / (1 + e), or a * e / (1 + e) where a is negative; all of it
    in fixed point with its own exponent, rounded once.

    Timing
    ------
    ``STAGES`` = 10: four for e, then 1 + e; three for its reciprocal;
    the sigmoid; times a; round. Deep 31.
    """

    STAGES = 10
    DEEP = 31

    def __init__(self, *, deep: bool = False):
        super().__init__(arity=1, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        a = self.a
        s = exp2_steps(m, stages, a[:31], Const(1, 1), a=a)

        s = stages.fine(k=s.k, mantissa=s.mantissa, a=s.a)
        small = -s.k  # k is zero or negative
        shifted = let(m, "shifted", s.mantissa >> Mux(small > 62, 62, small[:6]))
        s = stages.fine(k=s.k, mantissa=s.mantissa, shifted=shifted, a=s.a)
        sum_ = let(m, "sum", (1 << 30) + s.shifted)
        d = let(m, "d", Mux(sum_[31], (1 << 31) - 1, sum_)[:31])
        s = stages.cut(
            d=d, numerator=Mux(s.a[31], s.mantissa, 1 << 30), k=Mux(s.a[31], s.k, 0), a=s.a
        )

        s = reciprocal_steps(m, stages, s.d, numerator=s.numerator, k=s.k, a=s.a)
        s = stages.cut(reciprocal=s.reciprocal, numerator=s.numerator, k=s.k, a=s.a)
        s = products(m, stages, {"sigmoid": (s.numerator, s.reciprocal)}, k=s.k, a=s.a)
        s = stages.cut(sigmoid=s.sigmoid[30:63], k=s.k, a=s.a)
        significand = Cat(s.a[:23], Const(1, 1))
        s = products(m, stages, {"w": (s.sigmoid, significand)}, k=s.k, a=s.a)
        s = stages.cut(w=s.w[:57], k=s.k, a=s.a)
        self._packed(m, stages, s)
        assert stages.count == self.STAGES
        return m

    def _packed(self, m: Module, stages: Stages | Through, s: SimpleNamespace) -> None:
        """The product, rounded, or what stands for it."""
        top = let(m, "top", Mux(s.w[56], 2, s.w[55]))
        scaled = let(m, "scaled", (s.w >> 24 + top)[:32])
        exponent = let(m, "exponent", s.a[23:31] + s.k + top - 1)
        s = stages.fine(scaled=scaled, exponent=exponent, a=s.a)
        s = pack(m, stages, s.scaled, s.exponent, a=s.a)
        exponent = s.a[23:31]
        sign = s.a[31]
        with m.If(exponent.all() & s.a[:23].any()):
            m.d.comb += self.o.eq(0x7FC00000)
        with m.Elif(exponent.all()):
            m.d.comb += self.o.eq(Mux(sign, 0x80000000, 0x7F800000))
        with m.Elif(exponent == 0):
            m.d.comb += self.o.eq(Cat(Const(0, 31), sign))
        with m.Else():
            m.d.comb += self.o.eq(Cat(s.magnitude, sign))
