"""Binary floating-point formats."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Signal, Value


@dataclass(frozen=True)
class Format:
    """An IEEE 754 binary interchange format.

    Attributes
    ----------
    name : str
    exponent, fraction : int
        Bits of the biased exponent and of the fraction.
    """

    name: str
    exponent: int
    fraction: int

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def top(self) -> int:
        """The biased exponent of infinities and NaNs."""
        return (1 << self.exponent) - 1

    @property
    def inf(self) -> int:
        """Bits of plus infinity."""
        return self.top << self.fraction

    @property
    def nan(self) -> int:
        """Bits of the NaN that every NaN result is."""
        return self.inf | 1 << self.fraction - 1

    @property
    def one(self) -> int:
        """Bits of 1.0."""
        return self.bias << self.fraction

    def fields(self, x: Signal) -> tuple[Value, Value, Value]:
        """Fraction, biased exponent and sign of ``x``."""
        return x[: self.fraction], x[self.fraction : -1], x[-1]

    def significand(self, x: Signal) -> Value:
        """The ``fraction + 1`` bits of the significand of a normal ``x``."""
        return Cat(x[: self.fraction], Const(1, 1))

    def is_nan(self, x: Signal) -> Value:
        fraction, exponent, _ = self.fields(x)
        return exponent.all() & fraction.any()

    def is_inf(self, x: Signal) -> Value:
        fraction, exponent, _ = self.fields(x)
        return exponent.all() & ~fraction.any()

    def is_zero(self, x: Signal) -> Value:
        """Zero, or a subnormal number, which is read as zero."""
        return ~self.fields(x)[1].any()


FP32 = Format("fp32", 8, 23)
FP64 = Format("fp64", 11, 52)
