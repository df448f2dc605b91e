"""`accum`: a reduction into a memory of accumulators (docs/timing.md sections 3.1 and 3.4)."""

from __future__ import annotations

from .state import *

(
    A_INTERVAL,
    A_DEPTH,
    A_REDUCE,
    A_TOP,
    A_LAST,
    A_INDEX,
    A_TILES,
    A_DRAINED,
    A_FROM,
    A_LEAVING,
    A_STARTS,
    A_FIRSTS,
    A_MEMORY,
    A_VALUE,
    A_KERNEL,
    A_HIGH,
    A_STOP,
    A_INITIAL,
    A_ROWS,
    A_COLS,
    A_IDENTITY,
    A_SPARE,
    A_SCAN,
    A_HELD,
    A_LOWEST,
    A_OUTER,
) = range(U_OWN, U_OWN + 26)
# A_LEAVING: 1 + stop of a beat without data that leaves next (scan: of any; A_HELD: its accumulator
# + 1, or 0); A_INITIAL: 1 + last stop while initial values drain;
# A_HIGH: tiles of the open group; A_STOP: stop of the beat before; A_SPARE: values of one tile.


@fast
def kept(S, u, s):
    """Kept dimensions below `s`."""
    top = S[u + A_TOP]
    n = 0
    for j in range(min(s, top + 1)):
        n += 1 - (S[u + A_REDUCE] >> j & 1)
    return n + max(s - top - 1, 0)


