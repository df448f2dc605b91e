"""The units of the `machine` timing, compiled: one function per kind, each one cycle of docs/timing.md for one unit.

All state lies in one int64 array `S`: globals, channel records, unit records and what they point to, at the offsets named below
(`penstock.model.layout` lays it out). Element values lie in the uint32 array `V` as float32 bit patterns. A function is called in a
cycle in which its unit may act; it decides on registered state only (a beat accepted in this cycle carries this cycle's number and is
not visible, a slot freed in this cycle is not ready), so the order of calls within a cycle does not matter. It returns flags.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

BUSY, BLOCKED, ACTIVE = 1, 2, 4  # took or delivered a beat; offers one that is not accepted; state changed otherwise

# Globals.
(G_NOW, G_OPEN, G_HAD_OPEN, G_MASK, G_WORDS, G_WHEEL, G_VALUES, G_TRACE, G_EVENTS, G_ERROR, G_ERROR_UNIT, G_ERROR_AT, G_LOGGED, G_SUNK, G_PORTS,
 G_NPORTS, G_PRESENT, G_GRANT, G_ROUND_ROBIN, G_DRAM_UNIT, G_UNITS, G_NUNITS, G_FIRST_REQUEST, G_READ, G_WRITTEN, G_VPTR, G_T, G_W, G_EVALS,
 G_MAX_CYCLE_LOG, G_OUT, GLOBALS) = range(32)
# A channel, and a slot of it: accept cycle, stop, data, offset of its values, then two numbers a member (rows and cols; page and tiles).
(C_ID, C_LEVEL, C_DEPTH, C_HEAD, C_TAIL, C_LAST_TAKE, C_SLOTS, C_SLOT_WORDS, C_SRC, C_DST, C_META, C_VALUES, C_LEAVES, C_HELD, C_TAKEN,
 CHANNEL_WORDS) = range(16)
X_ACCEPT, X_STOP, X_DATA, X_VALUE, X_META = range(5)
LEAF_TILE, LEAF_OTHER, LEAF_WORDS = 0, 1, 3  # a member: kind, bits, bits
# A unit; parameters and state of its kind from U_OWN on.
(U_ID, U_KIND, U_IN, U_OUT, U_NIN, U_NOUT, U_BUSY, U_BLOCKED, U_BUSY_AT, U_EVAL, U_STATUS, U_PORT, U_OWN) = range(13)
UNIT_WORDS = 72

ERROR_STOP, ERROR_ACCUM, ERROR_ADDRESS, ERROR_FLIGHT, ERROR_TILES = 1, 2, 3, 4, 5
(K_BROADCAST, K_FLATTEN, K_PROMOTE, K_PROMOTE_OUTER, K_RESHAPE, K_REPEAT, K_ZIP, K_SPLIT, K_MERGE, K_PIPE, K_ACCUM, K_SCRATCHPAD, K_LOAD, K_STORE,
 K_SOURCE, K_SINK) = range(16)

fast = njit(boundscheck=False, error_model="numpy", _nrt=False)


@intrinsic
def trailing_zeros(typing, x):
    """Number of zero bits below the lowest set bit of a non-zero int64."""
    def emit(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
    return types.int64(types.int64), emit


@intrinsic
def call_kernel(typing, function, a, b, out, t):
    """Call the C function `void (float *a, float *b, float *out, int64 t)` at address `function`."""
    def emit(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 4)
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()
    return types.void(types.int64, types.int64, types.int64, types.int64, types.int64), emit


# ---- wakes, channels -------------------------------------------------------------------------------------------------

@fast
def wake(S, unit, cycle):
    """Evaluate `unit` in `cycle`; what lies further ahead than the wheel is evaluated early, in vain, and asks again."""
    if cycle - S[G_NOW] > S[G_MASK]:
        cycle = S[G_NOW] + S[G_MASK]
    S[S[G_WHEEL] + (cycle & S[G_MASK]) * S[G_WORDS] + (unit >> 6)] |= np.int64(1) << (unit & 63)


@fast
def head(S, channel, c):
    """The slot of the beat visible in `c`, or -1."""
    if S[channel + C_LEVEL] == 0:
        return -1
    slot = S[channel + C_SLOTS] + S[channel + C_HEAD] * S[channel + C_SLOT_WORDS]
    return slot if S[slot] < c else -1


@fast
def ready(S, channel, c):
    """Whether a slot was free at the start of `c` (its producer has accepted nothing yet in `c`)."""
    level = S[channel + C_LEVEL]
    if S[channel + C_LAST_TAKE] == c:
        level += 1
    return level < S[channel + C_DEPTH]


@fast
def take(S, LOG, channel, c):
    level, at = S[channel + C_LEVEL], S[channel + C_HEAD]
    depth = S[channel + C_DEPTH]
    S[channel + C_HELD] += c - S[S[channel + C_SLOTS] + at * S[channel + C_SLOT_WORDS]]
    if level == depth:
        wake(S, S[channel + C_SRC], c + 1)
    at += 1
    S[channel + C_HEAD] = 0 if at == depth else at
    S[channel + C_LEVEL] = level - 1
    S[channel + C_LAST_TAKE] = c
    S[channel + C_TAKEN] += 1
    S[G_EVENTS] += 1
    if S[G_TRACE]:
        n = S[G_LOGGED]
        S[G_LOGGED] = n + 1
        LOG[n, 0], LOG[n, 1], LOG[n, 2] = 1, S[channel + C_ID], c


@fast
def push(S, channel, c, stop, data):
    """Accept a beat in `c`; the caller fills in payload and values of the slot returned, then calls `commit`."""
    level, at, depth = S[channel + C_LEVEL], S[channel + C_TAIL], S[channel + C_DEPTH]
    slot = S[channel + C_SLOTS] + at * S[channel + C_SLOT_WORDS]
    S[slot], S[slot + X_STOP], S[slot + X_DATA] = c, stop, data
    at += 1
    S[channel + C_TAIL] = 0 if at == depth else at
    S[channel + C_LEVEL] = level + 1
    if level == 0:
        wake(S, S[channel + C_DST], c + 1)
    return slot


@fast
def digest(S, V, channel, slot):
    """FNV-1a over the beat's bits in 32-bit words."""
    h = np.uint64(0xCBF29CE484222325)
    prime, low, half = np.uint64(0x100000001B3), np.uint64(0xFFFFFFFF), np.uint64(32)
    word, bits = np.uint64(0), np.int64(0)
    data = S[slot + X_DATA]
    leaf, meta, value = S[channel + C_LEAVES], slot + X_META, S[slot + X_VALUE]
    tiles = S[G_T] * S[G_T]
    for _ in range(S[channel + C_META] >> 1):
        kind, w0, w1 = S[leaf], S[leaf + 1], S[leaf + 2]
        if kind == LEAF_TILE:
            down = np.uint64(32 - w0)
            for i in range(tiles):
                x = np.uint64(V[value + i]) >> down if data else np.uint64(0)
                word |= x << np.uint64(bits)
                bits += w0
                if bits >= 32:
                    h = (h ^ (word & low)) * prime
                    word >>= half
                    bits -= 32
            value += tiles
            w0 = w1
        for j in range(2):
            x = np.uint64(S[meta + j]) if data else np.uint64(0)
            width = w0 if j == 0 else w1
            while width > 0:
                part = min(width, 32)
                word |= (x & ((np.uint64(1) << np.uint64(part)) - np.uint64(1))) << np.uint64(bits)
                x >>= np.uint64(part)
                bits += part
                width -= part
                if bits >= 32:
                    h = (h ^ (word & low)) * prime
                    word >>= half
                    bits -= 32
        meta += 2
        leaf += LEAF_WORDS
    word |= np.uint64(S[slot + X_STOP] | data << 4) << np.uint64(bits)
    bits += 5
    while bits > 0:
        h = (h ^ (word & low)) * prime
        word >>= half
        bits -= 32
    return h


