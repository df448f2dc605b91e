"""The reciprocal of the square root."""

from amaranth.hdl import Cat, Const, Module, Mux

from ...machine import segments
from .cubic import cubic_steps
from .exp2 import pack
from .format import FP32
from .lane import Lane, let


class Rsqrt(Lane):
    """``o`` = 1 / sqrt ``a``, fp32, below 0.52 ulp. The infinity of its sign for a zero, NaN for
    negative numbers.

    Timing
    ------
    ``STAGES`` = 4: three steps of the polynomial; round. Deep 10.
    """

    STAGES = 4
    DEEP = 10

    def __init__(self, *, deep: bool = False):
        super().__init__(arity=1, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        fraction, exponent, sign = FP32.fields(self.a)
        zero = let(m, "zero", FP32.is_zero(self.a))
        keep = {
            "nan": FP32.is_nan(self.a) | (sign & ~zero),
            "inf": exponent.all(),
            "zero": zero,
            "sign": sign,
        }
        half = let(m, "half", 126 - (exponent - FP32.bias >> 1))
        index = Cat(fraction[16:], ~exponent[0])
        s = cubic_steps(m, stages, segments.rsqrt(), index, fraction[:16], half=half, **keep)
        s = stages.cut(s, mantissa=s.value[2:33])
        s = pack(m, stages, s, s.mantissa, s.half)
        common = Mux(s.inf, 0, s.magnitude)
        infinite = Cat(Const(FP32.inf, 31), s.sign)
        m.d.comb += self.o.eq(Mux(s.nan, FP32.nan, Mux(s.zero, infinite, common)))
        assert stages.count == self.STAGES
        return m
