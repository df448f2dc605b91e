"""Compiled arithmetic over whole tiles, equal bit for bit to
:mod:`penstock.machine.arith`.

Every kernel takes C-contiguous float32 tiles and writes its result into the last argument, which
may be an operand of an element-wise kernel but not of a matmul. Values are handled as bit patterns
between the floating-point operations, so that flushing is integer selection, which vectorises, and
so that no compiler rule about NaNs applies. Compilation is cached on disk.
"""

import numpy as np
from numba import float32, njit, uint32

from ..machine.approximation import EXP2_C1, EXP2_C2, EXP2_TABLE, LOG2E, RECIP_SLOPE, RECIP_TABLE
from .compiling import inlined

_EXP2_TABLE = np.array(EXP2_TABLE, np.int64)
_RECIP_TABLE = np.array(RECIP_TABLE, np.int64)
_RECIP_SLOPE = np.array(RECIP_SLOPE, np.int64)

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


@njit(cache=True, nogil=True, boundscheck=False)
def max_tile(a, b, out):
    """``out`` = the larger of ``a`` and ``b``."""
    x = a.reshape(a.size)
    y = b.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        p = _as_bits(_canonical(x[i]))
        q = _as_bits(_canonical(y[i]))
        larger = p if _order(p) > _order(q) else q
        z[i] = _as_float(_NAN if p == _NAN or q == _NAN else larger)


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
def _exp2_steps(exponent, significand, negative):
    t = significand * LOG2E >> min(max(156 - exponent, 0), 62)
    if exponent > 134:
        t = (1 << 39) - 1
    if negative:
        t = -t
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


@njit(cache=True, nogil=True, boundscheck=False)
def exp_tile(a, out):
    """``out`` = e**``a``."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        bits = np.int64(_as_bits(x[i]))
        magnitude = bits & 0x7FFFFFFF
        significand = 0 if magnitude < 0x00800000 else magnitude & 0x7FFFFF | 0x800000
        k, mantissa = _exp2_steps(magnitude >> 23, significand, bits >> 31)
        result = _pack(0, k + 127, mantissa)
        if magnitude > 0x7F800000:
            result = 0x7FC00000
        z[i] = _as_float(result)


@njit(cache=True, nogil=True, boundscheck=False)
def silu_tile(a, out):
    """``out`` = ``a`` / (1 + e**-``a``)."""
    x = a.reshape(a.size)
    z = out.reshape(a.size)
    for i in range(a.size):
        bits = np.int64(_as_bits(x[i]))
        magnitude = bits & 0x7FFFFFFF
        sign = bits >> 31
        exponent = magnitude >> 23
        significand = 0 if magnitude < 0x00800000 else magnitude & 0x7FFFFF | 0x800000
        k, mantissa = _exp2_steps(exponent, significand, 1)
        d = min((1 << 30) + (mantissa >> min(-k, 62)), (1 << 31) - 1)
        index = d >> 23 & 127
        y = _RECIP_TABLE[index] - (_RECIP_SLOPE[index] * (d >> 11 & 0xFFF) >> 11) >> 2
        reciprocal = (y << 14) + (y * ((1 << 48) - d * y >> 14) >> 20)
        w = ((mantissa if sign else 1 << 30) * reciprocal >> 30) * significand
        top = min(w >> 55, 2)
        result = _pack(sign, exponent + (k if sign else 0) + top - 1, w >> 24 + top)
        if significand == 0:
            result = sign << 31
        if magnitude == 0x7F800000:
            result = 0x80000000 if sign else 0x7F800000
        if magnitude > 0x7F800000:
            result = 0x7FC00000
        z[i] = _as_float(result)