@fast
def drain_tile(S, V, LOG, u, out, c, i):
    """Accept tile `i` of the group that drains."""
    t = S[G_T]
    m = S[u + A_MEMORY] + 3 * i
    value = S[u + A_VALUE] + i * t * t
    rows = S[m]
    cols = S[m + 1]
    stop = S[m + 2]
    if S[u + A_INITIAL]:
        width = (S[u + A_COLS] + t - 1) // t
        rows = min(S[u + A_ROWS] - i // width * t, t)
        cols = min(S[u + A_COLS] - i % width * t, t)
        stop = (
            S[u + A_INITIAL] - 1
            if i == S[u + A_TILES] - 1
            else (1 if i % width == width - 1 else 0)
        )
        value = S[u + A_SPARE]
        if S[G_VALUES]:
            for j in range(t * t):
                V[value + j] = S[u + A_IDENTITY]
    if S[G_VALUES] and S[u + A_IDENTITY]:
        mask_tile(S, V, value, rows, cols)
    push_tile(S, V, LOG, out, c, stop, rows, cols, value)


@fast
def begin_drain(S, u, c, tiles):
    S[u + A_TILES], S[u + A_DRAINED], S[u + A_FROM], S[u + A_LAST] = (
        tiles,
        0,
        c + S[u + A_INTERVAL],
        c,
    )
    reset_group(S, u)
    wake(S, S[u + U_ID], c + S[u + A_INTERVAL])


@fast
def reset_group(S, u):
    S[u + A_INDEX] = S[u + A_HIGH] = 0
    for j in range(S[u + A_TOP] + 1):
        S[S[u + A_FIRSTS] + j] = 1
        S[S[u + A_STARTS] + j] = 0


@fast
def fits(S, u, s, index, initialising):
    """Whether a beat of stop `s` for the accumulator `index` stands where it stood in the passes
    before.
    """
    lowest = S[u + A_LOWEST]
    outer = S[u + A_OUTER]
    high = S[u + A_HIGH]
    if not initialising and (
        index >= high or min(S[S[u + A_MEMORY] + 3 * index + 2], lowest) != min(s, lowest)
    ):
        return False
    return s < outer or index + 1 >= high


@fast
def accumulate(S, V, u, slot, m, value, initialising):
    """Take the beat in `slot` into the accumulator at `value`; its elements without value count as
    the function's identity.
    """
    t = S[G_T]
    beat = S[slot + X_VALUE]
    rows = S[slot + X_META]
    cols = S[slot + X_META + 1]
    if S[G_VALUES]:
        if S[u + A_IDENTITY] and (rows < t or cols < t):
            copy_values(S, V, beat, S[u + A_SPARE], t * t)
            beat = S[u + A_SPARE]
            for r in range(t):
                for k in range(cols if r < rows else 0, t):
                    V[beat + r * t + k] = S[u + A_IDENTITY]
        if initialising:
            copy_values(S, V, beat, value, t * t)
        else:
            base = S[G_VPTR]
            call_kernel(S[u + A_KERNEL], base + 4 * value, base + 4 * beat, base + 4 * value, t)
    if initialising:
        S[m] = rows
        S[m + 1] = cols
    else:
        S[m], S[m + 1] = max(S[m], rows), max(S[m + 1], cols)


@fast
def group_step(S, u, s, index):
    """The next beat's accumulator, after a data beat of stop `s` <= top."""
    firsts = S[u + A_FIRSTS]
    starts = S[u + A_STARTS]
    S[u + A_HIGH] = max(S[u + A_HIGH], index + 1)
    if S[u + A_REDUCE] >> s & 1:
        index = S[starts + s]
        S[firsts + s] = 0
    else:
        index += 1
    for j in range(s):
        S[firsts + j] = 1
        S[starts + j] = index
    S[u + A_INDEX] = index


@fast
def opens(S, u):
    """Whether the next beat is the first of its accumulator."""
    for j in range(S[u + A_TOP] + 1):
        if S[u + A_REDUCE] >> j & 1 and not S[S[u + A_FIRSTS] + j]:
            return False
    return True


@fast
def scan(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    flags = 0
    size = S[G_T] * S[G_T]
    if S[u + A_LEAVING] and c >= S[u + A_FROM]:
        if ready(S, out, c):
            if S[u + A_HELD]:
                i = S[u + A_HELD] - 1
                m = S[u + A_MEMORY] + 3 * i
                value = S[u + A_SPARE]
                copy_values(S, V, S[u + A_VALUE] + i * size, value, size)
                if S[G_VALUES] and S[u + A_IDENTITY]:
                    mask_tile(S, V, value, S[m], S[m + 1])
                push_tile(S, V, LOG, out, c, S[u + A_LEAVING] - 1, S[m], S[m + 1], value)
            else:
                commit(S, V, LOG, out, push(S, out, c, S[u + A_LEAVING] - 1, 0), c)
            S[u + A_LEAVING] = 0
            flags = BUSY
        else:
            flags = BLOCKED
    if S[u + A_LEAVING] or c < S[u + A_LAST] + S[u + A_INTERVAL]:
        return flags
    slot = head(S, source, c)
    if slot < 0:
        return flags
    s = S[slot + X_STOP]
    top = S[u + A_TOP]
    index = S[u + A_INDEX]
    if S[slot + X_DATA]:
        if index >= S[u + A_DEPTH]:
            fail(S, FAULT_ACCUMULATORS, u, c)
            return flags
        m = S[u + A_MEMORY] + 3 * index
        initialising = opens(S, u)
        if not fits(S, u, s, index, initialising):
            fail(S, FAULT_STOP, u, c)
            return flags
        accumulate(S, V, u, slot, m, S[u + A_VALUE] + index * size, initialising)
        S[m + 2] = kept(S, u, s)
        S[u + A_HELD], S[u + A_FROM], S[u + A_LAST] = index + 1, c + S[u + A_INTERVAL], c
        if s <= top:
            group_step(S, u, s, index)
    else:
        S[u + A_HELD] = 0
        S[u + A_FROM] = c + 1
    if s > top:
        reset_group(S, u)
    S[u + A_LEAVING] = 1 + s
    take(S, LOG, source, c)
    wake(S, S[u + U_ID], S[u + A_FROM])
    return BUSY


@fast
def accum(S, V, LOG, u, c):
    if S[u + A_SCAN]:
        return scan(S, V, LOG, u, c)
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    if S[u + A_LEAVING]:
        if not ready(S, out, c):
            return BLOCKED
        commit(S, V, LOG, out, push(S, out, c, S[u + A_LEAVING] - 1, 0), c)
        S[u + A_LEAVING] = 0
        return BUSY
    flags = 0
    tiles = S[u + A_TILES]
    drained = S[u + A_DRAINED]
    if tiles and c >= S[u + A_FROM]:
        if ready(S, out, c):
            drain_tile(S, V, LOG, u, out, c, drained)
            S[u + A_DRAINED] = drained + 1
            if drained + 1 == tiles:
                S[u + A_TILES] = S[u + A_INITIAL] = 0
            flags = BUSY
        else:
            flags = BLOCKED
    if c < S[u + A_LAST] + S[u + A_INTERVAL]:
        return flags
    slot = head(S, source, c)
    if slot < 0:
        return flags
    s = S[slot + X_STOP]
    top = S[u + A_TOP]
    index = S[u + A_INDEX]
    data = S[slot + X_DATA]
    if tiles and (s > top or (data and index >= drained)):
        return flags
    if not data:
        high = S[u + A_HIGH]
        before = S[u + A_STOP]
        take(S, LOG, source, c)
        S[u + A_STOP] = s
        if s == STOP_DONE:
            S[u + A_LEAVING] = 1 + s
            reset_group(S, u)
        elif s > top:
            if high:
                S[S[u + A_MEMORY] + 3 * (high - 1) + 2] = kept(S, u, s)
                begin_drain(S, u, c, high)
            elif (s > top + 1 and before > top + 1) or S[u + A_ROWS] == 0:
                S[u + A_LEAVING] = 1 + kept(S, u, s)
            else:
                t = S[G_T]
                S[u + A_INITIAL] = 1 + kept(S, u, s)
                begin_drain(
                    S, u, c, ((S[u + A_ROWS] + t - 1) // t) * ((S[u + A_COLS] + t - 1) // t)
                )
        return BUSY
    if index >= S[u + A_DEPTH]:
        fail(S, FAULT_ACCUMULATORS, u, c)
        return flags
    m = S[u + A_MEMORY] + 3 * index
    size = S[G_T] * S[G_T]
    initialising = opens(S, u)
    if not fits(S, u, s, index, initialising):
        fail(S, FAULT_STOP, u, c)
        return flags
    accumulate(S, V, u, slot, m, S[u + A_VALUE] + index * size, initialising)
    S[m + 2] = kept(S, u, s)
    S[u + A_LAST] = c
    S[u + A_STOP] = s
    take(S, LOG, source, c)
    wake(S, S[u + U_ID], c + S[u + A_INTERVAL])
    if s > top:
        begin_drain(S, u, c, index + 1)
        return BUSY
    group_step(S, u, s, index)
    return BUSY
