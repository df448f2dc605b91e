"""Floating-point multiplication."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .format import FP32, Format
from .lane import Lane, Stages, Through, let
from .rounding import Special, round_steps

__all__ = ["Mul", "bf16_mul", "fp32_mul", "mul_steps"]


def mul_steps(
    m: Module,
    stages: Stages | Through,
    a: Value,
    b: Value,
    form: Format = FP32,
    *,
    name: str = "mul",
) -> Signal:
    """a * b, in three stages, the last one open; signals are named ``name``_... in ``m``."""
    f = form.fraction
    nan, zero, inf, sign, exponent = _flags(m, a, b, form, name)
    half_width = (f + 1) // 2
    x = form.significand(a)
    y = form.significand(b)
    s = stages.cut(
        low=x * y[:half_width],
        high=x * y[half_width:],
        sign=sign,
        exponent=exponent,
        nan=nan,
        zero=zero,
        inf=inf,
    )

    product = let(m, f"{name}_product", (s.low + (s.high << half_width))[: 2 * f + 2])
    s = stages.cut(
        product=product, sign=s.sign, exponent=s.exponent, nan=s.nan, zero=s.zero, inf=s.inf
    )

    product = s.product
    top = product[-1]
    biased = let(m, f"{name}_biased", s.exponent + top)
    mantissa = let(m, f"{name}_mantissa", Mux(top, product[f + 1 : 2 * f + 1], product[f : 2 * f]))
    half = Mux(top, product[f], product[f - 1])
    below = product[: f - 1].any() | (top & product[f - 1])
    return round_steps(
        m,
        form,
        sign=s.sign,
        biased=biased,
        mantissa=mantissa,
        half=half,
        below=below,
        special=Special(s.nan, s.zero, s.inf),
        name=name,
    )


def _flags(m: Module, a: Value, b: Value, form: Format, name: str) -> tuple[Value, ...]:
    """Whether the product is NaN, zero, infinite; its sign; the sum of the exponents (biased)."""

    def named(label, value):
        return let(m, f"{name}_{label}", value)

    zero = named("zero", form.is_zero(a) | form.is_zero(b))
    special = named("special", a[-1 - form.exponent : -1].all() | b[-1 - form.exponent : -1].all())
    nan = named("nan", form.is_nan(a) | form.is_nan(b) | (special & zero))
    exponent = named(
        "exponent", a[-1 - form.exponent : -1] + b[-1 - form.exponent : -1] - form.bias
    )
    return nan, zero, special, named("sign", a[-1] ^ b[-1]), exponent


def fp32_mul(m: Module, a: Value, b: Value, *, name: str = "mul") -> Signal:
    """a * b of fp32 operands in combinational logic, named ``name``_... in ``m``."""
    return mul_steps(m, Through(m, Const(1)), a, b, name=name)


def bf16_mul(m: Module, a: Value, b: Value, *, name: str = "mul") -> Signal:
    """The fp32 product of two 16-bit bf16 operands: exact, unless it overflows or is flushed."""
    nan, zero, inf, sign, exponent = _flags(m, a, b, Format("bf16", 8, 7), name)
    product = let(m, f"{name}_product", Cat(a[:7], Const(1, 1)) * Cat(b[:7], Const(1, 1)))
    top = product[-1]
    biased = let(m, f"{name}_biased", exponent + top)
    fraction = Cat(Const(0, 8), Mux(top, product[:-1], Cat(Const(0, 1), product[:-2])))
    return round_steps(
        m,
        FP32,
        sign=sign,
        biased=biased,
        mantissa=fraction,
        half=Const(0),
        below=Const(0),
        special=Special(nan, zero, inf),
        name=name,
    )


class Mul(Lane):
    """``o`` = ``a * b``, correctly rounded.

    Parameters
    ----------
    form : Format
    pipelined : bool

    Timing
    ------
    Combinational (``STAGES`` = 1), or pipelined 3: two partial products; their sum; round.

    """

    STAGES = 3

    def __init__(self, *, form: Format = FP32, pipelined: bool = False):
        self.form = form
        super().__init__(arity=2, width=form.width, pipelined=pipelined)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        m.d.comb += self.o.eq(mul_steps(m, stages, self.a, self.b, self.form))
        assert stages.count == self.STAGES
        return m