@fast
def commit(S, V, LOG, channel, slot, c):
    if S[G_TRACE]:
        n = S[G_LOGGED]
        S[G_LOGGED] = n + 1
        LOG[n, 0], LOG[n, 1], LOG[n, 2] = 0, S[channel + C_ID], c
        LOG[n, 3] = S[slot + X_STOP] | S[slot + X_DATA] << 8
        if S[G_VALUES]:
            LOG[n, 4] = np.int64(digest(S, V, channel, slot))


@fast
def copy_values(S, V, source, target, count):
    if S[G_VALUES]:
        for i in range(count):
            V[target + i] = V[source + i]


@fast
def forward(S, V, LOG, source, channel, c, stop):
    """Accept a copy of the beat in slot `source`, with another stop."""
    slot = push(S, channel, c, stop, S[source + X_DATA])
    for i in range(S[channel + C_META]):
        S[slot + X_META + i] = S[source + X_META + i]
    copy_values(S, V, S[source + X_VALUE], S[slot + X_VALUE], S[channel + C_VALUES])
    commit(S, V, LOG, channel, slot, c)


@fast
def push_done(S, V, LOG, channel, c):
    commit(S, V, LOG, channel, push(S, channel, c, 15, 0), c)


@fast
def push_tile(S, V, LOG, channel, c, stop, rows, cols, value):
    slot = push(S, channel, c, stop, 1)
    S[slot + X_META], S[slot + X_META + 1] = rows, cols
    copy_values(S, V, value, S[slot + X_VALUE], S[channel + C_VALUES])
    commit(S, V, LOG, channel, slot, c)


@fast
def fail(S, code, u, at):
    if S[G_ERROR] == 0:
        S[G_ERROR], S[G_ERROR_UNIT], S[G_ERROR_AT] = code, S[u + U_ID], at


@fast
def mask_tile(S, V, value, rows, cols):
    """Invalid elements are zero."""
    t = S[G_T]
    if rows < t or cols < t:
        for r in range(t):
            for k in range(cols if r < rows else 0, t):
                V[value + r * t + k] = 0


# ---- units without pipeline ------------------------------------------------------------------------------------------

B_PAD = U_OWN  # offset of the scratchpad's reference counts, or -1


