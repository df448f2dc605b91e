"""`accum`: a reduction into a memory of accumulators (docs/timing.md section 3.1)."""

from __future__ import annotations

from .state import *  # noqa: F403 - offsets, channel functions

(A_INTERVAL, A_DEPTH, A_REDUCE, A_TOP, A_LAST, A_INDEX, A_TILES, A_DRAINED, A_FROM, A_DONE, A_STARTS, A_FIRSTS, A_MEMORY, A_VALUE,
 A_KERNEL) = range(U_OWN, U_OWN + 15)


@fast
def accum(S, V, LOG, u, c):
    source, out = S[S[u + U_IN]], S[S[u + U_OUT]]
    if S[u + A_DONE]:
        if not ready(S, out, c):
            return BLOCKED
        push_done(S, V, LOG, out, c)
        S[u + A_DONE] = 0
        return BUSY
    flags = 0
    tiles, drained, size = S[u + A_TILES], S[u + A_DRAINED], S[G_T] * S[G_T]
    if tiles and c >= S[u + A_FROM]:
        if ready(S, out, c):
            m = S[u + A_MEMORY] + 3 * drained
            push_tile(S, V, LOG, out, c, S[m + 2], S[m], S[m + 1], S[u + A_VALUE] + drained * size)
            S[u + A_DRAINED] = drained + 1
            if drained + 1 == tiles:
                S[u + A_TILES] = 0
            flags = BUSY
        else:
            flags = BLOCKED
    if c < S[u + A_LAST] + S[u + A_INTERVAL]:
        return flags
    slot = head(S, source, c)
    if slot < 0:
        return flags
    if not S[slot + X_DATA]:
        if tiles:
            return flags
        take(S, LOG, source, c)
        S[u + A_DONE] = 1
        return BUSY
    s, top, index = S[slot + X_STOP], S[u + A_TOP], S[u + A_INDEX]
    if tiles and (index >= drained or s > top):
        return flags
    if index >= S[u + A_DEPTH]:
        fail(S, ERROR_ACCUM, u, c)
        return flags
    m, value = S[u + A_MEMORY] + 3 * index, S[u + A_VALUE] + index * size
    reduce, starts, firsts = S[u + A_REDUCE], S[u + A_STARTS], S[u + A_FIRSTS]
    initialising, kept = True, 0
    for j in range(top + 1):
        if reduce >> j & 1:
            if not S[firsts + j]:
                initialising = False
        elif j < s:
            kept += 1
    if s > top + 1:
        kept += s - top - 1
    if initialising:
        S[m], S[m + 1] = S[slot + X_META], S[slot + X_META + 1]
        copy_values(S, V, S[slot + X_VALUE], value, size)
    elif S[G_VALUES]:
        base = S[G_VPTR]
        call_kernel(S[u + A_KERNEL], base + 4 * value, base + 4 * S[slot + X_VALUE], base + 4 * value, S[G_T])
    S[m + 2] = kept
    if s > top:
        S[u + A_TILES], S[u + A_DRAINED], S[u + A_FROM] = index + 1, 0, c + S[u + A_INTERVAL]
        index = 0
    elif reduce >> s & 1:
        index = S[starts + s]
        S[firsts + s] = 0
    else:
        index += 1
    for j in range(min(s, top + 1)):
        S[firsts + j] = 1
        S[starts + j] = index
    S[u + A_INDEX] = index
    S[u + A_LAST] = c
    take(S, LOG, source, c)
    wake(S, S[u + U_ID], c + S[u + A_INTERVAL])
    return BUSY
