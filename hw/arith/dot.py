"""Dot product of two vectors, summed as a balanced tree."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...machine.functions import dot_stages
from .add import fp32_add
from .lane import Stages
from .mul import bf16_mul, fp32_mul

__all__ = ["Dot"]


class Dot(wiring.Component):
    """Dot product of two vectors of ``t`` elements: one row of a tile by one column of another.

    Products are rounded to fp32 (those of bf16 are exact) and summed pairwise: (0, 1), (2, 3), ...,
    then pairs of those sums.

    Parameters
    ----------
    t : int
        Number of elements: 2, 4, 8 or 16.
    dtype : str
        Format of the operands, ``"bf16"`` (16 bits each) or ``"fp32"`` (32 bits each).

    Members
    -------
    en : In(1)
        Operands enter in this cycle.
    a, b : In(ArrayLayout(16 or 32, t))
        The operands; element k is multiplied by element k.
    o : Out(32)
        The sum, fp32.

    Timing
    ------
    ``STAGES`` = 1 + log2(t): the multipliers, then one adder level each; log2(t) of them end in
    registers, the last one in the consumer's. The result of operands that enter in cycle c is on
    ``o`` in cycle c + ``STAGES`` - 1; in cycles without a result ``o`` is zero. New operands may
    enter every cycle; nothing stalls. A stage's registers load only when the stage holds something.

    """

    def __init__(self, *, t: int, dtype: str):
        self.STAGES = dot_stages(t)
        if dtype not in ("bf16", "fp32"):
            raise ValueError(f"Operand format must be 'bf16' or 'fp32', not {dtype!r}")
        self.t = t
        self.dtype = dtype
        layout = data.ArrayLayout(16 if dtype == "bf16" else 32, t)
        super().__init__({"en": In(1), "a": In(layout), "b": In(layout), "o": Out(32)})

    def elaborate(self, platform):
        m = Module()
        stages = Stages(m, self.en)
        multiply = bf16_mul if self.dtype == "bf16" else fp32_mul
        terms = [multiply(m, self.a[k], self.b[k], name=f"mul{k}") for k in range(self.t)]
        while len(terms) > 1:
            level = stages.count
            held = stages.cut(**{f"term{k}": term for k, term in enumerate(terms)})
            terms = [
                fp32_add(
                    m,
                    getattr(held, f"term{k}"),
                    getattr(held, f"term{k + 1}"),
                    name=f"add{level}_{k // 2}",
                )
                for k in range(0, len(terms), 2)
            ]
        with m.If(stages.valid):
            m.d.comb += self.o.eq(terms[0])
        return m
