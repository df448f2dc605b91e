"""`map` and `matmul`: inputs, a computation of latency L, an output queue."""

from __future__ import annotations

from .state import *

(
    Q_LATENCY,
    Q_INTERVAL,
    Q_ENTRIES,
    Q_LAST,
    Q_HEAD,
    Q_COUNT,
    Q_QUEUE,
    Q_TUPLE,
    Q_KERNEL,
    Q_MATMUL,
    Q_TRANSPOSED,
    Q_SPREAD,
    Q_BITS,
    Q_SPARE,
    Q_REDUCE,
) = range(
    U_OWN, U_OWN + 15
)  # Q_BITS: of the constant operand, or of a reduction's identity; Q_SPARE: values of three tiles
WHOLE, SPREAD_COLS, SPREAD_ROWS, SPREAD_BOTH, CONSTANT = range(5)  # the second operand


@fast
def second_operand(S, V, u, value):
    """Where the values of the second operand lie, once its column, row, element or the constant is
    spread over a tile.
    """
    how = S[u + Q_SPREAD]
    t = S[G_T]
    spare = S[u + Q_SPARE]
    if how == WHOLE:
        return value
    for r in range(t):
        for k in range(t):
            if how == CONSTANT:
                V[spare + r * t + k] = S[u + Q_BITS]
            else:
                V[spare + r * t + k] = V[
                    value + (0 if how & SPREAD_ROWS else r) * t + (0 if how & SPREAD_COLS else k)
                ]
    return spare


@fast
def reduce_rows(S, V, u, value, out, cols):
    """A balanced tree over the columns of each row into the first column; columns from `cols` on
    are the identity.
    """
    t = S[G_T]
    a = S[u + Q_SPARE]
    b = a + t * t
    z = a + 2 * t * t
    for r in range(t):
        for k in range(t):
            V[z + r * t + k] = V[value + r * t + k] if k < cols else S[u + Q_BITS]
    width = t // 2
    while width:
        for r in range(t):
            for k in range(width):
                V[a + r * t + k], V[b + r * t + k] = V[z + r * t + 2 * k], V[z + r * t + 2 * k + 1]
        base = S[G_VPTR]
        call_kernel(S[u + Q_KERNEL], base + 4 * a, base + 4 * b, base + 4 * z, t)
        width //= 2
    copy_values(S, V, z, out, t * t)


@fast
def pipeline(S, V, LOG, u, c):
    """`map` and `matmul`: inputs, a computation of latency L, an output queue."""
    flags = 0
    credit = S[u + Q_COUNT]
    first = S[u + Q_HEAD]
    entries = S[u + Q_ENTRIES]
    if credit:
        e = S[u + Q_QUEUE] + first * ENTRY
        if S[e] <= c:
            out = S[S[u + U_OUT]]
            if ready(S, out, c):
                if S[e + X_DATA]:
                    push_tile(
                        S,
                        V,
                        LOG,
                        out,
                        c,
                        S[e + X_STOP],
                        S[e + X_META],
                        S[e + X_META + 1],
                        S[e + X_VALUE],
                    )
                else:
                    commit(S, V, LOG, out, push(S, out, c, S[e + X_STOP], 0), c)
                S[u + Q_HEAD] = first + 1 if first + 1 < entries else 0
                S[u + Q_COUNT] = credit - 1
                flags = BUSY
            else:
                flags = BLOCKED
    if credit == entries or c < S[u + Q_LAST] + S[u + Q_INTERVAL]:
        return flags
    a = S[S[u + U_IN]]
    x = head(S, a, c)
    if x < 0:
        return flags
    y = x
    if S[u + U_NIN] == 2:
        b = S[S[u + U_IN] + 1]
        y = head(S, b, c)
        if y < 0:
            return flags
        if S[x + X_STOP] != S[y + X_STOP] or S[x + X_DATA] != S[y + X_DATA]:
            fail(S, FAULT_STOP, u, c)
            return flags
        take(S, LOG, b, c)
    take(S, LOG, a, c)
    at = first + credit
    e = S[u + Q_QUEUE] + (at if at < entries else at - entries) * ENTRY
    S[e], S[e + X_STOP], S[e + X_DATA] = c + S[u + Q_LATENCY], S[x + X_STOP], S[x + X_DATA]
    if S[x + X_DATA]:
        y_meta = y + X_META
        y_value = S[y + X_VALUE]
        if S[u + Q_TUPLE]:
            y_meta += 2
            y_value += S[G_T] * S[G_T]
        rows = S[x + X_META]
        cols = S[x + X_META + 1]
        if S[u + Q_MATMUL]:
            cols = S[y_meta] if S[u + Q_TRANSPOSED] else S[y_meta + 1]
        if S[u + Q_REDUCE]:
            if S[G_VALUES]:
                reduce_rows(S, V, u, S[x + X_VALUE], S[e + X_VALUE], cols)
            cols = min(cols, 1)
        elif S[G_VALUES]:
            base = S[G_VPTR]
            call_kernel(
                S[u + Q_KERNEL],
                base + 4 * S[x + X_VALUE],
                base + 4 * second_operand(S, V, u, y_value),
                base + 4 * S[e + X_VALUE],
                S[G_T],
            )
        S[e + X_META] = rows
        S[e + X_META + 1] = cols
        if S[G_VALUES]:
            mask_tile(S, V, S[e + X_VALUE], rows, cols)
    S[u + Q_COUNT] += 1
    S[u + Q_LAST] = c
    wake(S, S[u + U_ID], S[e])
    wake(S, S[u + U_ID], c + S[u + Q_INTERVAL])
    return BUSY
