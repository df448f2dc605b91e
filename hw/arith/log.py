"""Natural logarithm."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux

from ...machine.approximation import LN2, LOG_FOLD, LOG_SCALE, LOG_TABLE, LOG_THIRD
from .exp2 import rom
from .format import FP32
from .lane import Lane, Stages, Through, joined, let
from .product import products


class Log(Lane):
    """``o`` = log ``a``, fp32, below 0.53 ulp. Minus infinity for a zero, NaN for negative numbers.

    Timing
    ------
    ``STAGES`` = 6: look up and scale; square; bend; sum; normalise;
    round. Not pipelined, 1. Deep 17.
    """

    STAGES = 6
    DEEP = 17

    def __init__(self, *, pipelined: bool = True, deep: bool = False):
        super().__init__(arity=1, pipelined=pipelined, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        a = self.a
        fraction, exponent, sign = FP32.fields(a)
        zero = let(m, "zero", FP32.is_zero(a))
        index = fraction[16:]
        fold = let(m, "fold", index >= LOG_FOLD)
        significand = FP32.significand(a)
        scale = rom(m, "scale", index, 11, LOG_SCALE)
        table = rom(m, "table", index, 56, tuple(x & (1 << 56) - 1 for x in LOG_TABLE))
        s = stages.fine(
            operand=Mux(fold, significand, Cat(Const(0, 1), significand)),
            scale=scale,
            table=table,
            exponent=exponent + fold - FP32.bias,
            nan=let(m, "nan", FP32.is_nan(a) | (sign & ~zero)),
            inf=let(m, "inf", zero | exponent.all()),
            zero=zero,
        )
        s = products(m, stages, s, scaled=(s.operand, s.scale))
        scaled = let(m, "scaled", s.scaled)
        s = stages.cut(s, r=(scaled - (1 << 34))[:28].as_signed())

        s = self._powers(m, stages, s)
        bend = let(m, "bend", ((1 << 22) - s.third + (s.square >> 33))[:23])
        s = stages.fine(s, bend=bend)
        s = joined(s, base=(s.base + (s.r << 22))[:64].as_signed())
        s = products(m, stages, s, bent=(s.square, s.bend))
        s = stages.cut(s, bent=s.bent[21:])

        s = stages.fine(s, total=let(m, "total", (s.base - s.bent)[:64].as_signed()))
        size = Mux(s.total[63], -s.total, s.total)[:63]
        s = stages.cut(s, sign=s.total[63], size=size)

        s = self._normalise(m, stages, s)
        rounded = let(
            m,
            "rounded",
            Cat(s.top[1:24], (FP32.bias + 6 - s.shift)[:8]) + (s.top[0] & (s.below | s.top[1])),
        )
        s = stages.fine(s, rounded=rounded, some=s.top[24])
        magnitude = Mux(s.inf, FP32.inf, Mux(s.some, s.rounded[:31], 0))
        m.d.comb += self.o.eq(Mux(s.nan, FP32.nan, Cat(magnitude[:31], Mux(s.inf, s.zero, s.sign))))
        assert stages.count == self.STAGES
        return m

    def _powers(self, m: Module, stages: Stages | Through, s: SimpleNamespace):
        """Square and third of r, and what exponent and table give."""
        r = s.r
        s = products(
            m,
            stages,
            s,
            square=(r, r),
            third=(r >> 11, Const(LOG_THIRD)),
            octaves=(s.exponent, Const(LN2)),
        )
        base = (s.octaves + s.table.as_signed())[:64].as_signed()
        return stages.cut(s, square=s.square[14:54], third=s.third >> 18, base=base)

    def _normalise(self, m: Module, stages: Stages | Through, s: SimpleNamespace):
        """Left until the leading one is in bit 62; the value is size * 2**-56."""
        value = s.size
        shift = []
        for step in (32, 16, 8, 4, 2, 1):
            if step in (8, 2):
                s = stages.fine(s, value=value, shift=Cat(*shift))
                value = s.value
                shift = list(s.shift)
            empty = let(m, f"empty{step}", ~value[63 - step :].any())
            value = let(m, f"norm{step}", Mux(empty, value << step, value)[:63])
            shift.insert(0, empty)
        return stages.cut(s, top=value[38:63], below=value[:38].any(), shift=Cat(*shift))
