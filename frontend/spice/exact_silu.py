"""The tiled machine's SiLU unit, bit for bit, from fp32 operations: its
fixed-point steps (``docs/arithmetic.md``, section 3) on whole numbers.

Wide numbers are limbs of 11 bits, lowest first: a product of two limbs,
and the sum of four such products, is exact in fp32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from ...machine import arith
from ...machine.approximation import EXP2_C1, EXP2_C2, EXP2_TABLE, LOG2E, RECIP_SLOPE, RECIP_TABLE
from .builder import Value, absolute, exp, maximum, minimum, where

__all__ = ["exact_silu"]

BITS = 11
BASE = float(1 << BITS)
WHOLE = 2.0**23
SIGNED = 1.5 * 2.0**23


def _floor(v: Value, magic: float = WHOLE) -> Value:
    """Largest whole number up to v; 0 <= v < 2**23 (or any whole
    number), with SIGNED also -2**22 < v < 2**22.
    """
    near = v + magic - magic
    return near - (v < near)


def _divide(v: Value, places: int, magic: float = WHOLE) -> tuple[Value, Value]:
    """v >> places and the rest, of a whole number below 2**24."""
    high = _floor(v * 2.0**-places, magic)
    return high, v - high * 2.0**places


def _constant(n: int) -> list[float]:
    """Limbs of a known number."""
    limbs = []
    while n:
        limbs.append(float(n & (1 << BITS) - 1))
        n >>= BITS
    return limbs


def _carry(lowest: Value, *columns: Value | float) -> list[Value]:
    """Limbs of a number given by sums per place."""
    carry, rest = _divide(lowest, BITS)
    limbs = [rest]
    for c in columns:
        carry, rest = _divide(c + carry, BITS)
        limbs.append(rest)
    return [*limbs, carry]


def _times(x: Sequence[Value], y: Sequence[Value] | Sequence[float]) -> list[Value]:
    """Limbs of a product."""
    columns: dict[int, Value] = {}
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            p = a * b
            columns[i + j] = columns[i + j] + p if i + j in columns else p
    return _carry(*columns.values())


def _shift(x: list[Value], places: int) -> list[Value]:
    """x >> places."""
    x = x[places // BITS :]
    s = places % BITS
    if not s:
        return x
    parts = [_divide(v, s) for v in x]
    return [
        h if i + 1 == len(parts) else h + parts[i + 1][1] * 2.0 ** (BITS - s)
        for i, (h, _) in enumerate(parts)
    ]


def _split(v: Value, count: int) -> list[Value]:
    """Limbs of a whole number below 2**24."""
    limbs = []
    for _ in range(count - 1):
        v, low = _divide(v, BITS)
        limbs.append(low)
    return [*limbs, v]


def _table(index: Value, values: np.ndarray) -> Value:
    """values[index], 0 <= index < 128: one of 16 in each of 8 rows, then the row."""
    high, low = _divide(index, 4)
    columns = [low == float(i) for i in range(16)]

    def any_of(parts: list[Value]) -> Value:
        total = parts[0]
        for p in parts[1:]:
            total = total | p
        return total

    rows = [
        any_of([columns[i] & float(values[16 * row + i]) for i in range(16)]) for row in range(8)
    ]
    return any_of([(high == float(row)) & rows[row] for row in range(8)])


class _Numbers:
    """float32 arrays with the ALU's arithmetic, to try a formula on."""

    def __init__(self, v):
        self.v = np.asarray(v, np.float32)

    def _with(self, f, o, swap=False):
        o = o.v if isinstance(o, _Numbers) else np.full_like(self.v, o)
        return _Numbers(f(o, self.v) if swap else f(self.v, o))

    def __add__(self, o):
        return self._with(arith.add, o)

    def __sub__(self, o):
        return self._with(arith.sub, o)

    def __mul__(self, o):
        return self._with(arith.mul, o)

    def __truediv__(self, o):
        return self._with(arith.div, o)

    def __rtruediv__(self, o):
        return self._with(arith.div, o, True)


