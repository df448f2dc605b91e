"""Arithmetic operators of two operands, as modules without a clock."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..export.module_key import ModuleKey, module_key
from .add import fp32_add
from .mul import bf16_mul, fp32_mul

OPERATORS = {"bf16_mul": (bf16_mul, 16), "fp32_add": (fp32_add, 32), "fp32_mul": (fp32_mul, 32)}
"""Name -> function that builds the logic, bits of an operand."""


class Operator(wiring.Component):
    """An operator of :data:`OPERATORS`, in exported Verilog a function
    (:mod:`penstock.hw.export.rewrite`).

    Parameters
    ----------
    fn : str
        Its name.

    Members
    -------
    a, b : In(16 or 32)
        The operands.
    o : Out(32)
        The result, fp32.

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, fn: str):
        self.fn = fn
        self._build, width = OPERATORS[fn]
        super().__init__({"a": In(width), "b": In(width), "o": Out(32)})

    @property
    def key(self) -> ModuleKey:
        """The key of its module."""
        return module_key("operator", {"fn": self.fn})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self._build(m, self.a, self.b, name=self.fn))
        return m
