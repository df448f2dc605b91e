"""Exponentials."""

from amaranth.hdl import Module, Mux

from ...machine.approximation import LOG2E
from .exp2 import exp2_steps, pack
from .lane import Lane


class Exp(Lane):
    """``o`` = e**``a``, fp32, below 0.58 ulp.

    Parameters
    ----------
    factor : int
        log2 of the base, 36 fraction bits; e where nothing is given.
    pipelined, deep : bool

    Timing
    ------
    ``STAGES`` = 5: times log2(e); split and look up; two steps of the
    polynomial; round. Not pipelined, 1. Deep 17.
    """

    STAGES = 5
    DEEP = 17

    def __init__(self, *, factor: int = LOG2E, pipelined: bool = True, deep: bool = False):
        self.factor = factor
        super().__init__(arity=1, pipelined=pipelined, deep=deep)

    def elaborate(self, platform):
        m = Module()
        stages = self.stages(m)
        a = self.a
        nan = a[23:31].all() & a[:23].any()
        s = exp2_steps(m, stages, a[:31], a[31], self.factor, nan=nan)
        s = stages.cut(s)
        s = pack(m, stages, s, s.mantissa, s.k + 127)
        m.d.comb += self.o.eq(Mux(s.nan, 0x7FC00000, s.magnitude))
        assert stages.count == self.STAGES
        return m
