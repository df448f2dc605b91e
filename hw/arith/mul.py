"""Floating-point multiplication."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .format import FP32, Format
from .lane import Lane, Stages, Through, let
from .product import products
from .rounding import round_steps


def mul_steps(
    m: Module,
    stages: Stages | Through,
    a: Value,
    b: Value,
    form: Format = FP32,
    *,
    name: str = "mul",
) -> Signal:
    """a * b, in three stages (deep: five), the last one open; signals are named ``name``_... in
    ``m``.
    """
    f = form.fraction
    s = _flags(m, a, b, form, name)
    s = _product(m, stages, s, form.significand(a), form.significand(b), name)
    product = s.product
    top = product[-1]
    biased = let(m, f"{name}_biased", s.exponent + top)
    mantissa = let(m, f"{name}_mantissa", Mux(top, product[f + 1 : 2 * f + 1], product[f : 2 * f]))
    half = Mux(top, product[f], product[f - 1])
    below = product[: f - 1].any() | (top & product[f - 1])
    return round_steps(
        m, stages, form, s, biased=biased, mantissa=mantissa, half=half, below=below, name=name
    )


def _product(
    m: Module, stages: Stages | Through, s: SimpleNamespace, x: Value, y: Value, name: str
) -> SimpleNamespace:
    """The product of two significands, beside the flags: two stages that end."""
    if stages.deep:
        s = products(m, stages, s, product=(x, y))
        product = s.product
    else:
        half_width = len(x) // 2
        s = stages.cut(s, low=x * y[:half_width], high=x * y[half_width:])
        product = (s.low + (s.high << half_width))[: 2 * len(x)]
    return stages.cut(s, product=let(m, f"{name}_product", product))


def _flags(m: Module, a: Value, b: Value, form: Format, name: str) -> SimpleNamespace:
    """Flags of the product: NaN, zero, infinite; its sign; the sum of the exponents (biased)."""

    def named(label, value):
        return let(m, f"{name}_{label}", value)

    zero = named("zero", form.is_zero(a) | form.is_zero(b))
    special = named("special", a[-1 - form.exponent : -1].all() | b[-1 - form.exponent : -1].all())
    nan = named("nan", form.is_nan(a) | form.is_nan(b) | (special & zero))
    exponent = named(
        "exponent", a[-1 - form.exponent : -1] + b[-1 - form.exponent : -1] - form.bias
    )
    sign = named("sign", a[-1] ^ b[-1])
    return SimpleNamespace(nan=nan, zero=zero, inf=special, sign=sign, exponent=exponent)


def fp32_mul(m: Module, a: Value, b: Value, *, name: str = "mul") -> Signal:
    """a * b of fp32 operands in combinational logic, named ``name``_... in ``m``."""
    return mul_steps(m, Through(m, Const(1)), a, b, name=name)


def bf16_mul(m: Module, a: Value, b: Value, *, name: str = "mul") -> Signal:
    """The fp32 product of two 16-bit bf16 operands: exact, unless it overflows or is flushed."""
    return bf16_mul_steps(m, Through(m, Const(1)), a, b, name=name)


def bf16_mul_steps(
    m: Module, stages: Stages | Through, a: Value, b: Value, *, name: str = "mul"
) -> Signal:
    """The same in one stage (deep: four), the last one open."""
    s = _flags(m, a, b, Format("bf16", 8, 7), name)
    product = let(m, f"{name}_product", Cat(a[:7], Const(1, 1)) * Cat(b[:7], Const(1, 1)))
    s = stages.fine(s, product=product)
    product = s.product
    top = product[-1]
    biased = let(m, f"{name}_biased", s.exponent + top)
    fraction = Cat(Const(0, 8), Mux(top, product[:-1], Cat(Const(0, 1), product[:-2])))
    return round_steps(
        m,
        stages,
        FP32,
        s,
        biased=biased,
        mantissa=fraction,
        half=Const(0),
        below=Const(0),
        name=name,
    )


class Bf16Mul(Lane):
    """``o`` = the product of two bf16 numbers, in the upper halves of ``a`` and ``b``; fp32, exact
    unless it overflows or is flushed.

    Timing
    ------
    Deep, 5: take; product; normalise; round; select.
    """

    DEEP = 5

    def __init__(self):
        super().__init__(arity=2, deep=True)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        s = stages.cut(a=self.a[16:], b=self.b[16:])
        m.d.comb += self.o.eq(bf16_mul_steps(m, stages, s.a, s.b))
        assert stages.count == self.STAGES
        return m


class Mul(Lane):
    """``o`` = ``a * b``, correctly rounded.

    Timing
    ------
    Combinational (``STAGES`` = 1), or pipelined 3: two partial products; their sum; round. Deep 5
    (fp64: 6): partial products; their sum (in two steps); normalise; round; select.
    """

    STAGES = 3

    def __init__(self, *, form: Format = FP32, pipelined: bool = False, deep: bool = False):
        self.form = form
        self.DEEP = 5 if form == FP32 else 6
        super().__init__(arity=2, width=form.width, pipelined=pipelined, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        m.d.comb += self.o.eq(mul_steps(m, stages, self.a, self.b, self.form))
        assert stages.count == self.STAGES
        return m
