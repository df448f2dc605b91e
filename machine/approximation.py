"""Tables and constants of the fixed-point steps behind exp, log, SiLU and division.

Every number is computed here with :mod:`decimal` (correctly rounded, the same on every machine),
and read by the hardware and by the model. The steps that use them are in ``docs/arithmetic.md``,
section 3.
"""

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

LOG2E_BITS = 36
"""Fraction bits of :data:`LOG2E`."""
LOG_FOLD = 53
"""Segment of the significand from which log halves it: the first above sqrt(2)."""


def _integer(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_HALF_EVEN))


def _compute() -> dict[str, object]:
    with localcontext() as context:
        context.prec = 60
        ln2 = Decimal(2).ln()
        one = Decimal(1)

        # 2**r - 1 = r * g(r) on 0 <= r < h; g is replaced by the line with the smallest largest
        # error: parallel to the chord, half the largest gap below it.
        h = one / 128

        def g(r: Decimal) -> Decimal:
            return ((r * ln2).exp() - 1) / r if r else ln2

        slope = (g(h) - g(Decimal(0))) / h
        samples = [h * i / 256 for i in range(257)]
        gap = max(g(Decimal(0)) + slope * r - g(r) for r in samples)

        # 1/d on each of 128 segments, likewise.
        table: list[int] = []
        slopes: list[int] = []
        for i in range(128):
            left = 1 + h * i
            fall = (1 / left - 1 / (left + h)) / h
            touch = 1 / fall.sqrt()
            deepest = 1 / left - fall * (touch - left) - 1 / touch
            table.append(_integer((1 / left - deepest / 2) * 2**20))
            slopes.append(_integer(fall * 2**12))

        # log m on each of 128 segments of 1 <= m < 2 (those from LOG_FOLD on are halved first): a
        # short reciprocal c of the segment's middle, so that m c is near 1, and -log c. The
        # segments beside 1 have c = 1, which keeps small results exact.
        scale: list[int] = []
        for i in range(128):
            middle = (1 + h * i + h / 2) / (2 if i >= LOG_FOLD else 1)
            scale.append(1 << 10 if i in (0, 127) else _integer(2**10 / middle))

        return {
            "LN2": _integer(ln2 * 2**56),
            "LOG_SCALE": tuple(scale),
            "LOG_TABLE": tuple(_integer(-(Decimal(c) / 2**10).ln() * 2**56) for c in scale),
            "LOG_THIRD": _integer(Decimal(2**18) / 3),
            "LOG2E": _integer(2**LOG2E_BITS / ln2),
            "EXP2_TABLE": tuple(_integer((ln2 * i / 128).exp() * 2**30) for i in range(128)),
            "EXP2_C1": _integer((g(Decimal(0)) - gap / 2) * 2**26),
            "EXP2_C2": _integer(slope * 2**18),
            "RECIP_TABLE": tuple(table),
            "RECIP_SLOPE": tuple(slopes),
        }


_values: dict[str, Any] = _compute()

LOG2E: int = _values["LOG2E"]
"""log2(e), 36 fraction bits."""
EXP2_TABLE: tuple[int, ...] = _values["EXP2_TABLE"]
"""2**(i/128), 30 fraction bits."""
EXP2_C1: int = _values["EXP2_C1"]
"""Constant of (2**r - 1) / r on 0 <= r < 1/128, 26 fraction bits."""
EXP2_C2: int = _values["EXP2_C2"]
"""Slope of (2**r - 1) / r on 0 <= r < 1/128, 18 fraction bits."""
RECIP_TABLE: tuple[int, ...] = _values["RECIP_TABLE"]
"""1/d at the left end of segment i of 128 of 1 <= d < 2, 20 fraction bits."""
RECIP_SLOPE: tuple[int, ...] = _values["RECIP_SLOPE"]
"""Fall of 1/d over segment i, per unit of d, 12 fraction bits."""
LN2: int = _values["LN2"]
"""log(2), 56 fraction bits."""
LOG_SCALE: tuple[int, ...] = _values["LOG_SCALE"]
"""About 1/m in the middle of segment i of 128 of the significand, 10 fraction bits."""
LOG_TABLE: tuple[int, ...] = _values["LOG_TABLE"]
"""-log of LOG_SCALE[i], 56 fraction bits, signed."""
LOG_THIRD: int = _values["LOG_THIRD"]
"""1/3, 18 fraction bits."""
