"""fp32 division."""

from amaranth.hdl import Cat, Const, Module, Mux

from .lane import Lane, Stages, let
from .recip import reciprocal_steps


__all__ = ["Div"]


class Div(Lane):
    """``o`` = ``a / b``, fp32, correctly rounded.

    The reciprocal of b gives a quotient of 26 bits that is exact or one unit too small; its remainder
    tells which, and rounds it.

    Timing
    ------
    ``STAGES`` = 6: three for the reciprocal; the quotient; its product with b; correct and round.
    """

    STAGES = 6

    def __init__(self):
        super().__init__(arity=2)

    def elaborate(self, platform):
        m = Module()
        stages = Stages(m, self.en)
        a, b = self.a, self.b
        ea, eb = a[23:31], b[23:31]
        zero_a, zero_b = ~ea.any(), ~eb.any()
        inf_a, inf_b = ea.all() & ~a[:23].any(), eb.all() & ~b[:23].any()
        nan = ((ea.all() & a[:23].any()) | (eb.all() & b[:23].any()) | (zero_a & zero_b) | (inf_a & inf_b))
        s = reciprocal_steps(m, stages, Cat(Const(0, 7), b[:23], Const(1, 1)),
                             a=a[:23], b=b[:23], exponent=ea - eb + 126, sign=a[31] ^ b[31], nan=nan,
                             zero=zero_a | inf_b, inf=inf_a | zero_b)

        keep = ("a", "b", "exponent", "sign", "nan", "zero", "inf")
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
        top = quotient[25]
        mantissa = let(m, "mantissa", Mux(top, quotient[2:25], quotient[1:24]))
        half = Mux(top, quotient[1], quotient[0])
        below = ~exact | (top & quotient[0])
        biased = let(m, "biased", s.exponent + top)
        # At exponent 0 as in a product: see there.
        up = (biased == 0) | (half & (below | mantissa[0]))
        rounded = let(m, "rounded", (Cat(mantissa, biased[:9]) + up)[:32])
        tiny = let(m, "tiny", s.zero | (~s.inf & ((biased < 0) | ~rounded[23:32].any())))
        huge = s.inf | (rounded[23:32] >= 255)
        m.d.comb += self.o.eq(Mux(s.nan, 0x7FC00000, Cat(Mux(tiny, 0, Mux(huge, 0x7F800000, rounded[:31])), s.sign)))
        assert stages.count == self.STAGES
        return m
