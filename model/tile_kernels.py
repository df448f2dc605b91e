"""Compiled arithmetic over whole tiles, equal bit for bit to
:mod:`penstock.machine.arith`.

Every kernel takes C-contiguous float32 tiles and writes its result into the last argument, which
may be an operand of an element-wise kernel but not of a matmul. Values are handled as bit patterns
between the floating-point operations, so that flushing is integer selection, which vectorises, and
so that no compiler rule about NaNs applies. Compilation is cached on disk.
"""

import numpy as np
from numba import float32, njit, uint32

from ..machine import segments
from ..machine.approximation import (
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
from .compiling import inlined

_EXP2_TABLE = np.array(EXP2_TABLE, np.int64)
_RECIP_TABLE = np.array(RECIP_TABLE, np.int64)
_RECIP_SLOPE = np.array(RECIP_SLOPE, np.int64)
_LOG_SCALE = np.array(LOG_SCALE, np.int64)
_LOG_TABLE = np.array(LOG_TABLE, np.int64)
_RSQRT, _TANH, _GELU, _GELU_TANH = (
    np.array(table(), np.int64)
    for table in (segments.rsqrt, segments.tanh, segments.gelu, segments.gelu_tanh)
)

_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_LEAST = np.uint32(0x00800000)
_INFINITY = np.uint32(0x7F800000)
_NAN = np.uint32(0x7FC00000)


@inlined
def _as_bits(typing, x):
    """The bit pattern of a float32."""

    def emit(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(uint32))

    return uint32(float32), emit


@inlined
def _as_float(typing, bits):
    """The float32 of a bit pattern, given as an integer whose low 32 bits count."""

    def emit(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(float32))

    return float32(uint32), emit


@njit
def _flush(x):
    """Arithmetic's view of an operand or a result: subnormals are zeros. NaNs pass as they are."""
    bits = _as_bits(x)
    return _as_float(bits & _SIGN if bits & _MAGNITUDE < _LEAST else bits)


@njit
def _canonical(x):
    bits = _as_bits(x)
    magnitude = bits & _MAGNITUDE
    bits = bits & _SIGN if magnitude < _LEAST else bits
    return _as_float(_NAN if magnitude > _INFINITY else bits)


@njit(cache=True, nogil=True, boundscheck=False)
def _matmul(a, b, out):
    t = a.shape[0]
    work = np.empty((t >> 1, t, t), np.float32)
    for pair in range(t >> 1):
        for m in range(t):
            a0 = _flush(a[m, 2 * pair])
            a1 = _flush(a[m, 2 * pair + 1])
            for n in range(t):
                work[pair, m, n] = _flush(
                    _flush(a0 * b[2 * pair, n]) + _flush(a1 * b[2 * pair + 1, n])
                )
    count = t >> 2
    while count:
        for i in range(count):
            low = work[2 * i].reshape(t * t)
            high = work[2 * i + 1].reshape(t * t)
            into = work[i].reshape(t * t)
            for j in range(t * t):
                into[j] = _flush(low[j] + high[j])
        count >>= 1
    result = out.reshape(t * t)
    total = work[0].reshape(t * t)
    for j in range(t * t):
        result[j] = _canonical(total[j])


@njit(cache=True, nogil=True, boundscheck=False)
def matmul_tile(a, b, out):
    """``out`` = ``a @ b`` of [t, t] tiles, summed as a balanced tree over k."""
    t = b.shape[0]
    flushed = np.empty((t, t), np.float32)
    for k in range(t):
        for n in range(t):
            flushed[k, n] = _flush(b[k, n])
    _matmul(a, flushed, out)


@njit(cache=True, nogil=True, boundscheck=False)
def matmul_bt_tile(a, b, out):
    """``out`` = ``a @ b.T``."""
    t = b.shape[0]
    flushed = np.empty((t, t), np.float32)
    for n in range(t):
        for k in range(t):
            flushed[k, n] = _flush(b[n, k])
    _matmul(a, flushed, out)


@njit(cache=True, nogil=True, boundscheck=False)
def add_tile(a, b, out):
    """``out`` = ``a + b``."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _canonical(_flush(x[i]) + _flush(y[i]))


@njit(cache=True, nogil=True, boundscheck=False)
def sub_tile(a, b, out):
    """``out`` = ``a - b``."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _canonical(_flush(x[i]) - _flush(y[i]))


@njit(cache=True, nogil=True, boundscheck=False)
def mul_tile(a, b, out):
    """``out`` = ``a * b``."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _canonical(_flush(x[i]) * _flush(y[i]))


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def div_tile(a, b, out):
    """``out`` = ``a / b``."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _canonical(_flush(x[i]) / _flush(y[i]))


@njit
def _order(bits):
    """Unsigned order of a bit pattern that is the order of its number, -0 below +0."""
    return bits ^ 0xFFFFFFFF if bits & _SIGN else bits | _SIGN


@njit
def _extreme(a, b, out, least):
    """The larger of ``a`` and ``b``, or the least."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        p = _as_bits(_canonical(x[i]))
        q = _as_bits(_canonical(y[i]))
        first = p if (_order(p) > _order(q)) != least else q
        z[i] = _as_float(_NAN if p == _NAN or q == _NAN else first)


@njit(cache=True, nogil=True, boundscheck=False)
def max_tile(a, b, out):
    """``out`` = the larger of ``a`` and ``b``."""
    _extreme(a, b, out, False)


@njit(cache=True, nogil=True, boundscheck=False)
def min_tile(a, b, out):
    """``out`` = the smaller of ``a`` and ``b``."""
    _extreme(a, b, out, True)


@njit(cache=True, nogil=True, boundscheck=False)
def relu_tile(a, out):
    """``out`` = the larger of ``a`` and +0."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        p = _canonical(x[i])
        z[i] = np.float32(0) if p <= 0 else p


@njit(cache=True, nogil=True, boundscheck=False)
def abs_tile(a, out):
    """``out`` = ``a`` without its sign."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _as_float(_as_bits(_canonical(x[i])) & _MAGNITUDE)


@njit(cache=True, nogil=True, boundscheck=False)
def square_tile(a, out):
    """``out`` = ``a * a``."""
    mul_tile(a, a, out)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def recip_tile(a, out):
    """``out`` = 1 / ``a``."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _canonical(np.float32(1) / _flush(x[i]))


@njit(cache=True, nogil=True, boundscheck=False)
def sqrt_tile(a, out):
    """``out`` = the square root of ``a``."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _canonical(np.sqrt(_flush(x[i])))


@njit
def _compare(a, b, out, below, equal, above):
    """1 where ``a`` is below, equal to or above ``b``, as allowed, else +0, as with a NaN."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        p = _flush(x[i])
        q = _flush(y[i])
        z[i] = np.float32((below and p < q) or (equal and p == q) or (above and p > q))


@njit(cache=True, nogil=True, boundscheck=False)
def lt_tile(a, b, out):
    """``out`` = 1 where ``a`` is below ``b``, else +0."""
    _compare(a, b, out, True, False, False)


@njit(cache=True, nogil=True, boundscheck=False)
def le_tile(a, b, out):
    """``out`` = 1 where ``a`` is at most ``b``, else +0."""
    _compare(a, b, out, True, True, False)


@njit(cache=True, nogil=True, boundscheck=False)
def eq_tile(a, b, out):
    """``out`` = 1 where ``a`` equals ``b``, else +0."""
    _compare(a, b, out, False, True, False)


@njit(cache=True, nogil=True, boundscheck=False)
def gt_tile(a, b, out):
    """``out`` = 1 where ``a`` is above ``b``, else +0."""
    _compare(a, b, out, False, False, True)


@njit(cache=True, nogil=True, boundscheck=False)
def ge_tile(a, b, out):
    """``out`` = 1 where ``a`` is at least ``b``, else +0."""
    _compare(a, b, out, False, True, True)


@njit(cache=True, nogil=True, boundscheck=False)
def select_tile(a, b, out):
    """``out`` = ``a`` where ``b`` is not a zero, else +0."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = np.float32(0) if _flush(y[i]) == 0 else _canonical(x[i])


@njit(cache=True, nogil=True, boundscheck=False)
def unless_tile(a, b, out):
    """``out`` = ``a`` where ``b`` is a zero, else +0."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _canonical(x[i]) if _flush(y[i]) == 0 else np.float32(0)


@njit(cache=True, nogil=True, boundscheck=False)
def either_tile(a, b, out):
    """``out`` = ``a``, or ``b`` where ``a`` is +0."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        first = _canonical(x[i])
        z[i] = _canonical(y[i]) if first == 0 and not np.signbit(first) else first


@njit(cache=True, nogil=True, boundscheck=False)
def cast_bf16_tile(a, out):
    """``out`` = ``a`` rounded to bf16."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        bits = _as_bits(_canonical(x[i]))
        z[i] = _as_float(bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000)


@njit(cache=True, nogil=True, boundscheck=False)
def cast_fp32_tile(a, out):
    """``out`` = ``a``, a bf16 tile, as fp32."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _canonical(x[i])


@njit
def _fields(x):
    """Sign, biased exponent and significand of ``x``; that of a zero is 0."""
    bits = np.int64(_as_bits(_flush(x)))
    exponent = bits >> 23 & 255
    return bits >> 31, exponent, bits & 0x7FFFFF | 0x800000 if exponent else 0


@njit
def _exp2_steps(exponent, significand, negative, factor):
    t = significand * factor >> min(max(156 - exponent, 0), 62)
    if exponent > 134:
        t = (1 << 39) - 1
    return _power(-t if negative else t)


@njit
def _power(t):
    k = t >> 30
    index = t >> 23 & 127
    r = t & 0x7FFFFF
    p = (EXP2_C1 + (EXP2_C2 * (r >> 7) >> 15)) * r >> 24
    base = _EXP2_TABLE[index]
    return k, base + (base * p >> 32)


@njit
def _pack(sign, exponent, mantissa):
    bits = (exponent << 23) + (mantissa + 63 + (mantissa >> 7 & 1) >> 7) - (1 << 23)
    if bits < 0x00800000:
        bits = 0
    elif bits > 0x7F800000:
        bits = 0x7F800000
    return bits | sign << 31


@njit
def _power_of(x, factor):
    sign, exponent, significand = _fields(x)
    k, mantissa = _exp2_steps(exponent, significand, sign, factor)
    return _as_float(_NAN if x != x else _pack(0, k + 127, mantissa))


@njit(cache=True, nogil=True, boundscheck=False)
def exp_tile(a, out):
    """``out`` = e**``a``."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _power_of(x[i], LOG2E)


@njit(cache=True, nogil=True, boundscheck=False)
def exp2_tile(a, out):
    """``out`` = 2**``a``."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _power_of(x[i], 1 << 36)


@njit
def _cubic(table, index, r, bits):
    y = table[index, 2] + (table[index, 3] * r >> bits)
    return table[index, 0] + ((table[index, 1] + (y * r >> bits)) * r >> bits)


@njit
def _of_magnitude(table, exponent, significand):
    shift = min(max(122 - exponent, -8), 62)
    place = significand << -shift if shift < 0 else significand >> shift
    return _cubic(table, place >> 24 & 255, place & 0xFFFFFF, 24)


@njit(cache=True, nogil=True, boundscheck=False)
def rsqrt_tile(a, out):
    """``out`` = 1 / sqrt(``a``)."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        sign, exponent, significand = _fields(x[i])
        index = (~exponent & 1) << 7 | significand >> 16 & 127
        y = _cubic(_RSQRT, index, significand & 0xFFFF, 16) >> 2
        result = _pack(0, 126 - (exponent - 127 >> 1), y)
        if exponent == 0:
            result = 0x7F800000 | sign << 31
        elif sign or x[i] != x[i]:
            result = 0x7FC00000
        elif exponent == 255:
            result = 0
        z[i] = _as_float(result)


@njit(cache=True, nogil=True, boundscheck=False)
def tanh_tile(a, out):
    """``out`` = the hyperbolic tangent of ``a``."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        sign, exponent, significand = _fields(x[i])
        mantissa = _of_magnitude(_TANH, exponent, significand) * significand >> 23
        exponent_out = exponent - 4
        while mantissa >= 1 << 31:
            mantissa >>= 1
            exponent_out += 1
        result = _pack(sign, exponent_out, mantissa)
        if exponent >= 131:
            result = 0x3F800000 | sign << 31
        if significand == 0:
            result = sign << 31
        z[i] = _as_float(_NAN if x[i] != x[i] else result)


@njit(cache=True, nogil=True, boundscheck=False)
def log_tile(a, out):
    """``out`` = the natural logarithm of ``a``."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        sign, exponent, significand = _fields(x[i])
        index = significand >> 16 & 127
        fold = index >= LOG_FOLD
        r = (significand << (0 if fold else 1)) * _LOG_SCALE[index] - (1 << 34)
        square = r * r >> 14
        bend = (1 << 22) - ((r >> 11) * LOG_THIRD >> 18) + (square >> 33)
        total = (exponent - 127 + fold) * LN2 + _LOG_TABLE[index] + (r << 22)
        total -= square * bend >> 21
        size = abs(total)
        places = 0
        while size >> places >= 1 << 24:
            places += 1
        low = size & (1 << places) - 1
        size >>= places
        half = (1 << places) >> 1
        if places and (low > half or (low == half and size & 1)):
            size += 1
        result = np.float32(np.ldexp(np.float64(size), places - 56))
        result = -result if total < 0 else result
        if exponent == 0:
            result = np.float32(-np.inf)
        elif sign or x[i] != x[i]:
            result = np.float32(np.nan)
        elif exponent == 255:
            result = np.float32(np.inf)
        z[i] = _canonical(result)


@njit
def _weighed(x, k, mantissa, factor):
    """``factor`` / (1 + 2**-t) of t with the sign of x; 2**-|t| is ``mantissa * 2**(k - 30)``."""
    negative = _as_bits(x) >> 31
    sign, exponent, significand = _fields(factor)
    d = min((1 << 30) + (mantissa >> min(-k, 62)), (1 << 31) - 1)
    index = d >> 23 & 127
    y = _RECIP_TABLE[index] - (_RECIP_SLOPE[index] * (d >> 11 & 0xFFF) >> 11) >> 2
    reciprocal = (y << 14) + (y * ((1 << 48) - d * y >> 14) >> 20)
    w = ((mantissa if negative else 1 << 30) * reciprocal >> 30) * significand
    top = min(w >> 55, 2)
    result = _pack(sign, exponent + (k if negative else 0) + top - 1, w >> 24 + top)
    if significand == 0:
        result = sign << 31
    if exponent == 255:
        result = 0x80000000 if sign else 0x7F800000
    return _as_float(_NAN if x != x else result)


@njit(cache=True, nogil=True, boundscheck=False)
def sigmoid_tile(a, out):
    """``out`` = 1 / (1 + e**-``a``)."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        _, exponent, significand = _fields(x[i])
        k, mantissa = _exp2_steps(exponent, significand, 1, LOG2E)
        z[i] = _weighed(x[i], k, mantissa, np.float32(1))


@njit(cache=True, nogil=True, boundscheck=False)
def silu_tile(a, out):
    """``out`` = ``a`` / (1 + e**-``a``)."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        _, exponent, significand = _fields(x[i])
        k, mantissa = _exp2_steps(exponent, significand, 1, LOG2E)
        z[i] = _weighed(x[i], k, mantissa, x[i])


@njit
def _gelu(table, x):
    _, exponent, significand = _fields(x)
    t = (1 << 39) - 1 if exponent >= 131 else _of_magnitude(table, exponent, significand) >> 2
    k, mantissa = _power(-t)
    return _weighed(x, k, mantissa, x)


@njit(cache=True, nogil=True, boundscheck=False)
def gelu_tile(a, out):
    """``out`` = ``a`` (1 + erf(``a`` / sqrt(2))) / 2."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _gelu(_GELU, x[i])


@njit(cache=True, nogil=True, boundscheck=False)
def gelu_tanh_tile(a, out):
    """``out`` = ``a`` (1 + tanh(sqrt(2 / pi) (``a`` + 0.044715 ``a``**3))) / 2."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        z[i] = _gelu(_GELU_TANH, x[i])