Formula = TypeVar("Formula", Value, _Numbers)
"""What a formula is tried on, and used on."""


class _Guess(Protocol):
    """A formula of arithmetic alone."""

    def __call__(self, i: Formula, /) -> Formula: ...


def _known(index: Value, guess: _Guess, table: Sequence[int]) -> Value:
    """table[index], where ``guess`` is a formula that is right for nearly every index."""
    off = np.asarray(table, np.float64) - guess(_Numbers(np.arange(128))).v
    value = guess(index)
    for i in np.flatnonzero(off):
        value = value + (index == float(i)) * float(off[i])
    return value


def _exp2(index: Value) -> list[Value]:
    """EXP2_TABLE[index], 31 bits: what the ALU's exp gives, multiples
    of 2**7, and a table of the difference.
    """
    step = float(np.float32(np.log(2) / 128))
    rough = arith.exp(
        arith.mul(np.arange(128, dtype=np.float32), np.full(128, step, np.float32))
    ) * np.float32(2**23)
    top, rest = _divide(exp(index * step) * WHOLE, 15)
    middle, bottom = _divide(rest, 4)
    carry, low = _divide(
        bottom * 128.0 + _table(index, np.array(EXP2_TABLE) - rough.astype(np.int64) * 128),
        BITS,
        SIGNED,
    )
    carry, middle = _divide(middle + carry, BITS, SIGNED)
    return [low, middle, top + carry]


def _exponential(unit: Value, significand: list[Value]) -> tuple[list[Value], Value]:
    """e**-c = mantissa * 2**-(k + 30), of c = significand * unit *
    2**-23: limbs of the mantissa, and k.
    """
    # c * log2(e) = m * 2**23 - r with 30 fraction bits
    product = _times(significand, _constant(LOG2E))
    whole = [
        _divide(_floor(product[i] * unit * 2.0 ** (BITS * i - 29)), 23) for i in range(2, 6)
    ]  # lower limbs are fractions
    low = sum((b for _, b in whole[1:]), whole[0][1])
    r = low & (WHOLE - low)
    m = sum((a for a, _ in whole[1:]), whole[0][0]) + (low > 0.0)
    k = _floor((m + 127.0) * 2.0**-7)
    index = k * 128.0 - m
    bend = _shift(_times(_split(_divide(r, 7)[0], 2), _constant(EXP2_C2)), 15)[:2]
    c1 = _constant(EXP2_C1)
    u = _carry(bend[0] + c1[0], bend[1] + c1[1], c1[2])[:3]
    p = _shift(_times(u, _split(r, 3)), 24)[:3]
    base = _exp2(index)
    curve = _shift(_times(base, p), 32)[:3]
    return _carry(*(a + b for a, b in zip(base, curve, strict=True)))[:3], k


@dataclass(frozen=True)
class _Power:
    """2**-k as factors: ``small``, at least 2**-31, and ``halves``, each 2**-32 or 1."""

    k: Value
    small: Value | float
    halves: list[Value]


def _power(k: Value) -> _Power:
    """2**-k, of k up to 255."""
    left = minimum(k, 255.0)
    small: Value | float = 1.0
    halves = []
    for j in (7, 6, 5, 4, 3, 2, 1, 0):
        bit = left >= float(1 << j)
        left = left - bit * float(1 << j)
        if j > 4:
            halves += [where(bit, 2.0**-32, 1.0)] * (1 << j - 5)
        else:
            small = (bit * (2.0 ** -(1 << j) - 1) + 1.0) * small
    return _Power(k, small, halves)


def _one_plus(mantissa: list[Value], power: _Power) -> list[Value]:
    """Limbs of d = 1 + e**-c."""
    near = (power.k < 32.0) & power.small
    e0, e1, e2 = (_floor(v * near * 2.0 ** (BITS * i)) for i, v in enumerate(mantissa))
    h1, l1 = _divide(e1, BITS)
    h2, l2 = _divide(e2, 2 * BITS)
    m2, l2 = _divide(l2, BITS)
    return [e0 + l1 + l2, h1 + m2, h2 + 256.0]


