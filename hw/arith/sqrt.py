"""The square root."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux

from .format import FP32, Format
from .lane import Lane, joined, let


class Sqrt(Lane):
    """``o`` = the square root of ``a``, correctly rounded: one bit after the other. -0 for -0, NaN
    for other negative numbers.

    Timing
    ------
    Pipelined: ``BITS`` = 4 bits a stage, and one stage that rounds: 8 in fp32. Not pipelined,
    ``STAGES`` = 1. Deep: two bits a stage, and two stages that round: 15 in fp32.
    """

    def __init__(self, *, form: Format = FP32, pipelined: bool = True, deep: bool = False):
        self.form = form
        self.BITS = 2 if deep else 4
        stages = -(-(form.fraction + 2) // self.BITS)
        self.STAGES = stages + 1
        self.DEEP = stages + 2
        super().__init__(arity=1, width=form.width, pipelined=pipelined, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        form, f, a = self.form, self.form.fraction, self.a
        _fraction, exponent, sign = form.fields(a)
        zero = let(m, "zero", form.is_zero(a))
        nan = let(m, "nan", form.is_nan(a) | (sign & ~zero))
        inf = let(m, "inf", exponent.all())
        # The significand times 1 (bias odd: exponents of value 0 are odd) or 2, 1 <= radicand < 4;
        # its root has the exponent halved.
        even = let(m, "even", ~exponent[0])
        half = let(m, "half", (exponent + form.bias)[1:])
        bits = f + 2  # one before the point, fraction, one to round with
        significand = form.significand(a)
        radicand = Cat(
            Const(0, 2 * bits - f - 2),
            Mux(even, Cat(Const(0, 1), significand), Cat(significand, Const(0, 1))),
        )
        s = SimpleNamespace(
            radicand=let(m, "radicand", radicand),
            rest=Const(0, 0),
            root=Const(0, 0),
            half=half,
            sign=sign,
            zero=zero,
            nan=nan,
            inf=inf,
        )
        for first in range(0, bits, self.BITS):
            if first:
                s = stages.cut(s)
            for k in range(first, min(first + self.BITS, bits)):
                wide = Cat(s.radicand[-2:], s.rest)
                # the top bit is the borrow
                less = let(m, f"less{k}", wide - Cat(Const(1, 2), s.root))
                rest = let(m, f"rest{k}", Mux(less[-1], wide, less)[: k + 2])
                s = joined(s, rest=rest, root=Cat(~less[-1], s.root), radicand=s.radicand[:-2])
        s = stages.cut(s)
        rounded = let(
            m, "rounded", Cat(s.root[1 : f + 1], s.half) + (s.root[0] & (s.rest.any() | s.root[1]))
        )
        s = stages.fine(s, rounded=rounded)
        rounded = s.rounded
        magnitude = Mux(s.zero, 0, Mux(s.inf, form.inf, rounded[: form.width - 1]))
        m.d.comb += self.o.eq(Mux(s.nan, form.nan, Cat(magnitude[: form.width - 1], s.sign)))
        assert stages.count == self.STAGES
        return m
