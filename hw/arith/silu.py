"""Sigmoid, SiLU and GELU: a factor over 1 + 2**-t."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux

from ...machine import segments
from .cubic import magnitude_steps
from .exp2 import exp2_steps, pack, power_steps
from .format import FP32
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
    ONE = False  # the factor is 1, not a

    def __init__(self, *, deep: bool = False):
        super().__init__(arity=1, deep=deep)

    def _power(self, m: Module, stages: Stages | Through) -> SimpleNamespace:
        """e, and a."""
        return exp2_steps(m, stages, self.a[:31], Const(1, 1), a=self.a)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        s = self._power(m, stages)

        s = stages.fine(s)
        small = -s.k  # k is zero or negative
        shifted = let(m, "shifted", s.mantissa >> Mux(small > 62, 62, small[:6]))
        s = stages.fine(s, shifted=shifted)
        sum_ = let(m, "sum", (1 << 30) + s.shifted)
        d = let(m, "d", Mux(sum_[31], (1 << 31) - 1, sum_)[:31])
        s = stages.cut(s, d=d, numerator=Mux(s.a[31], s.mantissa, 1 << 30), k=Mux(s.a[31], s.k, 0))

        s = stages.cut(reciprocal_steps(m, stages, **vars(s)))
        s = products(m, stages, s, sigmoid=(s.numerator, s.reciprocal))
        s = stages.cut(s, sigmoid=s.sigmoid[30:63])
        significand = FP32.significand(Const(FP32.one, 32) if self.ONE else s.a)
        s = products(m, stages, s, w=(s.sigmoid, significand))
        s = stages.cut(s, w=s.w[:57])
        self._packed(m, stages, s)
        assert stages.count == self.STAGES
        return m

    def _packed(self, m: Module, stages: Stages | Through, s: SimpleNamespace) -> None:
        """The product, rounded, or what stands for it."""
        top = let(m, "top", Mux(s.w[56], 2, s.w[55]))
        scaled = let(m, "scaled", (s.w >> 24 + top)[:32])
        factor = Const(FP32.one, 32) if self.ONE else s.a
        exponent = let(m, "exponent", factor[23:31] + s.k + top - 1)
        s = stages.fine(s, scaled=scaled, exponent=exponent)
        s = pack(m, stages, s, s.scaled, s.exponent)
        exponent = s.a[23:31]
        sign = s.a[31]
        with m.If(FP32.is_nan(s.a)):
            m.d.comb += self.o.eq(FP32.nan)
        if self.ONE:
            with m.Else():
                m.d.comb += self.o.eq(s.magnitude)
            return
        with m.Elif(exponent.all()):
            m.d.comb += self.o.eq(Mux(sign, 0x80000000, FP32.inf))
        with m.Elif(exponent == 0):
            m.d.comb += self.o.eq(Cat(Const(0, 31), sign))
        with m.Else():
            m.d.comb += self.o.eq(Cat(s.magnitude, sign))


class Sigmoid(Silu):
    """``o`` = 1 / (1 + e**-``a``), fp32, below 0.58 ulp: as :class:`Silu`, with the factor 1."""

    ONE = True


class Gelu(Silu):
    """``o`` = ``a`` (1 + erf(``a`` / sqrt(2))) / 2, fp32, below 0.58 ulp; -0 at minus infinity.

    The power is 2**-t of a polynomial t of the magnitude. ``STAGES`` = 12: three for t; otherwise
    as :class:`Silu`. Deep 35.
    """

    STAGES = 12
    DEEP = 35
    TABLE = staticmethod(segments.gelu)

    def _power(self, m: Module, stages: Stages | Through) -> SimpleNamespace:
        s = magnitude_steps(m, stages, self.TABLE(), self.a, a=self.a)
        s = stages.cut(s, size=s.value[2:41])
        t = let(m, "t", -Mux(s.a[23:31] >= 131, (1 << 39) - 1, s.size))
        return power_steps(m, stages, stages.fine(s, t=t))


class GeluTanh(Gelu):
    """``o`` = ``a`` (1 + tanh(sqrt(2 / pi) (``a`` + 0.044715 ``a``**3))) / 2, likewise."""

    TABLE = staticmethod(segments.gelu_tanh)
