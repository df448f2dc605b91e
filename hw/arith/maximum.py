"""The larger of two fp32 numbers."""

from amaranth.hdl import Module, Mux

from .cast import canonical
from .lane import Lane, let

__all__ = ["Maximum"]


class Maximum(Lane):
    """``o`` = the larger of ``a`` and ``b``; NaN if either is NaN, and +0 above -0.

    Combinational (``STAGES`` = 1).
    """

    STAGES = 1

    def __init__(self):
        super().__init__(arity=2)

    def elaborate(self, platform):
        m = Module()
        a = canonical(m, self.a, name="a_canonical")
        b = canonical(m, self.b, name="b_canonical")
        # The unsigned order of these keys is the order of the numbers.
        key_a = let(m, "key_a", Mux(a[31], ~a, a | 0x80000000))
        key_b = let(m, "key_b", Mux(b[31], ~b, b | 0x80000000))
        with m.If((a == 0x7FC00000) | (b == 0x7FC00000)):
            m.d.comb += self.o.eq(0x7FC00000)
        with m.Else():
            m.d.comb += self.o.eq(Mux(key_a > key_b, a, b))
        return m
