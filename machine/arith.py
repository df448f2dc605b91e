"""Arithmetic results, bit for bit: vectorised NumPy, float32 arrays in and out (add, sub, mul, div:
float64 ones too).

This module is the definition (``docs/arithmetic.md`` states the rules in words). The tile kernels
of :mod:`penstock.model.tile_kernels` and the datapaths of ``penstock.hw.arith`` are tested against
it. A bf16 value is a float32 whose low 16 bits are zero.
"""

import functools
from collections.abc import Callable

import numpy as np

from . import segments
from .approximation import (
    EXP2_C1,
    EXP2_C2,
    EXP2_TABLE,
    LN2,
    LOG2E,
    LOG_FOLD,
    LOG_SCALE,
    LOG_TABLE,
    LOG_THIRD,
    RECIP_SLOPE,
    RECIP_TABLE,
)

_EXP2_TABLE = np.array(EXP2_TABLE, np.int64)
_RECIP_TABLE = np.array(RECIP_TABLE, np.int64)
_RECIP_SLOPE = np.array(RECIP_SLOPE, np.int64)
_LOG_SCALE = np.array(LOG_SCALE, np.int64)
_LOG_TABLE = np.array(LOG_TABLE, np.int64)


@functools.cache
def _segments(table: Callable[[], segments.Table]) -> np.ndarray:
    """Coefficients by segment; computed when a function first needs them."""
    return np.array(table(), np.int64)


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def _words(x: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Bit patterns of float32 or float64 numbers, and the bits of fraction and sign."""
    if getattr(x, "dtype", None) == np.float64:
        return np.ascontiguousarray(x).view(np.uint64), 52, 63
    return _bits(x), 23, 31


def _flush(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers become zero of their sign."""
    bits, fraction, sign = _words(x)
    one = bits.dtype.type(1)
    zero = bits & (one << sign)
    return np.where(bits ^ zero < one << fraction, zero, bits).view(f"f{bits.itemsize}")


def canonical(x: np.ndarray) -> np.ndarray:
    """``x`` as a result: subnormals flushed to zero of their sign, every NaN 0x7FC00000 (float64:
    0x7FF8000000000000).
    """
    x = _flush(x)
    return np.where(np.isnan(x), x.dtype.type(np.nan), x)


def _binary(operation: np.ufunc, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return canonical(operation(_flush(a), _flush(b)))


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b."""
    return _binary(np.add, a, b)


def sub(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b."""
    return _binary(np.subtract, a, b)


def mul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b."""
    return _binary(np.multiply, a, b)


def div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, correctly rounded."""
    return _binary(np.divide, a, b)


def sqrt(a: np.ndarray) -> np.ndarray:
    """The square root of a, correctly rounded; that of -0 is -0, of other negative numbers NaN."""
    with np.errstate(all="ignore"):
        return canonical(np.sqrt(_flush(a)))


def max_(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The larger of a and b; NaN if either is, and +0 above -0."""
    a, b = np.broadcast_arrays(canonical(a), canonical(b))
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return canonical(np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), larger))


def min_(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller of a and b; NaN if either is, and -0 below +0."""
    return canonical(-max_(-np.asarray(a), -np.asarray(b)))


def abs_(a: np.ndarray) -> np.ndarray:
    """a without its sign."""
    return canonical(np.abs(a))


def square(a: np.ndarray) -> np.ndarray:
    """a * a."""
    return mul(a, a)


def relu(a: np.ndarray) -> np.ndarray:
    """The larger of a and +0."""
    return max_(a, np.zeros_like(a))


def recip(a: np.ndarray) -> np.ndarray:
    """1 / a, correctly rounded."""
    return div(np.ones_like(a), a)


def _compare(operation: np.ufunc, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return operation(_flush(a), _flush(b)).astype(np.float32)


def lt(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1 where a < b, else +0, as where either is NaN; -0 equals +0."""
    return _compare(np.less, a, b)


def le(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1 where a <= b, likewise."""
    return _compare(np.less_equal, a, b)


def eq(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1 where a equals b, likewise."""
    return _compare(np.equal, a, b)


def gt(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1 where a > b, likewise."""
    return _compare(np.greater, a, b)


def ge(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1 where a >= b, likewise."""
    return _compare(np.greater_equal, a, b)


def select(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a where b is not a zero, else +0, whatever a is there."""
    return np.where(_flush(b) == 0, np.float32(0), canonical(a))


def unless(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a where b is a zero, else +0, whatever a is there."""
    return np.where(_flush(b) == 0, canonical(a), np.float32(0))


def either(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a, or b where a is +0."""
    a = canonical(a)
    return np.where(_bits(a) == 0, canonical(b), a)


def cast_bf16(a: np.ndarray) -> np.ndarray:
    """``a`` rounded to bf16, nearest even."""
    bits = _bits(canonical(a)).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return canonical(rounded.astype(np.uint32).view(np.float32))


def cast_fp32(a: np.ndarray) -> np.ndarray:
    """The fp32 value of the bf16 number ``a``: the same number."""
    return canonical(a)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of [t, t] tiles: t rounded products, summed as a balanced tree over k.

    Leading axes are batches. t is a power of two.
    """
    products = mul(a[..., :, :, None], b[..., None, :, :])  # [m, k, n]
    while products.shape[-2] > 1:
        products = add(products[..., 0::2, :], products[..., 1::2, :])
    return products[..., 0, :]


def matmul_bt(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """:func:`matmul` of ``a`` with ``b`` transposed."""
    return matmul(a, np.swapaxes(b, -1, -2))


def _significand(magnitude: np.ndarray) -> np.ndarray:
    return np.where(magnitude >> 23 == 0, 0, magnitude & 0x7FFFFF | 0x800000)


def _exp2_steps(
    magnitude: np.ndarray, negative: np.ndarray, factor: int = LOG2E
) -> tuple[np.ndarray, np.ndarray]:
    """2**(x * factor) as ``mantissa * 2**(k - 30)``; ``mantissa`` is 2**30 to 2**31.

    ``magnitude`` holds the low 31 bits of x (flushed), ``negative`` its sign; ``factor`` has 36
    fraction bits.
    """
    exponent = magnitude >> 23
    product = _significand(magnitude) * factor
    t = product >> np.clip(156 - exponent, 0, 62)
    t = np.where(exponent > 134, (1 << 39) - 1, t)  # |x| >= 256
    return _power(np.where(negative, -t, t))


def _power(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """2**t, t with 30 fraction bits, likewise."""
    k = t >> 30
    index = t >> 23 & 127
    r = t & 0x7FFFFF
    u = EXP2_C1 + (EXP2_C2 * (r >> 7) >> 15)  # 26 fraction bits
    p = u * r >> 24  # 2**r - 1, 32 fraction bits
    base = _EXP2_TABLE[index]
    return k, base + (base * p >> 32)


def _reciprocal_steps(d: np.ndarray) -> np.ndarray:
    """1/d, never above it; ``d`` in [1, 2) has 30 fraction bits, the result 32."""
    index = d >> 23 & 127
    r = d >> 11 & 0xFFF
    y = _RECIP_TABLE[index] - (_RECIP_SLOPE[index] * r >> 11) >> 2  # 18 fraction bits
    error = (1 << 48) - d * y >> 14  # 34 fraction bits, signed
    return (y << 14) + (y * error >> 20)


def _pack(sign: np.ndarray | np.int64, exponent: np.ndarray, mantissa: np.ndarray) -> np.ndarray:
    """Round ``mantissa`` (1 to 2 with 30 fraction bits) to fp32; out of range gives infinity or
    zero.
    """
    rounded = mantissa + 63 + (mantissa >> 7 & 1) >> 7
    bits = (exponent << 23) + rounded - (1 << 23)
    bits = np.where(bits < 0x00800000, 0, np.where(bits > 0x7F800000, 0x7F800000, bits))
    return (bits | sign << 31).astype(np.uint32).view(np.float32)


def exp(a: np.ndarray) -> np.ndarray:
    """e**a, by table and polynomial; below 0.58 ulp."""
    bits = _bits(_flush(a)).astype(np.int64)
    k, mantissa = _exp2_steps(bits & 0x7FFFFFFF, bits >> 31 == 1)
    return np.where(
        np.isnan(a), canonical(np.array(np.nan, np.float32)), _pack(np.int64(0), k + 127, mantissa)
    )


def log(a: np.ndarray) -> np.ndarray:
    """The natural logarithm of a, by table and polynomial; below 0.53 ulp. log of a zero is -inf,
    of a negative number NaN.
    """
    bits = _bits(_flush(a)).astype(np.int64)
    index = bits >> 16 & 127
    fold = index >= LOG_FOLD
    exponent = (bits >> 23 & 255) - 127 + fold
    significand = np.where(fold, 1, 2) * (
        bits & 0x7FFFFF | 0x800000
    )  # 24 fraction bits, within a factor sqrt(2) of 1
    r = significand * _LOG_SCALE[index] - (1 << 34)  # 34 fraction bits, below 1/128
    square = r * r >> 14  # 54 fraction bits
    bend = (
        (1 << 22) - ((r >> 11) * LOG_THIRD >> 18) + (square >> 33)
    )  # 1/2 - r/3 + r**2/4, 23 fraction bits
    total = exponent * LN2 + _LOG_TABLE[index] + (r << 22) - (square * bend >> 21)
    with np.errstate(all="ignore"):
        result = np.where(total < 0, -1, 1) * _to_fp32(np.abs(total), 56)
        result = np.where(
            bits & 0x7FFFFFFF == 0, -np.inf, np.where(bits == 0x7F800000, np.inf, result)
        )
        return canonical(
            np.where((bits > 0x80000000) | np.isnan(a), np.nan, result).astype(np.float32)
        )


def _to_fp32(x: np.ndarray, fraction: int) -> np.ndarray:
    """``x`` (non-negative, ``fraction`` fraction bits) rounded to float32, in float64."""
    places = np.maximum(
        np.frexp((x >> 24).astype(np.float64))[1], 0
    )  # to drop, so that 24 bits stay
    low = x & (np.int64(1) << places) - 1
    half = np.int64(1) << np.maximum(places - 1, 0)
    kept = x >> places
    kept = kept + ((places > 0) & ((low > half) | ((low == half) & (kept & 1 == 1))))
    return np.ldexp(kept.astype(np.float64), places - fraction)


def exp2(a: np.ndarray) -> np.ndarray:
    """2**a, by table and polynomial; below 0.58 ulp."""
    bits = _bits(_flush(a)).astype(np.int64)
    k, mantissa = _exp2_steps(bits & 0x7FFFFFFF, bits >> 31 == 1, 1 << 36)
    return canonical(
        np.where(np.isnan(a), np.float32(np.nan), _pack(np.int64(0), k + 127, mantissa))
    )


def _cubic(table: np.ndarray, index: np.ndarray, r: np.ndarray, bits: int) -> np.ndarray:
    """The polynomial of a segment at ``r`` (of ``bits`` bits) in it."""
    row = table[index]
    y = row[..., 2] + (row[..., 3] * r >> bits)
    return row[..., 0] + ((row[..., 1] + (y * r >> bits)) * r >> bits)


def _of_magnitude(table: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
    """The table's function of |x| below 16; of larger ones something."""
    shift = np.clip(122 - (magnitude >> 23), -8, 62)  # |x| with 28 fraction bits
    significand = _significand(magnitude)
    place = np.where(
        shift < 0, significand << np.maximum(-shift, 0), significand >> np.maximum(shift, 0)
    )
    return _cubic(table, place >> 24 & 255, place & 0xFFFFFF, 24)


def rsqrt(a: np.ndarray) -> np.ndarray:
    """1 / sqrt(a), by table; below 0.52 ulp. That of a zero is the infinity of its sign, of other
    negative numbers NaN.
    """
    bits = _bits(_flush(a)).astype(np.int64)
    exponent = bits >> 23 & 255
    index = (~exponent & 1) << 7 | bits >> 16 & 127
    y = _cubic(_segments(segments.rsqrt), index, bits & 0xFFFF, 16) >> 2
    result = _pack(np.int64(0), 126 - (exponent - 127 >> 1), y)
    result = np.where(bits == 0x7F800000, np.float32(0), result)
    result = np.where(bits > 0x80000000, np.float32(np.nan), result)
    result = np.where(
        exponent == 0, np.where(bits == 0, np.float32(np.inf), np.float32(-np.inf)), result
    )
    return canonical(np.where(np.isnan(a), np.float32(np.nan), result))


def tanh(a: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent, by table; below 0.79 ulp."""
    bits = _bits(_flush(a)).astype(np.int64)
    magnitude = bits & 0x7FFFFFFF
    w = _of_magnitude(_segments(segments.tanh), magnitude) * _significand(
        magnitude
    )  # 57 fraction bits
    over = np.frexp((w >> 30).astype(np.float64))[1]  # bits beyond 30
    mantissa = np.where(over > 0, w >> np.maximum(over - 1, 0), 1 << 30)
    result = _pack(bits >> 31, (magnitude >> 23) - 28 + over, mantissa)
    one = (0x3F800000 | bits >> 31 << 31).astype(np.uint32).view(np.float32)
    result = np.where(magnitude >> 23 >= 131, one, result)
    result = np.where(magnitude == 0, _flush(a), result)
    return canonical(np.where(np.isnan(a), np.float32(np.nan), result))


def _weighed(x: np.ndarray, k: np.ndarray, mantissa: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """``factor`` / (1 + 2**-t), t of the sign of x, NaN where x is; 2**-|t| is
    ``mantissa * 2**(k - 30)``.
    """
    negative = np.signbit(x)
    bits = _bits(factor).astype(np.int64)
    sign = bits >> 31
    magnitude = bits & 0x7FFFFFFF
    d = np.minimum((1 << 30) + (mantissa >> np.minimum(-k, 62)), (1 << 31) - 1)
    numerator = np.where(negative, mantissa, 1 << 30)
    shift = np.where(negative, k, 0)  # 1 / (1 + 2**-t) = numerator * 2**shift / d
    w = (numerator * _reciprocal_steps(d) >> 30) * _significand(
        magnitude
    )  # 55 fraction bits, below 4
    top = np.minimum(w >> 55, 2)
    result = _pack(sign, (magnitude >> 23) + shift + top - 1, w >> 24 + top)
    result = np.where(magnitude == 0, factor, result)
    result = np.where(
        magnitude == 0x7F800000, np.where(sign == 1, np.float32(-0.0), np.float32(np.inf)), result
    )
    return canonical(np.where(np.isnan(x), np.float32(np.nan), result))


def sigmoid(a: np.ndarray) -> np.ndarray:
    """1 / (1 + e**-a); below 0.58 ulp."""
    magnitude = _bits(_flush(a)).astype(np.int64) & 0x7FFFFFFF
    return _weighed(a, *_exp2_steps(magnitude, np.ones_like(magnitude, bool)), np.ones_like(a))


def silu(a: np.ndarray) -> np.ndarray:
    """a / (1 + e**-a); below 0.58 ulp. silu(-inf) is -0."""
    magnitude = _bits(_flush(a)).astype(np.int64) & 0x7FFFFFFF
    return _weighed(a, *_exp2_steps(magnitude, np.ones_like(magnitude, bool)), _flush(a))


def _gelu(table: np.ndarray, a: np.ndarray) -> np.ndarray:
    magnitude = _bits(_flush(a)).astype(np.int64) & 0x7FFFFFFF
    t = np.where(magnitude >> 23 >= 131, (1 << 39) - 1, _of_magnitude(table, magnitude) >> 2)
    return _weighed(a, *_power(-t), _flush(a))


def gelu(a: np.ndarray) -> np.ndarray:
    """a (1 + erf(a / sqrt(2))) / 2; below 0.58 ulp. gelu(-inf) is -0."""
    return _gelu(_segments(segments.gelu), a)


def gelu_tanh(a: np.ndarray) -> np.ndarray:
    """a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a**3))) / 2; below 0.58 ulp. That of -inf is -0."""
    return _gelu(_segments(segments.gelu_tanh), a)
