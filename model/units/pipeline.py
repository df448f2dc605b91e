"""`map` and `matmul`: inputs, a computation of latency L, an output queue."""

from __future__ import annotations

from .state import *  # noqa: F403 - offsets, channel functions

(Q_LATENCY, Q_INTERVAL, Q_ENTRIES, Q_LAST, Q_HEAD, Q_COUNT, Q_QUEUE, Q_TUPLE, Q_KERNEL, Q_MATMUL, Q_TRANSPOSED) = range(U_OWN, U_OWN + 11)


@fast
def pipeline(S, V, LOG, u, c):
    """`map` and `matmul`: inputs, a computation of latency L, an output queue."""
    flags = 0
    credit, first, entries = S[u + Q_COUNT], S[u + Q_HEAD], S[u + Q_ENTRIES]
    if credit:
        e = S[u + Q_QUEUE] + first * ENTRY
        if S[e] <= c:
            out = S[S[u + U_OUT]]
            if ready(S, out, c):
                if S[e + X_DATA]:
                    push_tile(S, V, LOG, out, c, S[e + X_STOP], S[e + X_META], S[e + X_META + 1], S[e + X_VALUE])
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
        y_meta, y_value = y + X_META, S[y + X_VALUE]
        if S[u + Q_TUPLE]:
            y_meta += 2
            y_value += S[G_T] * S[G_T]
        rows, cols = S[x + X_META], S[x + X_META + 1]
        if S[u + Q_MATMUL]:
            cols = S[y_meta] if S[u + Q_TRANSPOSED] else S[y_meta + 1]
        S[e + X_META], S[e + X_META + 1] = rows, cols
        if S[G_VALUES]:
            base = S[G_VPTR]
            call_kernel(S[u + Q_KERNEL], base + 4 * S[x + X_VALUE], base + 4 * y_value, base + 4 * S[e + X_VALUE], S[G_T])
            mask_tile(S, V, S[e + X_VALUE], rows, cols)
    S[u + Q_COUNT] += 1
    S[u + Q_LAST] = c
    wake(S, S[u + U_ID], S[e])
    wake(S, S[u + U_ID], c + S[u + Q_INTERVAL])
    return BUSY
