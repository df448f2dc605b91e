"""Comparisons, and the bitwise operations that select by them."""

from amaranth.hdl import Module, Mux, Signal, Value

from ....overlay.core.ops import Op
from ...arith.format import Format
from ...arith.lane import Stages, Through, let

COMPARE_STAGES = 2
COMPARE_DEEP = 3
"""Stages of a comparison in a deep pipeline."""


def compare_steps(
    m: Module, stages: Stages | Through, op: Value, a: Value, b: Value, form: Format
) -> Signal:
    """LT, LE and EQ (1.0 or +0.0), GATE and JOIN, in two stages (deep: 3), the last one open.

    Source: ``penstock.overlay.core.ops``.
    """
    zero_a = let(m, "zero_a", form.is_zero(a))
    zero_b = let(m, "zero_b", form.is_zero(b))
    # The signed order of these keys is the order of the numbers: a negative number is minus its
    # magnitude.
    size_a, size_b = (
        let(m, f"size_{n}", Mux(zero, 0, x[:-1]))
        for n, zero, x in (("a", zero_a, a), ("b", zero_b, b))
    )
    key_a, key_b = (
        let(m, f"key_{n}", Mux(x[-1], -size, size))
        for n, size, x in (("a", size_a, a), ("b", size_b, b))
    )
    nan = form.is_nan(a) | form.is_nan(b)
    nan = let(m, "nan", nan)
    s = stages.fine(op=op, key_a=key_a, key_b=key_b, nan=nan, open=~zero_a, a=a, b=b)
    s = stages.cut(s, less=s.key_a < s.key_b, same=s.key_a == s.key_b)

    out = Signal(form.width, name="compared")
    holds = let(
        m, "holds", ~s.nan & Mux(s.op == Op.LT, s.less, Mux(s.op == Op.LE, s.less | s.same, s.same))
    )
    with m.Switch(s.op):
        with m.Case(Op.GATE):
            m.d.comb += out.eq(Mux(s.open, s.b, 0))
        with m.Case(Op.JOIN):
            m.d.comb += out.eq(s.a | s.b)
        with m.Default():
            m.d.comb += out.eq(Mux(holds, form.one, 0))
    return out
