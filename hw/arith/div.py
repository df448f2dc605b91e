"""Floating-point division."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .format import FP32, FP64, Format
from .lane import Lane, Stages, Through, joined, let
from .product import products
from .recip import reciprocal_steps
from .rounding import round_steps


def _flags(m: Module, a: Signal, b: Signal, form: Format) -> dict[str, Signal]:
    """Flags of the quotient: sign, biased exponent if its significand is below one, and whether it
    is NaN, zero, infinite.
    """
    (_, ea, sa), (_, eb, sb) = form.fields(a), form.fields(b)
    nan = (
        form.is_nan(a)
        | form.is_nan(b)
        | (form.is_zero(a) & form.is_zero(b))
        | (form.is_inf(a) & form.is_inf(b))
    )
    return dict(
        sign=let(m, "sign", sa ^ sb),
        exponent=let(m, "exponent", ea - eb + form.bias - 1),
        nan=let(m, "nan", nan),
        zero=let(m, "zero", form.is_zero(a) | form.is_inf(b)),
        inf=let(m, "inf", form.is_inf(a) | form.is_zero(b)),
    )


def _rounded(
    m: Module, stages: Stages | Through, form: Format, quotient: Value, exact: Value, s
) -> Signal:
    """The quotient of the significands, ``fraction + 2`` bits behind the point and one before it,
    rounded.
    """
    f = form.fraction
    top = quotient[f + 2]
    return round_steps(
        m,
        stages,
        form,
        s,
        biased=let(m, "biased", s.exponent + top),
        mantissa=let(m, "mantissa", Mux(top, quotient[2 : f + 2], quotient[1 : f + 1])),
        half=Mux(top, quotient[1], quotient[0]),
        below=~exact | (top & quotient[0]),
        name="div",
    )


class Div(Lane):
    """``o`` = ``a / b``, fp32, correctly rounded.

    The reciprocal of b gives a quotient of 26 bits that is exact or one unit too small; its
    remainder tells which, and rounds it.

    Timing
    ------
    ``STAGES`` = 6: three for the reciprocal; the quotient; its product
    with b; correct and round. Not pipelined, 1. Deep 17.
    """

    STAGES = 6
    DEEP = 17

    def __init__(self, *, pipelined: bool = True, deep: bool = False):
        super().__init__(arity=2, pipelined=pipelined, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        a = self.a
        b = self.b
        s = reciprocal_steps(
            m,
            stages,
            Cat(Const(0, 7), b[:23], Const(1, 1)),
            a=a[:23],
            b=b[:23],
            **_flags(m, a, b, FP32),
        )
        s = stages.cut(s)
        s = products(m, stages, s, ratio=(Cat(s.a, Const(1, 1)), s.reciprocal))
        s = stages.cut(s, quotient=s.ratio[30:56])
        s = products(m, stages, s, back=(s.quotient, Cat(s.b, Const(1, 1))))
        s = stages.cut(s, back=s.back[:27])

        # The remainder is below 2 * b, so its low 27 bits say everything.
        rest = let(m, "rest", (Cat(Const(0, 25), s.a, Const(1, 1))[:27] - s.back)[:27])
        s = stages.fine(s, rest=rest, divisor=Cat(s.b, Const(1, 1)))
        s = stages.fine(s, more=let(m, "more", s.rest >= s.divisor))
        quotient = let(m, "quotient", (s.quotient + s.more)[:26])
        exact = let(m, "exact", s.rest == Mux(s.more, s.divisor, 0))
        s = stages.fine(s, quotient=quotient, exact=exact)
        m.d.comb += self.o.eq(_rounded(m, stages, FP32, s.quotient, s.exact, s))
        assert stages.count == self.STAGES
        return m


class DigitDiv(Lane):
    """``o`` = ``a / b``, correctly rounded, of any format: one bit of the quotient after the other.

    Timing
    ------
    Pipelined: ``BITS`` = 4 bits a stage, and one stage that rounds: 15 in fp64. Not pipelined,
    ``STAGES`` = 1. Deep: one bit a stage, and three that round: 58 in fp64.
    """

    def __init__(self, *, form: Format = FP64, pipelined: bool = True, deep: bool = False):
        self.form = form
        self.BITS = 1 if deep else 4
        digits = form.fraction + 3
        self.STAGES = -(-digits // self.BITS) + 1
        self.DEEP = digits + 3
        super().__init__(arity=2, width=form.width, pipelined=pipelined, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        form, bits = self.form, self.form.fraction + 3
        s = SimpleNamespace(
            rest=form.significand(self.a),
            divisor=form.significand(self.b),
            quotient=Const(0, 0),
            **_flags(m, self.a, self.b, form),
        )
        for first in range(0, bits, self.BITS):
            if first:
                s = stages.cut(s)
            for k in range(first, min(first + self.BITS, bits)):
                less = let(m, f"less{k}", s.rest - s.divisor)  # its top bit is the borrow
                rest = let(m, f"rest{k}", Mux(less[-1], s.rest, less)[: form.fraction + 1] << 1)
                s = joined(s, rest=rest, quotient=Cat(~less[-1], s.quotient))
        s = stages.cut(s)
        exact = let(m, "exact", ~s.rest.any())
        m.d.comb += self.o.eq(_rounded(m, stages, form, s.quotient, exact, s))
        assert stages.count == self.STAGES
        return m


def divider(form: Format, *, pipelined: bool = True, deep: bool = False) -> Lane:
    """The divider of a format."""
    if form == FP32:
        return Div(pipelined=pipelined, deep=deep)
    return DigitDiv(form=form, pipelined=pipelined, deep=deep)
