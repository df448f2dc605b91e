"""fp32 and bf16 multiplication."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .lane import Lane, let


__all__ = ["Mul", "fp32_mul", "bf16_mul"]


def _significand(x: Value) -> Value:
    return Cat(x[:-9], Const(1, 1))


def _multiply(m: Module, a: Value, b: Value, name: str) -> Signal:
    width = len(a) - 8                          # of the significand
    def named(label, value):
        return let(m, f"{name}_{label}", value)

    ea, eb = a[-9:-1], b[-9:-1]
    sign = named("sign", a[-1] ^ b[-1])
    product = named("product", _significand(a) * _significand(b))
    top = product[-1]
    biased = named("exponent", ea + eb - 127 + top)
    if width == 24:
        mantissa = named("mantissa", Mux(top, product[24:47], product[23:46]))
        half = Mux(top, product[23], product[22])
        below = product[:22].any() | (top & product[22])
        # At exponent 0 the result is subnormal and flushed, unless it rounds to the least normal number:
        # when all bits of the mantissa are ones, so that adding one carries into the exponent.
        up = (biased == 0) | (half & (below | mantissa[0]))
        rounded = named("rounded", (Cat(mantissa, biased[:9]) + up)[:32])
    else:
        fraction = Mux(top, product[:-1], Cat(Const(0, 1), product[:-2]))
        rounded = named("rounded", Cat(Const(0, 24 - len(product)), fraction, biased[:9]))

    zero = ~ea.any() | ~eb.any()
    tiny = named("tiny", zero | (biased < 0) | ~rounded[23:32].any())
    special = named("special", ea.all() | eb.all())
    nan = named("nan", (ea.all() & a[:-9].any()) | (eb.all() & b[:-9].any()) | (special & zero))
    huge = special | ((biased >= 0) & (rounded[23:32] >= 255))
    magnitude = Mux(huge, 0x7F800000, Mux(tiny, 0, rounded[:31]))
    return named("out", Mux(nan, 0x7FC00000, Cat(magnitude[:31], sign)))


def fp32_mul(m: Module, a: Value, b: Value, *, name: str = "mul") -> Signal:
    """a * b of fp32 operands in combinational logic, named ``name``_... in ``m``."""
    return _multiply(m, a, b, name)


def bf16_mul(m: Module, a: Value, b: Value, *, name: str = "mul") -> Signal:
    """The fp32 product of two 16-bit bf16 operands: exact, unless it overflows or is flushed."""
    return _multiply(m, a, b, name)


class Mul(Lane):
    """``o`` = ``a * b``. Combinational (``STAGES`` = 1)."""

    STAGES = 1

    def __init__(self):
        super().__init__(arity=2)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(fp32_mul(m, self.a, self.b))
        return m
