"""Natural logarithm."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux

from ...machine.approximation import LN2, LOG_FOLD, LOG_SCALE, LOG_TABLE, LOG_THIRD
from .exp2 import rom
from .format import FP32
from .lane import Lane, Stages, Through, let

__all__ = ["Log"]


class Log(Lane):
    """``o`` = log ``a``, fp32, below 0.53 ulp. Minus infinity for a zero, NaN for negative numbers.

    Parameters
    ----------
    pipelined : bool

    Timing
    ------
    ``STAGES`` = 6: look up and scale; square; bend; sum; normalise; round. Not pipelined, 1.

    """

    STAGES = 6

    def __init__(self, *, pipelined: bool = True):
        super().__init__(arity=1, pipelined=pipelined)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        a = self.a
        fraction, exponent, sign = FP32.fields(a)
        zero = let(m, "zero", FP32.is_zero(a))
        flags = dict(
            nan=let(m, "nan", FP32.is_nan(a) | (sign & ~zero)),
            inf=let(m, "inf", zero | exponent.all()),
            zero=zero,
        )

        index = fraction[16:]
        fold = let(m, "fold", index >= LOG_FOLD)
        significand = FP32.significand(a)
        scaled = let(
            m,
            "scaled",
            Mux(fold, significand, Cat(Const(0, 1), significand))
            * rom(m, "scale", index, 11, LOG_SCALE),
        )
        s = stages.cut(
            r=(scaled - (1 << 34))[:28].as_signed(),
            exponent=(exponent + fold - FP32.bias),
            table=rom(m, "table", index, 56, tuple(x & (1 << 56) - 1 for x in LOG_TABLE)),
            **flags,
        )

        r = s.r
        s = stages.cut(
            r=r,
            square=(r * r)[14:54],
            third=((r >> 11) * LOG_THIRD) >> 18,
            base=(s.exponent * LN2 + s.table.as_signed())[:64].as_signed(),
            **_kept(s, flags),
        )

        bend = let(m, "bend", ((1 << 22) - s.third + (s.square >> 33))[:23])
        s = stages.cut(
            base=(s.base + (s.r << 22))[:64].as_signed(),
            bent=(s.square * bend)[21:],
            **_kept(s, flags),
        )

        total = let(m, "total", (s.base - s.bent)[:64].as_signed())
        s = stages.cut(sign=total[63], size=Mux(total[63], -total, total)[:63], **_kept(s, flags))

        s = self._normalise(m, stages, s, flags)
        rounded = let(
            m,
            "rounded",
            Cat(s.top[1:24], (FP32.bias + 6 - s.shift)[:8]) + (s.top[0] & (s.below | s.top[1])),
        )
        magnitude = Mux(s.inf, FP32.inf, Mux(s.top[24], rounded[:31], 0))
        m.d.comb += self.o.eq(Mux(s.nan, FP32.nan, Cat(magnitude[:31], Mux(s.inf, s.zero, s.sign))))
        assert stages.count == self.STAGES
        return m

    def _normalise(self, m: Module, stages: Stages | Through, s: SimpleNamespace, flags: dict):
        """Left until the leading one is in bit 62; the value is size * 2**-56."""
        value = s.size
        shift = []
        for step in (32, 16, 8, 4, 2, 1):
            empty = let(m, f"empty{step}", ~value[63 - step :].any())
            value = let(m, f"norm{step}", Mux(empty, value << step, value)[:63])
            shift.insert(0, empty)
        return stages.cut(
            sign=s.sign,
            top=value[38:63],
            below=value[:38].any(),
            shift=Cat(*shift),
            **_kept(s, flags),
        )


def _kept(s, flags: dict) -> dict:
    return {name: getattr(s, name) for name in flags}
