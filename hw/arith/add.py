"""fp32 addition."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .lane import Lane, let


__all__ = ["Add", "Sub", "fp32_add"]


def fp32_add(m: Module, a: Value, b: Value, *, name: str = "add") -> Signal:
    """a + b in combinational logic, named ``name``_... in ``m``.

    One adder for near and far operands: the smaller magnitude is aligned with three bits below the last
    place (the lowest sticky), and the sum normalised over its whole width. A sum too small to be normal
    is exact, hence flushed without rounding.
    """
    def named(label, value):
        return let(m, f"{name}_{label}", value)

    swap = named("swap", b[:31] > a[:31])
    big = named("big", Mux(swap, b, a))
    small = named("small", Mux(swap, a, b))
    subtract = named("subtract", a[31] ^ b[31])
    exponent = big[23:31]
    x = Cat(Const(0, 3), big[:23], exponent.any())
    distance = named("distance", exponent - small[23:31])
    wide = named("wide", Cat(Const(0, 31), Mux(small[23:31].any(), Cat(small[:23], Const(1, 1)), 0))
                 >> Mux(distance[5:8].any(), 31, distance[:5]))
    y = named("y", Cat(wide[28] | wide[:28].any(), wide[29:55]))
    value = named("sum", Mux(subtract, x - y, x + y)[:28])

    shift = []
    for step in (16, 8, 4, 2, 1):
        empty = named(f"empty{step}", ~value[28 - step:].any())
        value = named(f"norm{step}", Mux(empty, value << step, value)[:28])
        shift.insert(0, empty)
    biased = named("exponent", exponent + 1 - Cat(*shift))
    zero = named("zero", ~value[27] | ~exponent.any())
    tiny = named("tiny", zero | (biased <= 0))
    up = value[3] & (value[:3].any() | value[4])
    rounded = named("rounded", (Cat(value[4:27], biased[:9]) + up)[:32])

    sign = Mux(zero, a[31] & b[31], big[31])
    special = named("special", exponent.all())
    nan = named("nan", special & (big[:23].any() | (subtract & small[23:31].all())))
    huge = special | (rounded[23:32] >= 255)
    magnitude = Mux(tiny, 0, Mux(huge, 0x7F800000, rounded[:31]))
    return named("out", Mux(nan, 0x7FC00000, Cat(magnitude[:31], sign)))


class Add(Lane):
    """``o`` = ``a + b``. Combinational (``STAGES`` = 1)."""

    STAGES = 1

    def __init__(self):
        super().__init__(arity=2)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(fp32_add(m, self.a, self.b))
        return m


class Sub(Lane):
    """``o`` = ``a - b``. Combinational (``STAGES`` = 1)."""

    STAGES = 1

    def __init__(self):
        super().__init__(arity=2)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(fp32_add(m, self.a, Cat(self.b[:31], ~self.b[31]), name="sub"))
        return m
