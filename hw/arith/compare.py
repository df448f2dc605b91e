"""Comparison and selection of fp32 numbers, and magnitudes."""

from amaranth.hdl import Cat, Const, Module, Mux

from .cast import canonical
from .format import FP32
from .lane import Lane, let


class Compare(Lane):
    """``o`` = 1 where ``a`` and ``b`` compare, else +0, as with a NaN; -0 equals +0.

    Parameters
    ----------
    fn : str
        ``lt``, ``le``, ``eq``, ``gt`` or ``ge``.

    Combinational (``STAGES`` = 1). Deep 2: keys; compare.
    """

    STAGES = 1
    DEEP = 2

    def __init__(self, fn: str, *, deep: bool = False):
        self.fn = fn
        super().__init__(arity=2, pipelined=False, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        keys = {}
        for name, x in (("a", self.a), ("b", self.b)):
            size = let(m, f"size_{name}", Mux(FP32.is_zero(x), 0, x[:31]))
            keys[name] = let(m, f"key_{name}", Mux(x[31], -size, size))
        nan = let(m, "nan", FP32.is_nan(self.a) | FP32.is_nan(self.b))
        s = stages.fine(nan=nan, **keys)
        holds = {
            "lt": s.a < s.b,
            "le": s.a <= s.b,
            "eq": s.a == s.b,
            "gt": s.a > s.b,
            "ge": s.a >= s.b,
        }[self.fn]
        m.d.comb += self.o.eq(Mux(holds & ~s.nan, FP32.one, 0))
        return m


class Select(Lane):
    """``o`` = ``a`` where ``b`` is not a zero, else +0. Combinational (``STAGES`` = 1).

    Parameters
    ----------
    unless : bool
        Where ``b`` is a zero.
    """

    def __init__(self, *, unless: bool = False):
        self.unless = unless
        super().__init__(arity=2, pipelined=False)

    def elaborate(self, platform):
        m = Module()
        taken = FP32.is_zero(self.b) == self.unless
        m.d.comb += self.o.eq(Mux(taken, canonical(m, self.a), 0))
        return m


class Either(Lane):
    """``o`` = ``a``, or ``b`` where ``a`` is +0. Combinational (``STAGES`` = 1)."""

    def __init__(self):
        super().__init__(arity=2, pipelined=False)

    def elaborate(self, platform):
        m = Module()
        first = canonical(m, self.a, name="first")
        m.d.comb += self.o.eq(Mux(first == 0, canonical(m, self.b), first))
        return m


class Absolute(Lane):
    """``o`` = ``a`` without its sign. Combinational (``STAGES`` = 1)."""

    def __init__(self):
        super().__init__(arity=1, pipelined=False)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(Cat(canonical(m, self.a)[:31], Const(0, 1)))
        return m
