"""The hyperbolic tangent."""

from amaranth.hdl import Cat, Const, Module, Mux

from ...machine import segments
from .cubic import magnitude_steps
from .exp2 import pack
from .format import FP32
from .lane import Lane, let
from .product import products


class Tanh(Lane):
    """``o`` = tanh ``a``, fp32, below 0.79 ulp: ``a`` times a polynomial of its magnitude; 1 with
    its sign from 16 on.

    Timing
    ------
    ``STAGES`` = 5: three steps of the polynomial; times a; round. Deep 16.
    """

    STAGES = 5
    DEEP = 16

    def __init__(self, *, deep: bool = False):
        super().__init__(arity=1, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        s = magnitude_steps(m, stages, segments.tanh(), self.a, a=self.a)
        s = stages.cut(s, ratio=s.value[:34])
        s = products(m, stages, s, w=(s.ratio, FP32.significand(s.a)))
        s = stages.cut(s, w=s.w[23:58])
        over = Const(0, 3)
        for k in range(1, 5):
            over = Mux(s.w[30 + k], k, over)
        over = let(m, "over", over)
        mantissa = let(m, "mantissa", (s.w >> over)[:31])
        exponent = let(m, "exponent", s.a[23:31] - 4 + over)
        s = stages.fine(s, mantissa=mantissa, exponent=exponent)
        s = pack(m, stages, s, s.mantissa, s.exponent)
        exponent = s.a[23:31]
        size = Mux(exponent >= 131, FP32.one, Mux(exponent.any(), s.magnitude, 0))
        m.d.comb += self.o.eq(Mux(FP32.is_nan(s.a), FP32.nan, Cat(size[:31], s.a[31])))
        assert stages.count == self.STAGES
        return m