@fast
def broadcast(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    n, outs = S[u + U_NOUT], S[u + U_OUT]
    for i in range(n):
        if not ready(S, S[outs + i], c):
            return BLOCKED
    for i in range(n):
        forward(S, V, LOG, slot, S[outs + i], c, S[slot + X_STOP])
    if S[u + B_PAD] >= 0 and S[slot + X_DATA]:
        S[S[u + B_PAD] + S[slot + X_META]] += n - 1
    take(S, LOG, source, c)
    return BUSY


F_LO, F_HI = U_OWN, U_OWN + 1


@fast
def flatten(S, V, LOG, u, c):
    source, out = S[S[u + U_IN]], S[S[u + U_OUT]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if not ready(S, out, c):
        return BLOCKED
    s = S[slot + X_STOP]
    if S[slot + X_DATA]:
        if s > S[u + F_HI]:
            s -= S[u + F_HI] - S[u + F_LO]
        elif s > S[u + F_LO]:
            s = S[u + F_LO]
    forward(S, V, LOG, slot, out, c, s)
    take(S, LOG, source, c)
    return BUSY


P_LEVEL, P_HOLD, P_DONE = U_OWN, U_OWN + 1, U_OWN + 2  # P_HOLD: slot-like record; its X_ACCEPT is 1 when full


@fast
def promote(S, V, LOG, u, c):
    source, out = S[S[u + U_IN]], S[S[u + U_OUT]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if not ready(S, out, c):
        return BLOCKED
    s = S[slot + X_STOP]
    if S[slot + X_DATA] and s >= S[u + P_LEVEL]:
        s += 1
    forward(S, V, LOG, slot, out, c, s)
    take(S, LOG, source, c)
    return BUSY


@fast
def promote_outermost(S, V, LOG, u, c):
    source, out, hold = S[S[u + U_IN]], S[S[u + U_OUT]], S[u + P_HOLD]
    if S[u + P_DONE]:
        if not ready(S, out, c):
            return BLOCKED
        push_done(S, V, LOG, out, c)
        S[u + P_DONE] = 0
        return BUSY
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if S[hold]:
        if not ready(S, out, c):
            return BLOCKED
        forward(S, V, LOG, hold, out, c, S[hold + X_STOP] if S[slot + X_DATA] else S[u + P_LEVEL])
        S[hold] = 0
    if S[slot + X_DATA]:
        S[hold], S[hold + X_STOP], S[hold + X_DATA] = 1, S[slot + X_STOP], 1
        for i in range(S[source + C_META]):
            S[hold + X_META + i] = S[slot + X_META + i]
        copy_values(S, V, S[slot + X_VALUE], S[hold + X_VALUE], S[source + C_VALUES])
    else:
        S[u + P_DONE] = 1
    take(S, LOG, source, c)
    return BUSY


H_DIM, H_CHUNK, H_PAD, H_ROWS, H_COLS, H_COUNT, H_LEFT, H_ROW, H_COL, H_STOP = range(U_OWN, U_OWN + 10)


@fast
def reshape(S, V, LOG, u, c):
    source, out = S[S[u + U_IN]], S[S[u + U_OUT]]
    dim, chunk = S[u + H_DIM], S[u + H_CHUNK]
    slot = -1
    if S[u + H_LEFT] == 0:
        slot = head(S, source, c)
        if slot < 0:
            return 0
    if not ready(S, out, c):
        return BLOCKED
    if slot >= 0 and not S[slot + X_DATA] and S[u + H_PAD] and S[u + H_COUNT]:
        S[u + H_LEFT], S[u + H_STOP], S[u + H_COUNT] = chunk - S[u + H_COUNT], dim + 1, 0
    if S[u + H_LEFT]:  # a pad beat
        S[u + H_COL] += 1
        s = 0
        if S[u + H_COL] == S[u + H_COLS]:
            S[u + H_COL] = 0
            S[u + H_ROW] += 1
            s = 1
            if S[u + H_ROW] == S[u + H_ROWS]:
                S[u + H_ROW] = 0
                S[u + H_LEFT] -= 1
                s = dim if S[u + H_LEFT] else S[u + H_STOP]
        slot = push(S, out, c, s, 1)
        for i in range(S[out + C_META]):
            S[slot + X_META + i] = 0
        if S[G_VALUES]:
            for i in range(S[out + C_VALUES]):
                V[S[slot + X_VALUE] + i] = 0
        commit(S, V, LOG, out, slot, c)
        return BUSY
    s = S[slot + X_STOP]
    if not S[slot + X_DATA]:
        S[u + H_COUNT] = 0
    elif s >= dim:
        count = S[u + H_COUNT] + 1
        S[u + H_COUNT] = 0
        if s > dim:
            if S[u + H_PAD] and count < chunk:
                S[u + H_LEFT], S[u + H_STOP] = chunk - count, s + 1
                s = dim
            else:
                s += 1
        elif count == chunk:
            s = dim + 1
        else:
            S[u + H_COUNT] = count
    forward(S, V, LOG, slot, out, c, s)
    take(S, LOG, source, c)
    return BUSY


R_COUNT, R_DONE = U_OWN, U_OWN + 1


@fast
def repeat(S, V, LOG, u, c):
    source, out = S[S[u + U_IN]], S[S[u + U_OUT]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if not ready(S, out, c):
        return BLOCKED
    if not S[slot + X_DATA]:
        push_done(S, V, LOG, out, c)
        take(S, LOG, source, c)
        return BUSY
    S[u + R_DONE] += 1
    last = S[u + R_DONE] >= S[u + R_COUNT]
    forward(S, V, LOG, slot, out, c, S[slot + X_STOP] + 1 if last else 0)
    if last:
        S[u + R_DONE] = 0
        take(S, LOG, source, c)
    return BUSY


@fast
def zip_(S, V, LOG, u, c):
    a, b, out = S[S[u + U_IN]], S[S[u + U_IN] + 1], S[S[u + U_OUT]]
    x, y = head(S, a, c), head(S, b, c)
    if x < 0 or y < 0:
        return 0
    if S[x + X_STOP] != S[y + X_STOP] or S[x + X_DATA] != S[y + X_DATA]:
        fail(S, ERROR_STOP, u, c)
        return 0
    if not ready(S, out, c):
        return BLOCKED
    slot = push(S, out, c, S[x + X_STOP], S[x + X_DATA])
    n = S[a + C_META]
    for i in range(n):
        S[slot + X_META + i] = S[x + X_META + i]
    for i in range(S[b + C_META]):
        S[slot + X_META + n + i] = S[y + X_META + i]
    copy_values(S, V, S[x + X_VALUE], S[slot + X_VALUE], S[a + C_VALUES])
    copy_values(S, V, S[y + X_VALUE], S[slot + X_VALUE] + S[a + C_VALUES], S[b + C_VALUES])
    commit(S, V, LOG, out, slot, c)
    take(S, LOG, a, c)
    take(S, LOG, b, c)
    return BUSY


D_INDEX = U_OWN


@fast
def split(S, V, LOG, u, c):
    source, outs, n = S[S[u + U_IN]], S[u + U_OUT], S[u + U_NOUT]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if S[slot + X_DATA]:
        out = S[outs + S[u + D_INDEX]]
        if not ready(S, out, c):
            return BLOCKED
        forward(S, V, LOG, slot, out, c, S[slot + X_STOP])
        S[u + D_INDEX] = (S[u + D_INDEX] + 1) % n
    else:
        for i in range(n):
            if not ready(S, S[outs + i], c):
                return BLOCKED
        for i in range(n):
            push_done(S, V, LOG, S[outs + i], c)
        S[u + D_INDEX] = 0
    take(S, LOG, source, c)
    return BUSY


@fast
def merge(S, V, LOG, u, c):
    ins, out, n = S[u + U_IN], S[S[u + U_OUT]], S[u + U_NIN]
    source = S[ins + S[u + D_INDEX]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if S[slot + X_DATA]:
        if not ready(S, out, c):
            return BLOCKED
        forward(S, V, LOG, slot, out, c, S[slot + X_STOP])
        take(S, LOG, source, c)
        S[u + D_INDEX] = (S[u + D_INDEX] + 1) % n
        return BUSY
    for i in range(n):
        other = head(S, S[ins + i], c)
        if other < 0:
            return 0
        if S[other + X_DATA]:
            fail(S, ERROR_STOP, u, c)
            return 0
    if not ready(S, out, c):
        return BLOCKED
    push_done(S, V, LOG, out, c)
    for i in range(n):
        take(S, LOG, S[ins + i], c)
    S[u + D_INDEX] = 0
    return BUSY


O_BEATS, O_NEXT, O_RELEASE, O_BEAT = range(U_OWN, U_OWN + 4)  # O_BEAT: slot-like records, one a beat


@fast
def source(S, V, LOG, u, c):
    if S[u + O_NEXT] == S[u + O_BEATS]:
        return 0
    release = S[S[u + O_RELEASE] + S[u + O_NEXT]]
    if release > c:
        wake(S, S[u + U_ID], release)
        return 0
    out = S[S[u + U_OUT]]
    if not ready(S, out, c):
        return BLOCKED
    beat = S[u + O_BEAT] + S[u + O_NEXT] * S[out + C_SLOT_WORDS]
    forward(S, V, LOG, beat, out, c, S[beat + X_STOP])
    S[u + O_NEXT] += 1
    return BUSY


N_RELEASES, N_NEXT, N_RELEASE, N_SEEN = range(U_OWN, U_OWN + 4)


@fast
def sink(S, V, LOG, SUNK, SUNK_V, u, c):
    source = S[S[u + U_IN]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if not S[slot + X_DATA] and not S[u + N_SEEN]:
        S[u + N_SEEN] = 1
        S[G_OPEN] -= 1
    if S[u + N_NEXT] < S[u + N_RELEASES]:
        release = S[S[u + N_RELEASE] + S[u + N_NEXT]]
        if release > c:
            wake(S, S[u + U_ID], release)
            return 0
    n = S[G_SUNK]
    S[G_SUNK] = n + 1
    SUNK[n, 0], SUNK[n, 1], SUNK[n, 2], SUNK[n, 3] = S[u + U_ID], c, S[slot + X_STOP], S[slot + X_DATA]
    for i in range(S[source + C_META]):
        SUNK[n, 4 + i] = S[slot + X_META + i] * S[slot + X_DATA]
    if S[G_VALUES]:
        for i in range(S[source + C_VALUES]):
            SUNK_V[n, i] = V[S[slot + X_VALUE] + i]
    S[u + N_NEXT] += 1
    take(S, LOG, source, c)
    return BUSY


# ---- pipelined units -------------------------------------------------------------------------------------------------

(Q_LATENCY, Q_INTERVAL, Q_ENTRIES, Q_LAST, Q_HEAD, Q_COUNT, Q_QUEUE, Q_TUPLE, Q_KERNEL, Q_MATMUL, Q_TRANSPOSED) = range(U_OWN, U_OWN + 11)
ENTRY = 6  # a queue entry: slot-like with one tile


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
                    push_done(S, V, LOG, out, c)
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
            fail(S, ERROR_STOP, u, c)
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


# ---- scratchpad ------------------------------------------------------------------------------------------------------

(M_FRAMES, M_NW, M_NR, M_FREE, M_FREE_COUNT, M_WRITE_TURN, M_READ_TURN, M_NEXT, M_REFS, M_LAST_PAGE, M_TILE, M_VALUE, M_USED, M_PEAK, M_RELEASED,
 M_WRITERS, M_READERS) = range(U_OWN, U_OWN + 17)
W_RANK, W_FIRST, W_PAGE, W_FILL, W_COUNT, W_HEAD, W_QUEUED, W_ASKS, W_QUEUE = range(9)  # queue: 2 x (from cycle, stop, data, page, tiles)
WRITER_WORDS = 20
(Z_RANK, Z_REPEAT, Z_HOLDS, Z_FIRST, Z_PAGE, Z_FRAME, Z_LEFT, Z_TILES, Z_TURN, Z_STOP, Z_HEAD, Z_QUEUED, Z_ASKS, Z_QUEUE) = range(14)  # queue: 4 x ENTRY
READER_WORDS = 40
REF_QUEUE, TILE_QUEUE = 2, 4


@fast
def start_read(S, LOG, z, channel, slot, c):
    S[z + Z_HOLDS] = 1
    S[z + Z_FIRST], S[z + Z_TILES], S[z + Z_STOP] = S[slot + X_META], S[slot + X_META + 1], S[slot + X_STOP]
    S[z + Z_PAGE], S[z + Z_FRAME], S[z + Z_LEFT], S[z + Z_TURN] = S[z + Z_FIRST], 0, S[z + Z_TILES], 0
    take(S, LOG, channel, c)


@fast
def scratchpad(S, V, LOG, u, c):
    flags, blocked = 0, False
    size, frames = S[G_T] * S[G_T], S[u + M_FRAMES]
    following = S[u + M_NEXT]
    page = S[u + M_RELEASED]
    if page >= 0:  # posts of an earlier cycle
        S[u + M_RELEASED] = -1
        if S[S[u + M_REFS] + page] == 0:
            n, last = 1, page
            while last != S[S[u + M_LAST_PAGE] + page]:
                last = S[following + last]
                n += 1
            S[following + last] = S[u + M_FREE]
            S[u + M_FREE] = page
            S[u + M_FREE_COUNT] += n
            S[u + M_USED] -= n
    free = S[u + M_FREE_COUNT]
    # Writers: requests and Done on the levels at the start of the cycle, then the reference queues.
    nw = S[u + M_NW]
    for i in range(nw):
        w = S[u + M_WRITERS] + i * WRITER_WORDS
        channel, out = S[S[u + U_IN] + i], S[S[u + U_OUT] + i]
        queued, first = S[w + W_QUEUED], S[w + W_HEAD]
        S[w + W_ASKS] = 0
        slot = head(S, channel, c)
        if slot >= 0:
            if S[slot + X_DATA]:
                if ((S[w + W_FIRST] >= 0 and S[w + W_FILL] < frames) or free > 0) and (S[slot + X_STOP] < S[w + W_RANK] or queued < REF_QUEUE):
                    S[w + W_ASKS] = 1
            elif queued == 0:
                e = w + W_QUEUE + first * 5
                S[e], S[e + 1], S[e + 2] = c + 1, 15, 0
                S[w + W_QUEUED] = 1
                take(S, LOG, channel, c)
                flags |= BUSY
        if queued:
            e = w + W_QUEUE + first * 5
            if ready(S, out, c):
                if S[e + 2]:
                    slot = push(S, out, c, S[e + 1], 1)
                    S[slot + X_META], S[slot + X_META + 1] = S[e + 3], S[e + 4]
                    commit(S, V, LOG, out, slot, c)
                else:
                    push_done(S, V, LOG, out, c)
                S[w + W_HEAD] = 1 - first
                S[w + W_QUEUED] -= 1
                flags |= BUSY
            else:
                blocked = True
    for k in range(nw):
        i = (S[u + M_WRITE_TURN] + k) % nw
        w = S[u + M_WRITERS] + i * WRITER_WORDS
        if not S[w + W_ASKS]:
            continue
        S[u + M_WRITE_TURN] = (i + 1) % nw
        channel = S[S[u + U_IN] + i]
        slot = head(S, channel, c)
        if S[w + W_FIRST] < 0 or S[w + W_FILL] == frames:
            page = S[u + M_FREE]
            S[u + M_FREE] = S[following + page]
            S[u + M_FREE_COUNT] -= 1
            S[u + M_USED] += 1
            if S[u + M_USED] > S[u + M_PEAK]:
                S[u + M_PEAK] = S[u + M_USED]
            if S[w + W_FIRST] < 0:
                S[w + W_FIRST], S[w + W_COUNT] = page, 0
            else:
                S[following + S[w + W_PAGE]] = page
            S[w + W_PAGE], S[w + W_FILL] = page, 0
        at = S[w + W_PAGE] * frames + S[w + W_FILL]
        m = S[u + M_TILE] + 3 * at
        S[m], S[m + 1], S[m + 2] = S[slot + X_STOP], S[slot + X_META], S[slot + X_META + 1]
        copy_values(S, V, S[slot + X_VALUE], S[u + M_VALUE] + at * size, size)
        S[w + W_FILL] += 1
        S[w + W_COUNT] += 1
        if S[w + W_COUNT] >= 1 << 16:
            fail(S, ERROR_TILES, u, c)
        if S[slot + X_STOP] >= S[w + W_RANK]:
            first = S[w + W_FIRST]
            e = w + W_QUEUE + ((S[w + W_HEAD] + S[w + W_QUEUED]) & 1) * 5
            S[e], S[e + 1], S[e + 2], S[e + 3], S[e + 4] = c + 1, S[slot + X_STOP] - S[w + W_RANK], 1, first, S[w + W_COUNT]
            S[w + W_QUEUED] += 1
            S[S[u + M_REFS] + first] = 1
            S[S[u + M_LAST_PAGE] + first] = S[w + W_PAGE]
            S[w + W_FIRST] = -1
        take(S, LOG, channel, c)
        flags |= BUSY
        break
    # Readers.
    nr = S[u + M_NR]
    for i in range(nr):
        z = S[u + M_READERS] + i * READER_WORDS
        channel, out = S[S[u + U_IN] + nw + i], S[S[u + U_OUT] + nw + i]
        queued, first = S[z + Z_QUEUED], S[z + Z_HEAD]
        S[z + Z_ASKS] = S[z + Z_HOLDS] and queued < TILE_QUEUE
        if not S[z + Z_HOLDS]:
            slot = head(S, channel, c)
            if slot >= 0:
                if S[slot + X_DATA]:
                    start_read(S, LOG, z, channel, slot, c)
                    flags |= BUSY
                elif queued == 0:
                    e = z + Z_QUEUE + first * ENTRY
                    S[e], S[e + X_STOP], S[e + X_DATA] = c + 1, 15, 0
                    S[z + Z_QUEUED] = 1
                    take(S, LOG, channel, c)
                    flags |= BUSY
        if queued:
            e = z + Z_QUEUE + first * ENTRY
            if S[e] <= c:
                if ready(S, out, c):
                    if S[e + X_DATA]:
                        push_tile(S, V, LOG, out, c, S[e + X_STOP], S[e + X_META], S[e + X_META + 1], S[e + X_VALUE])
                    else:
                        push_done(S, V, LOG, out, c)
                    S[z + Z_HEAD] = (first + 1) & (TILE_QUEUE - 1)
                    S[z + Z_QUEUED] -= 1
                    flags |= BUSY
                else:
                    blocked = True
    for k in range(nr):
        i = (S[u + M_READ_TURN] + k) % nr
        z = S[u + M_READERS] + i * READER_WORDS
        if not S[z + Z_ASKS]:
            continue
        S[u + M_READ_TURN] = (i + 1) % nr
        at = S[z + Z_PAGE] * frames + S[z + Z_FRAME]
        m = S[u + M_TILE] + 3 * at
        turns, stop = S[z + Z_REPEAT], S[m]
        last_turn = S[z + Z_TURN] + 1 >= turns
        if S[z + Z_LEFT] == 1:
            stop = S[z + Z_RANK]
            if last_turn:
                stop += S[z + Z_STOP] + (1 if turns else 0)
        e = z + Z_QUEUE + ((S[z + Z_HEAD] + S[z + Z_QUEUED]) & (TILE_QUEUE - 1)) * ENTRY
        S[e], S[e + X_STOP], S[e + X_DATA], S[e + X_META], S[e + X_META + 1] = c + 2, stop, 1, S[m + 1], S[m + 2]
        copy_values(S, V, S[u + M_VALUE] + at * size, S[e + X_VALUE], size)
        S[z + Z_QUEUED] += 1
        wake(S, S[u + U_ID], c + 2)
        S[z + Z_LEFT] -= 1
        S[z + Z_FRAME] += 1
        if S[z + Z_LEFT] == 0:
            if last_turn:
                first = S[z + Z_FIRST]
                S[S[u + M_REFS] + first] -= 1
                S[u + M_RELEASED] = first
                S[z + Z_HOLDS] = 0
                channel = S[S[u + U_IN] + nw + i]
                slot = head(S, channel, c)
                if slot >= 0 and S[slot + X_DATA]:
                    start_read(S, LOG, z, channel, slot, c)
                    flags |= BUSY
            else:
                S[z + Z_TURN] += 1
                S[z + Z_PAGE], S[z + Z_FRAME], S[z + Z_LEFT] = S[z + Z_FIRST], 0, S[z + Z_TILES]
        elif S[z + Z_FRAME] == frames:
            S[z + Z_PAGE], S[z + Z_FRAME] = S[following + S[z + Z_PAGE]], 0
        flags |= ACTIVE
        break
    return flags | BLOCKED if blocked and not flags & BUSY else flags


# ---- off-chip units --------------------------------------------------------------------------------------------------

(L_BASE, L_PITCH, L_TROWS, L_TCOLS, L_ROWS, L_COLS, L_E, L_PRESENT, L_LIMIT_LOW, L_LIMIT_HIGH, L_SEQUENCE, L_RANK, L_LOOPS, L_GROUPS, L_USED, L_RING_HEAD,
 L_RING_TAIL, L_RING, L_RING_VALUE, L_GENERATOR, L_ASSEMBLER, L_LINES_VALUE, L_BLOCKS, L_BLOCK_HEAD, L_BLOCK_COUNT, L_TILE, L_DONE) = range(U_OWN, U_OWN + 27)
RING_WORDS = 2  # lines outstanding, sequence number of the first
BLOCK_WORDS = 8
X_PUSHED, X_TILES, X_FIRST, X_ROWS, X_COLS, X_END, X_BLOCK_VALUE = range(7)  # a block
(Y_DONE, Y_BAND, Y_ROW, Y_COL, Y_V, Y_N, Y_K, Y_CP, Y_STEP, Y_CHUNK, Y_STEPS, Y_CHUNKS, Y_STOP, Y_INDEX) = range(14)  # a position in the walk
WALK_WORDS = 32
MAX_LOOPS = WALK_WORDS - Y_INDEX


@fast
def clamp(x, high):
    return min(max(x, 0), high)


@fast
def walk_band(S, u, y):
    """Derive a band's counts from its position."""
    t, e, w = S[G_T], S[u + L_E], S[G_W]
    rows = clamp(S[u + L_TROWS] - S[y + Y_ROW], S[u + L_ROWS])
    cols = clamp(S[u + L_TCOLS] - S[y + Y_COL], S[u + L_COLS])
    v = clamp(rows - S[y + Y_BAND] * t, t)
    k = S[y + Y_COL] % e
    S[y + Y_V], S[y + Y_CP], S[y + Y_K] = v, cols, k
    S[y + Y_N] = (k + cols + e - 1) // e if v and cols else 0
    S[y + Y_STEPS] = (S[u + L_COLS] + e - 1) // e + (1 if k else 0)
    S[y + Y_CHUNKS] = (v + w - 1) // w
    S[y + Y_STEP] = S[y + Y_CHUNK] = 0
    stop = 1
    if (S[y + Y_BAND] + 1) * t >= S[u + L_ROWS]:
        stop = 2
        d = S[u + L_RANK] - 1
        while d >= 0 and S[y + Y_INDEX + d] + 1 == S[S[u + L_LOOPS] + 3 * d]:
            stop += 1
            d -= 1
    S[y + Y_STOP] = stop


@fast
def walk_on(S, u, y):
    """To the next band."""
    S[y + Y_BAND] += 1
    if S[y + Y_BAND] * S[G_T] >= S[u + L_ROWS]:
        S[y + Y_BAND] = 0
        d = S[u + L_RANK] - 1
        while d >= 0:
            loop = S[u + L_LOOPS] + 3 * d
            S[y + Y_INDEX + d] += 1
            S[y + Y_ROW] += S[loop + 1]
            S[y + Y_COL] += S[loop + 2]
            if S[y + Y_INDEX + d] < S[loop]:
                break
            S[y + Y_INDEX + d] = 0
            S[y + Y_ROW] -= S[loop] * S[loop + 1]
            S[y + Y_COL] -= S[loop] * S[loop + 2]
            d -= 1
        if d < 0:
            S[y + Y_DONE] = 1
            return
    walk_band(S, u, y)


@fast
def load(S, V, LOG, u, c):
    flags = 0
    t, e = S[G_T], S[u + L_E]
    g = e // t
    # Requests.
    y = S[u + L_GENERATOR]
    if not S[y + Y_DONE] and not S[u + L_PRESENT]:
        if S[y + Y_N] == 0:
            walk_on(S, u, y)
            flags = ACTIVE
        elif S[u + L_USED] < S[u + L_GROUPS]:
            S[u + L_PRESENT] = 1
            S[G_PRESENT] += 1
    # Assembly.
    y = S[u + L_ASSEMBLER]
    blocks, first = S[u + L_BLOCK_COUNT], S[u + L_BLOCK_HEAD]
    assembled = S[y + Y_DONE]
    if not assembled:
        step, k = S[y + Y_STEP], S[y + Y_K]
        moves = step < S[y + Y_N]
        last = not moves or S[y + Y_CHUNK] == S[y + Y_CHUNKS] - 1
        pushes = last and (step >= 1 or k == 0)
        ring = S[u + L_RING] + S[u + L_RING_HEAD] * RING_WORDS
        if not (moves and (S[u + L_USED] == 0 or S[ring] > 0)) and not (pushes and blocks == 2):
            flags = ACTIVE
            line = S[u + L_LINES_VALUE] + (step & 1) * t * e
            if moves:
                if S[G_VALUES]:
                    w = S[G_W]
                    copy_values(S, V, S[u + L_RING_VALUE] + S[u + L_RING_HEAD] * w * e, line + S[y + Y_CHUNK] * w * e, min(w, t - S[y + Y_CHUNK] * w) * e)
                S[u + L_USED] -= 1
                at = S[u + L_RING_HEAD] + 1
                S[u + L_RING_HEAD] = 0 if at == S[u + L_GROUPS] else at
            if pushes:
                j = step - 1 if k else step
                b = S[u + L_BLOCKS] + ((first + blocks) & 1) * BLOCK_WORDS
                tiles = (S[u + L_COLS] + t - 1) // t
                n = min(g, tiles - j * g)
                S[b + X_PUSHED], S[b + X_TILES], S[b + X_FIRST], S[b + X_ROWS], S[b + X_COLS] = c, n, j * g, S[y + Y_V], S[y + Y_CP]
                S[b + X_END] = S[y + Y_STOP] if j * g + n == tiles else 0
                if S[G_VALUES]:
                    low = S[u + L_LINES_VALUE] + (((step & 1) ^ 1) * t * e if k else (step & 1) * t * e)
                    for i in range(n):
                        for r in range(t):
                            for q in range(t):
                                column = i * t + q
                                target = S[b + X_BLOCK_VALUE] + (i * t + r) * t + q
                                if r < S[y + Y_V] and j * e + column < S[y + Y_CP]:
                                    V[target] = V[low + r * e + k + column] if k + column < e else V[line + r * e + k + column - e]
                                else:
                                    V[target] = 0
                S[u + L_BLOCK_COUNT] += 1
            if last:
                S[y + Y_CHUNK] = 0
                S[y + Y_STEP] += 1
                if S[y + Y_STEP] == S[y + Y_STEPS]:
                    walk_on(S, u, y)
            else:
                S[y + Y_CHUNK] += 1
    # Emission.
    out = S[S[u + U_OUT]]
    if blocks:
        if ready(S, out, c):
            b = S[u + L_BLOCKS] + first * BLOCK_WORDS
            i = S[u + L_TILE]
            last = i + 1 == S[b + X_TILES]
            push_tile(S, V, LOG, out, c, S[b + X_END] if last else 0, S[b + X_ROWS], clamp(S[b + X_COLS] - (S[b + X_FIRST] + i) * t, t),
                      S[b + X_BLOCK_VALUE] + i * t * t)
            S[u + L_TILE] = i + 1
            if last:
                S[u + L_TILE] = 0
                S[u + L_BLOCK_HEAD] = 1 - first
                S[u + L_BLOCK_COUNT] -= 1
            return flags | BUSY
        return flags | BLOCKED
    if assembled and not S[u + L_DONE]:
        if ready(S, out, c):
            push_done(S, V, LOG, out, c)
            S[u + L_DONE] = 1
            return flags | BUSY
        return flags | BLOCKED
    return flags | BLOCKED if S[u + L_PRESENT] else flags


# `store` shares L_BASE .. L_SEQUENCE and the block queue with `load`.
(T_ROW, T_COL, T_BAND, T_STEP, T_CHUNK, T_CHUNKS, T_CARRY, T_CARRY_COLS, T_CARRY_ROWS, T_CARRY_STOP, T_CARRY_VALUE, T_GATHERED, T_ACKS, T_DONE,
 T_CLOSED) = range(U_OWN + 30, U_OWN + 45)


@fast
def store_row_on(S, u, stop):
    """The next row of tiles: the next band, or the next logical tile."""
    S[u + T_STEP] = S[u + T_CARRY_COLS] = 0
    S[u + T_BAND] += 1
    if stop >= 2:
        S[u + T_BAND] = 0
        S[u + T_COL] += S[u + L_COLS]
        if S[u + T_COL] >= S[u + L_TCOLS]:
            S[u + T_COL] = 0
            S[u + T_ROW] += S[u + L_ROWS]


@fast
def store_step_on(S, V, u):
    """The end of a step."""
    S[u + T_CHUNK] = 0
    if S[u + T_CARRY]:
        S[u + T_CARRY] = 0
        store_row_on(S, u, S[u + T_CARRY_STOP])
        return
    b = S[u + L_BLOCKS] + S[u + L_BLOCK_HEAD] * BLOCK_WORDS
    k = S[u + T_COL] % S[u + L_E]
    S[u + T_STEP] += 1
    S[u + T_CARRY_COLS] = max(S[b + X_COLS] + k - S[u + L_E], 0)
    S[u + T_CARRY_ROWS] = S[b + X_ROWS]
    if k:
        copy_values(S, V, S[b + X_BLOCK_VALUE], S[u + T_CARRY_VALUE], S[G_T] * S[u + L_E])
    if S[b + X_END]:
        if k:
            S[u + T_CARRY], S[u + T_CARRY_STOP] = 1, S[b + X_END]
        else:
            store_row_on(S, u, S[b + X_END])
    S[u + L_BLOCK_HEAD] = 1 - S[u + L_BLOCK_HEAD]
    S[u + L_BLOCK_COUNT] -= 1


@fast
def store(S, V, LOG, u, c):
    if S[u + T_DONE] and not S[u + T_CLOSED] and S[u + T_ACKS] == 0:
        S[u + T_CLOSED] = 1
        S[G_OPEN] -= 1
    flags = 0
    t, e = S[G_T], S[u + L_E]
    blocks, carry, gathered = S[u + L_BLOCK_COUNT], S[u + T_CARRY], S[u + T_GATHERED]
    # A step: present a chunk, or pass in one cycle.
    new = ((S[u + L_BLOCK_HEAD] + blocks) & 1) * BLOCK_WORDS + S[u + L_BLOCKS]
    if (blocks or carry) and not S[u + L_PRESENT]:
        b = S[u + L_BLOCKS] + S[u + L_BLOCK_HEAD] * BLOCK_WORDS
        v = S[u + T_CARRY_ROWS] if carry else S[b + X_ROWS]
        if S[u + T_CARRY_COLS] == 0 and (carry or S[b + X_COLS] == 0):
            v = 0
        if v == 0:
            store_step_on(S, V, u)
            flags = ACTIVE
        else:
            S[u + T_CHUNKS] = (v + S[G_W] - 1) // S[G_W]
            S[u + L_PRESENT] = 1
            S[G_PRESENT] += 1
    # Take a beat.
    channel = S[S[u + U_IN]]
    slot = head(S, channel, c)
    if slot >= 0:
        if not S[slot + X_DATA]:
            if blocks == 0 and not carry:
                take(S, LOG, channel, c)
                S[u + T_DONE] = 1
                return flags | BUSY
        elif blocks < 2:
            if gathered == 0:
                S[new + X_ROWS], S[new + X_COLS] = S[slot + X_META], 0
            S[new + X_COLS] += S[slot + X_META + 1]
            if S[G_VALUES]:
                for r in range(t):
                    for q in range(t):
                        V[S[new + X_BLOCK_VALUE] + r * e + gathered * t + q] = V[S[slot + X_VALUE] + r * t + q]
            gathered += 1
            stop = S[slot + X_STOP]
            if stop or gathered == e // t:
                S[new + X_PUSHED], S[new + X_END] = c, stop
                S[u + L_BLOCK_COUNT] += 1
                gathered = 0
            S[u + T_GATHERED] = gathered
            take(S, LOG, channel, c)
            return flags | BUSY
    return flags | BLOCKED if S[u + L_PRESENT] else flags
