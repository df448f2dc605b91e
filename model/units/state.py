"""What the compiled units share: the state array, channels and tiles.

All state lies in one int64 array `S`: globals, channel records, unit records and what they point
to, at the offsets named below (`penstock.model.layout` lays it out). Element values lie in the
uint32 array `V` as float32 bit patterns. A function is called in a cycle in which its unit may act;
it decides on registered state only (a beat accepted in this cycle carries this cycle's number and
is not visible, a slot freed in this cycle is not ready), so the order of calls within a cycle does
not matter. It returns flags.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ...machine import limits
from ...machine.beat import STOP_DONE
from ...machine.faults import Fault

# took or delivered a beat; offers one that is not accepted; state changed otherwise
BUSY = 1
BLOCKED = 2
ACTIVE = 4

# Globals.
(
    G_NOW,
    G_OPEN,
    G_HAD_OPEN,
    G_MASK,
    G_WORDS,
    G_WHEEL,
    G_VALUES,
    G_TRACE,
    G_EVENTS,
    G_ERROR,
    G_ERROR_UNIT,
    G_ERROR_AT,
    G_LOGGED,
    G_SUNK,
    G_PORTS,
    G_NPORTS,
    G_PRESENT,
    G_GRANT,
    G_ROUND_ROBIN,
    G_DRAM_UNIT,
    G_UNITS,
    G_NUNITS,
    G_FIRST_REQUEST,
    G_READ,
    G_WRITTEN,
    G_VPTR,
    G_T,
    G_W,
    G_EVALS,
    G_MAX_CYCLE_LOG,
    G_OUT,
    G_RECORDED,
    G_RECORD_ROOM,
    G_ACTS,
    GLOBALS,
) = range(35)
# A channel (C_RECORD: where beats of C_WORDS words are kept, 0 if nowhere), and a slot of it:
# accept cycle, stop, data, offset of its values,
# then two numbers a member (rows and cols; page and tiles; low 64 bits and the rest).
# C_MISSED, C_REFUSED: the last cycle in which its consumer looked for a beat, its producer for a
# slot, in vain (for deadlock reports).
(
    C_ID,
    C_LEVEL,
    C_DEPTH,
    C_HEAD,
    C_TAIL,
    C_LAST_TAKE,
    C_SLOTS,
    C_SLOT_WORDS,
    C_SRC,
    C_DST,
    C_META,
    C_VALUES,
    C_LEAVES,
    C_HELD,
    C_TAKEN,
    C_MISSED,
    C_REFUSED,
    C_RECORD,
    C_RECORDED,
    C_WORDS,
    CHANNEL_WORDS,
) = range(21)
X_ACCEPT, X_STOP, X_DATA, X_VALUE, X_META = range(5)
# a member: kind, bits, bits
LEAF_TILE = 0
LEAF_OTHER = 1
LEAF_WORDS = 3
# Reference counts of a memory unit: the unit, how many changes to zero have not been looked at, the
# page of the last; per page: count, cycle of the last change to zero.
COUNTS_UNIT, COUNTS_ZERO, COUNTS_PAGE, COUNTS_WORDS = range(4)
ENTRY = 6  # an output queue's entry: slot-like with one tile
# A unit; parameters and state of its kind from U_OWN on.
(
    U_ID,
    U_KIND,
    U_IN,
    U_OUT,
    U_NIN,
    U_NOUT,
    U_BUSY,
    U_BLOCKED,
    U_BUSY_AT,
    U_EVAL,
    U_STATUS,
    U_PORT,
    U_OWN,
) = range(13)
UNIT_WORDS = 72

(
    K_BROADCAST,
    K_FLATTEN,
    K_PROMOTE,
    K_PROMOTE_OUTER,
    K_RESHAPE,
    K_REPEAT,
    K_ZIP,
    K_SPLIT,
    K_MERGE,
    K_PIPE,
    K_ACCUM,
    K_SCRATCHPAD,
    K_LOAD,
    K_STORE,
    K_SOURCE,
    K_SINK,
    K_PACE,
    K_ROW_PACK,
    K_ROW_UNPACK,
    K_ROW_APPEND,
    K_ROW_OFFSET,
    K_PARTITION,
    K_REASSEMBLE,
    K_EAGER_MERGE,
    K_EXPAND,
    K_SIGNAL,
    K_GENERATE,
    K_ADDRESS,
    K_RANDOM_STORE,
    K_COUNT,
) = range(30)

(
    FAULT_STOP,
    FAULT_ACCUMULATORS,
    FAULT_REFERENCES,
    FAULT_STRAY,
    FAULT_EMPTY,
    FAULT_ADDRESS,
    FAULT_ROWS,
    FAULT_FLIGHT,
) = (int(f) for f in Fault)

# What the engine inlines; Python never calls it, and without wrappers for that a fifth of the
# compile time is saved.
fast = njit(
    boundscheck=False,
    error_model="numpy",
    _nrt=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)


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


# ---- wakes, channels
# -------------------------------------------------------------------------------------------------


@fast
def wake(S, unit, cycle):
    """Evaluate `unit` in `cycle`; what lies further ahead than the wheel is evaluated early, in
    vain, and asks again.
    """
    if cycle - S[G_NOW] > S[G_MASK]:
        cycle = S[G_NOW] + S[G_MASK]
    S[S[G_WHEEL] + (cycle & S[G_MASK]) * S[G_WORDS] + (unit >> 6)] |= np.int64(1) << (unit & 63)


@fast
def head(S, channel, c):
    """The slot of the beat visible in `c`, or -1."""
    if S[channel + C_LEVEL] == 0:
        S[channel + C_MISSED] = c
        return -1
    slot = S[channel + C_SLOTS] + S[channel + C_HEAD] * S[channel + C_SLOT_WORDS]
    return slot if S[slot] < c else -1


@fast
def ready(S, channel, c):
    """Whether a slot was free at the start of `c` (its producer has accepted nothing yet in `c`)."""
    level = S[channel + C_LEVEL]
    if S[channel + C_LAST_TAKE] == c:
        level += 1
    if level < S[channel + C_DEPTH]:
        return True
    S[channel + C_REFUSED] = c
    return False


@fast
def take(S, LOG, channel, c):
    level = S[channel + C_LEVEL]
    at = S[channel + C_HEAD]
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
        LOG[n, 0] = 1
        LOG[n, 1] = S[channel + C_ID]
        LOG[n, 2] = c


@fast
def push(S, channel, c, stop, data):
    """Accept a beat in `c`; the caller fills in payload and values of the slot returned, then calls
    `commit`.
    """
    level = S[channel + C_LEVEL]
    at = S[channel + C_TAIL]
    depth = S[channel + C_DEPTH]
    slot = S[channel + C_SLOTS] + at * S[channel + C_SLOT_WORDS]
    S[slot] = c
    S[slot + X_STOP] = stop
    S[slot + X_DATA] = data
    at += 1
    S[channel + C_TAIL] = 0 if at == depth else at
    S[channel + C_LEVEL] = level + 1
    if level == 0:
        wake(S, S[channel + C_DST], c + 1)
    return slot


@fast
def digest(S, V, channel, slot, to):
    """FNV-1a over the beat's bits in 32-bit words; with `to` not 0, the words are kept from there
    on.
    """
    h = np.uint64(0xCBF29CE484222325)
    prime = np.uint64(0x100000001B3)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    word = np.uint64(0)
    bits = np.int64(0)
    data = S[slot + X_DATA]
    leaf = S[channel + C_LEAVES]
    meta = slot + X_META
    value = S[slot + X_VALUE]
    tiles = S[G_T] * S[G_T]
    for _ in range(S[channel + C_META] >> 1):
        kind = S[leaf]
        w0 = S[leaf + 1]
        w1 = S[leaf + 2]
        if kind == LEAF_TILE:
            down = np.uint64(32 - w0)
            for i in range(tiles):
                x = np.uint64(V[value + i]) >> down if data else np.uint64(0)
                word |= x << np.uint64(bits)
                bits += w0
                if bits >= 32:
                    h = (h ^ (word & low)) * prime
                    if to:
                        S[to] = np.int64(word & low)
                        to += 1
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
                    if to:
                        S[to] = np.int64(word & low)
                        to += 1
                    word >>= half
                    bits -= 32
        meta += 2
        leaf += LEAF_WORDS
    word |= np.uint64(S[slot + X_STOP] | data << 4) << np.uint64(bits)
    bits += 5
    while bits > 0:
        h = (h ^ (word & low)) * prime
        if to:
            S[to] = np.int64(word & low)
            to += 1
        word >>= half
        bits -= 32
    return h


@fast
def commit(S, V, LOG, channel, slot, c):
    if S[G_TRACE]:
        n = S[G_LOGGED]
        S[G_LOGGED] = n + 1
        LOG[n, 0] = 0
        LOG[n, 1] = S[channel + C_ID]
        LOG[n, 2] = c
        LOG[n, 3] = S[slot + X_STOP] | S[slot + X_DATA] << 8
        if S[G_VALUES]:
            to = S[channel + C_RECORD]
            if to:
                to += S[channel + C_RECORDED] * S[channel + C_WORDS]
                S[channel + C_RECORDED] += 1
                S[G_RECORDED] = max(S[G_RECORDED], S[channel + C_RECORDED])
            LOG[n, 4] = np.int64(digest(S, V, channel, slot, to))


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
def is_done(S, slot):
    return S[slot + X_STOP] == STOP_DONE and not S[slot + X_DATA]


@fast
def push_done(S, V, LOG, channel, c):
    commit(S, V, LOG, channel, push(S, channel, c, STOP_DONE, 0), c)


@fast
def push_tile(S, V, LOG, channel, c, stop, rows, cols, value):
    slot = push(S, channel, c, stop, 1)
    S[slot + X_META] = rows
    S[slot + X_META + 1] = cols
    copy_values(S, V, value, S[slot + X_VALUE], S[channel + C_VALUES])
    commit(S, V, LOG, channel, slot, c)


@fast
def fail(S, fault, u, at):
    if S[G_ERROR] == 0:
        S[G_ERROR], S[G_ERROR_UNIT], S[G_ERROR_AT] = fault + 1, S[u + U_ID], at


@fast
def post(S, counts, page, delta):
    """Change the references to the buffer that starts at `page`; `counts`: offset of the memory's
    `COUNTS`, -1 for streams of other things.
    """
    if counts < 0:
        return
    at = counts + COUNTS_WORDS + 2 * page
    S[at] += delta
    if S[at] >> limits.COUNT_BITS:
        fail(S, FAULT_REFERENCES, S[counts + COUNTS_UNIT], S[G_NOW])
    if S[at] == 0:  # looked at in the next cycle: another change of this one may follow
        S[at + 1] = S[G_NOW]
        S[counts + COUNTS_ZERO] += 1
        S[counts + COUNTS_PAGE] = page
        wake(S, S[S[counts + COUNTS_UNIT] + U_ID], S[G_NOW] + 1)


@fast
def mask_tile(S, V, value, rows, cols):
    """Invalid elements are zero."""
    t = S[G_T]
    if rows < t or cols < t:
        for r in range(t):
            for k in range(cols if r < rows else 0, t):
                V[value + r * t + k] = 0
