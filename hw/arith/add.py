"""Floating-point addition."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .format import FP32, Format
from .lane import Lane, Stages, Through, let


def add_steps(
    m: Module,
    stages: Stages | Through,
    a: Value,
    b: Value,
    form: Format = FP32,
    *,
    name: str = "add",
) -> Signal:
    """a + b, in four stages (deep: seven), the last one open; signals are named ``name``_... in
    ``m``.

    One adder for near and far operands: the smaller magnitude is aligned with three bits below the
    last place (the lowest sticky), and the sum normalised over its whole width. A sum too small to
    be normal is exact, hence flushed without rounding.
    """

    def named(label, value):
        return let(m, f"{name}_{label}", value)

    f = form.fraction
    e = form.exponent
    steps = _steps(form)
    furthest = 2 * steps[0] - 1  # alignment: everything is sticky from here on

    swap = named("swap", b[:-1] > a[:-1])
    big = named("big", Mux(swap, b, a))
    small = named("small", Mux(swap, a, b))
    subtract = named("subtract", a[-1] ^ b[-1])
    # Both differences, so that neither waits for the comparison.
    distance = named("distance", Mux(swap, b[f:-1] - a[f:-1], a[f:-1] - b[f:-1])[:e])
    both = named("both", a[-1] & b[-1])
    s = stages.cut(big=big, small=small, subtract=subtract, both=both, distance=distance)

    big = s.big
    small = s.small
    subtract = s.subtract
    distance = s.distance
    exponent = big[f:-1]
    x = Cat(Const(0, 3), big[:f], exponent.any())
    low = len(steps)
    wide = named(
        "wide",
        Cat(Const(0, furthest), Mux(small[f:-1].any(), Cat(small[:f], Const(1, 1)), 0))
        >> Mux(distance[low:e].any(), furthest, distance[:low]),
    )
    special = named("special", exponent.all())
    nan = named("nan", special & (big[:f].any() | (subtract & small[f:-1].all())))
    s = stages.fine(s, wide=wide, x=x, exponent=exponent, sign=big[-1], special=special, nan=nan)

    wide = s.wide
    x = s.x
    y = named(
        "y",
        Cat(wide[furthest - 3] | wide[: furthest - 3].any(), wide[furthest - 2 : furthest + f + 1]),
    )
    value = named("sum", (x + (y ^ s.subtract.replicate(f + 4)) + s.subtract)[: f + 5])
    value = named("total", Cat(value[:-1], value[-1] & ~s.subtract))
    s = stages.cut(s, value=value)

    return _normalise(m, stages, s, form, name)


def _steps(form: Format) -> list[int]:
    """Powers of two that add up to every shift of a sum, the largest first."""
    return [1 << k for k in reversed(range((form.fraction + 4).bit_length()))]


def _normalise(
    m: Module, stages: Stages | Through, s: SimpleNamespace, form: Format, name: str
) -> Signal:
    """A sum, shifted until its highest bit is one."""
    f = form.fraction
    steps = _steps(form)
    value = s.value
    shift = []
    for step in steps:
        if step == steps[len(steps) // 2]:
            s = stages.fine(s, value=value, upper=Cat(*shift))
            value = s.value
            shift = list(s.upper)
        empty = let(m, f"{name}_empty{step}", ~value[f + 5 - step :].any())
        value = let(m, f"{name}_norm{step}", Mux(empty, value << step, value)[: f + 5])
        shift.insert(0, empty)
    biased = let(m, f"{name}_exponent", s.exponent + 1 - Cat(*shift))
    zero = let(m, f"{name}_zero", ~value[f + 4] | ~s.exponent.any())
    s = stages.cut(s, value=value, biased=biased, zero=zero)
    return _round(m, stages, s, form, name)


def _round(
    m: Module, stages: Stages | Through, s: SimpleNamespace, form: Format, name: str
) -> Signal:
    """The last stage (deep: two): a normalised sum, three bits below the last place, rounded."""
    f = form.fraction
    e = form.exponent
    value = s.value
    tiny = let(m, f"{name}_tiny", s.zero | (s.biased <= 0))
    up = value[3] & (value[:3].any() | value[4])
    sum_ = Cat(value[4 : f + 4], s.biased[: e + 1]) + up
    rounded = let(m, f"{name}_rounded", sum_[: f + e + 1])
    s = stages.fine(s, rounded=rounded, tiny=tiny)

    rounded = s.rounded
    sign = Mux(s.zero, s.both, s.sign)
    huge = s.special | (rounded[f : f + e + 1] >= form.top)
    magnitude = Mux(s.tiny, 0, Mux(huge, form.inf, rounded[: f + e]))
    return let(m, f"{name}_out", Mux(s.nan, form.nan, Cat(magnitude[: f + e], sign)))


def fp32_add(m: Module, a: Value, b: Value, *, name: str = "add") -> Signal:
    """a + b of fp32 operands in combinational logic, named ``name``_... in ``m``."""
    return add_steps(m, Through(m, Const(1)), a, b, name=name)


class Add(Lane):
    """``o`` = ``a + b``, correctly rounded.

    Timing
    ------
    Combinational (``STAGES`` = 1), or pipelined 4: order; align and add; normalise; round. Deep 7:
    order; align; add; normalise in two steps; round; select.
    """

    STAGES = 4
    DEEP = 7

    def __init__(self, *, form: Format = FP32, pipelined: bool = False, deep: bool = False):
        self.form = form
        super().__init__(arity=2, width=form.width, pipelined=pipelined, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        m.d.comb += self.o.eq(add_steps(m, stages, self.a, self.b, self.form))
        assert stages.count == self.STAGES
        return m


class Sub(Add):
    """``o`` = ``a - b``: as :class:`Add`, with the sign of ``b`` changed."""

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        m.d.comb += self.o.eq(
            add_steps(m, stages, self.a, Cat(self.b[:-1], ~self.b[-1]), self.form, name="sub")
        )
        assert stages.count == self.STAGES
        return m
