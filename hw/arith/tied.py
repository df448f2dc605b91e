"""Functions of one operand that are one of two operands."""

from amaranth.hdl import Module

from .lane import Lane


class Tied(Lane):
    """``o`` = the function of two operands ``inner``, each a constant (fp32 bits) or ``a``.

    Timing
    ------
    That of ``inner``.
    """

    def __init__(self, inner: Lane, *, a: int | None = None, b: int | None = None):
        inner._MustUse__silence = True  # a lane may be made to be looked at
        self._inner = inner
        self._given = (a, b)
        super().__init__(arity=1)
        self.STAGES = inner.STAGES

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = self._inner
        first, second = (self.a if x is None else x for x in self._given)
        m.d.comb += [
            inner.en.eq(self.en),
            inner.a.eq(first),
            inner.b.eq(second),
            self.o.eq(inner.o),
        ]
        return m