def _line(i: Formula) -> Formula:
    """RECIP_TABLE, nearly: a term in the middle of a segment corrects 1/x at its start."""
    return _nearest(
        1.0 * 2**20 / (i / 128.0 + 1.0)
        - 8.0 / ((i + 0.5) / 128.0 + 1.0) / ((i + 0.5) / 128.0 + 1.0) / ((i + 0.5) / 128.0 + 1.0)
    )


def _slope(i: Formula) -> Formula:
    """RECIP_SLOPE, nearly."""
    return _nearest(4096.0 / ((i / 128.0 + 1.0) * ((i + 1.0) / 128.0 + 1.0)))


def _reciprocal(d: list[Value]) -> list[Value]:
    """Limbs of 2**32 / d: a line through a table, then one step of Newton's method."""
    segment, odd = _divide(d[2], 1)
    segment = segment - 128.0
    rest = odd * BASE + d[1]
    line = _known(segment, _line, RECIP_TABLE)
    slope = _known(segment, _slope, RECIP_SLOPE)
    y = _divide(line - _divide(slope * rest, 11)[0], 2)[0]
    dy = _times(d, _split(y, 2))
    a, b = _divide(dy[1], 3)
    above = ((dy[4] - 16.0) * BASE + dy[3]) * 2.0**19 + dy[2] * 256.0 + a
    error = 0.0 - above - (b * BASE + dy[0] > 0.0)
    error1, error0 = _divide(error, 10, SIGNED)
    y1, y0 = _divide(y, 9)
    t = y1 * error0 + y0 * error1 * 2.0 + _divide(y0 * error0, 9)[0]
    t = y1 * error1 + _divide(t, 10, SIGNED)[0]
    y1, y0 = _divide(y, 8)
    carry, rest = _divide(y0 * 2.0**14 + _divide(t, 1, SIGNED)[0], 22, SIGNED)
    return [*_split(rest, 2), y1 + carry]


def _rounded(sigmoid: list[Value], significand: list[Value]) -> tuple[Value, Value]:
    """The product as a significand rounded once, and the power of two to scale it by."""
    w = _shift(_times(sigmoid, significand), 24)[:3]
    scale = 1.0 + (w[2] >= 512.0) + (w[2] >= 1024.0) * 2.0  # 2**top
    part = w[0] / scale
    i0 = _floor(part * 2.0**-7)
    dropped = _floor(part - i0 * 128.0)
    kept = w[2] / scale * 2.0**15 + w[1] / scale * 16.0 + i0
    return kept + ((dropped > 64.0) | ((dropped == 64.0) & _divide(kept, 1)[1])), scale


def exact_silu(x: Value) -> Value:
    """silu(x) as ``arith.silu`` defines it; names and steps as there."""
    negative = x < 0.0
    size = absolute(x)
    c = maximum(minimum(size, 255.0), 2.0**-30)
    q = c * (2.0**23 + 1)
    unit = q - q * (1 - 2.0**-24)  # the power of two in c
    significand = _split(c / unit * WHOLE, 3)
    mantissa, k = _exponential(unit, significand)
    power = _power(k)
    reciprocal = _reciprocal(_one_plus(mantissa, power))

    # sigmoid, times the significand
    sigmoid = [
        where(negative, n, v)
        for n, v in zip(_shift(_times(mantissa, reciprocal), 30)[:3], reciprocal, strict=True)
    ]
    kept, scale = _rounded(sigmoid, significand)
    value = kept * (unit * 2.0**-24) * scale
    shrunk = value * power.small
    for h in power.halves:
        shrunk = shrunk * h
    result = where(negative, -shrunk, value)

    result = where(size < 2.0**-30, where(size < 2.0**-125, x * 0.0, x * 0.5), result)
    result = where(size > 255.0, where(negative, -0.0, x * 1.0), result)
    return where(x == x, result, x + x)


def _nearest(v: Formula) -> Formula:
    return v + WHOLE - WHOLE
