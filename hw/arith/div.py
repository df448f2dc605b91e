"""Floating-point division."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from .format import FP32, FP64, Format
from .lane import Lane, let
from .recip import reciprocal_steps
from .rounding import Special, round_steps

__all__ = ["DigitDiv", "Div", "divider"]

KEEP = ("sign", "exponent", "nan", "zero", "inf")


def _flags(m: Module, a: Signal, b: Signal, form: Format) -> dict[str, Signal]:
    """Of the quotient: sign, biased exponent if its significand is
    below one, and whether it is NaN, zero, infinite.
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


def _rounded(m: Module, form: Format, quotient: Signal, exact: Signal, s) -> Signal:
    """The quotient of the significands, ``fraction + 2`` bits behind
    the point and one before it, rounded.
    """
    f = form.fraction
    top = quotient[f + 2]
    return round_steps(
        m,
        form,
        sign=s.sign,
        biased=let(m, "biased", s.exponent + top),
        mantissa=let(m, "mantissa", Mux(top, quotient[2 : f + 2], quotient[1 : f + 1])),
        half=Mux(top, quotient[1], quotient[0]),
        below=~exact | (top & quotient[0]),
        special=Special(s.nan, s.zero, s.inf),
        name="div",
    )


class Div(Lane):
    """``o`` = ``a / b``, fp32, correctly rounded.

    The reciprocal of b gives a quotient of 26 bits that is exact or one
    unit too small; its remainder tells which, and rounds it.

    Parameters
    ----------
    pipelined : bool

    Timing
    ------
    ``STAGES`` = 6: three for the reciprocal; the quotient; its product
    with b; correct and round. Not pipelined, 1.

    """

    STAGES = 6

    def __init__(self, *, pipelined: bool = True):
        super().__init__(arity=2, pipelined=pipelined)

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

        keep = ("a", "b", *KEEP)
        s = stages.cut(reciprocal=s.reciprocal, **{name: getattr(s, name) for name in keep})
        quotient = (Cat(s.a, Const(1, 1)) * s.reciprocal)[30:56]
        s = stages.cut(quotient=quotient, **{name: getattr(s, name) for name in keep})
        back = (s.quotient * Cat(s.b, Const(1, 1)))[:27]
        s = stages.cut(quotient=s.quotient, back=back, **{name: getattr(s, name) for name in keep})

        # The remainder is below 2 * b, so its low 27 bits say everything.
        divisor = Cat(s.b, Const(1, 1))
        rest = let(m, "rest", (Cat(Const(0, 25), s.a, Const(1, 1))[:27] - s.back)[:27])
        more = let(m, "more", rest >= divisor)
        quotient = let(m, "quotient", (s.quotient + more)[:26])
        exact = let(m, "exact", rest == Mux(more, divisor, 0))
        m.d.comb += self.o.eq(_rounded(m, FP32, quotient, exact, s))
        assert stages.count == self.STAGES
        return m


class DigitDiv(Lane):
    """``o`` = ``a / b``, correctly rounded, of any format: one bit of the quotient after the other.

    Parameters
    ----------
    form : Format
    pipelined : bool

    Timing
    ------
    Pipelined: :data:`BITS` bits a stage, and one stage that rounds: 15
    in fp64. Not pipelined, ``STAGES`` = 1.

    """

    BITS = 4

    def __init__(self, *, form: Format = FP64, pipelined: bool = True):
        self.form = form
        self.STAGES = -(-(form.fraction + 3) // self.BITS) + 1
        super().__init__(arity=2, width=form.width, pipelined=pipelined)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        form, bits = self.form, self.form.fraction + 3
        s = None
        values = dict(
            rest=form.significand(self.a),
            divisor=form.significand(self.b),
            quotient=Const(0, 0),
            **_flags(m, self.a, self.b, form),
        )
        for first in range(0, bits, self.BITS):
            if first:
                s = stages.cut(**values)
                values = dict(vars(s))
            rest = values["rest"]
            quotient = values["quotient"]
            for k in range(first, min(first + self.BITS, bits)):
                less = let(m, f"less{k}", rest - values["divisor"])  # its top bit is the borrow
                rest = let(m, f"rest{k}", Mux(less[-1], rest, less)[: form.fraction + 1] << 1)
                quotient = Cat(~less[-1], quotient)
            values |= dict(rest=rest, quotient=quotient)
        s = stages.cut(**values)
        m.d.comb += self.o.eq(_rounded(m, form, s.quotient, let(m, "exact", ~s.rest.any()), s))
        assert stages.count == self.STAGES
        return m


def divider(form: Format, *, pipelined: bool = True) -> Lane:
    """The divider of a format."""
    return Div(pipelined=pipelined) if form == FP32 else DigitDiv(form=form, pipelined=pipelined)
