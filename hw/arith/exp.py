"""Natural exponential."""

from amaranth.hdl import Const, Module, Mux

from .exp2 import exp2_steps, pack
from .lane import Lane

__all__ = ["Exp"]


class Exp(Lane):
    """``o`` = e**``a``, fp32, below 0.58 ulp.

    Parameters
    ----------
    pipelined : bool

    Timing
    ------
    ``STAGES`` = 5: times log2(e); split and look up; two steps of the
    polynomial; round. Not pipelined, 1.

    """

    STAGES = 5

    def __init__(self, *, pipelined: bool = True):
        super().__init__(arity=1, pipelined=pipelined)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        a = self.a
        s = exp2_steps(m, stages, a[:31], a[31], nan=a[23:31].all() & a[:23].any())
        s = stages.cut(k=s.k, mantissa=s.mantissa, nan=s.nan)
        m.d.comb += self.o.eq(Mux(s.nan, 0x7FC00000, pack(m, Const(0, 1), s.k + 127, s.mantissa)))
        assert stages.count == self.STAGES
        return m
