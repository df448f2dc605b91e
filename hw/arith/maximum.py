"""The larger or the smaller of two fp32 numbers."""

from amaranth.hdl import Module, Mux

from .cast import canonical
from .lane import Lane, let


class Maximum(Lane):
    """``o`` = the larger of ``a`` and ``b``; NaN if either is NaN, and
    +0 above -0. With ``least``, the smaller.

    Combinational (``STAGES`` = 1). Deep 2: compare; select.
    """

    STAGES = 1
    DEEP = 2

    def __init__(self, *, least: bool = False, deep: bool = False):
        self.least = least
        super().__init__(arity=2, pipelined=False, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        a = canonical(m, self.a, name="a_canonical")
        b = canonical(m, self.b, name="b_canonical")
        # The unsigned order of these keys is the order of the numbers.
        key_a = let(m, "key_a", Mux(a[31], ~a, a | 0x80000000))
        key_b = let(m, "key_b", Mux(b[31], ~b, b | 0x80000000))
        nan = let(m, "nan", (a == 0x7FC00000) | (b == 0x7FC00000))
        first = key_a < key_b if self.least else key_a > key_b
        s = stages.fine(a=a, b=b, first=let(m, "first", first), nan=nan)
        with m.If(s.nan):
            m.d.comb += self.o.eq(0x7FC00000)
        with m.Else():
            m.d.comb += self.o.eq(Mux(s.first, s.a, s.b))
        return m
