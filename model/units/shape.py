"""Units without pipeline that change stops or copy beats."""

from __future__ import annotations

from .state import *

B_PAD = U_OWN  # offset of the scratchpad's reference counts, or -1


@fast
def broadcast(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    n = S[u + U_NOUT]
    outs = S[u + U_OUT]
    for i in range(n):
        if not ready(S, S[outs + i], c):
            return BLOCKED
    for i in range(n):
        forward(S, V, LOG, slot, S[outs + i], c, S[slot + X_STOP])
    if S[slot + X_DATA]:
        post(S, S[u + B_PAD], S[slot + X_META], n - 1)
    take(S, LOG, source, c)
    return BUSY


# F_LAST: stop of the beat before
F_LO = U_OWN
F_HI = U_OWN + 1
F_LAST = U_OWN + 2


@fast
def flatten(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    s = S[slot + X_STOP]
    lo = S[u + F_LO]
    hi = S[u + F_HI]
    last = S[u + F_LAST]
    if not S[slot + X_DATA] and lo < s < STOP_DONE:
        if s > hi and 0 < lo < last <= hi:
            fail(S, FAULT_EMPTY, u, c)
            return 0
        if s <= hi and (
            lo == 0 or last > lo
        ):  # an empty group adds nothing to the merged dimension
            S[u + F_LAST] = s
            take(S, LOG, source, c)
            return BUSY
    if not ready(S, out, c):
        return BLOCKED
    S[u + F_LAST] = s
    if not is_done(S, slot):
        if s > hi:
            s -= hi - lo
        elif s > lo:
            s = lo
    forward(S, V, LOG, slot, out, c, s)
    take(S, LOG, source, c)
    return BUSY


# P_HOLD: slot-like record; its X_ACCEPT is 1 when full
P_LEVEL = U_OWN
P_HOLD = U_OWN + 1
P_DONE = U_OWN + 2


@fast
def promote(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if not ready(S, out, c):
        return BLOCKED
    s = S[slot + X_STOP]
    if s >= S[u + P_LEVEL] and not is_done(S, slot):
        s += 1
    forward(S, V, LOG, slot, out, c, s)
    take(S, LOG, source, c)
    return BUSY


@fast
def promote_outermost(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    hold = S[u + P_HOLD]
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
        forward(S, V, LOG, hold, out, c, S[u + P_LEVEL] if is_done(S, slot) else S[hold + X_STOP])
        S[hold] = 0
    if not is_done(S, slot):
        S[hold], S[hold + X_STOP], S[hold + X_DATA] = 1, S[slot + X_STOP], S[slot + X_DATA]
        for i in range(S[source + C_META]):
            S[hold + X_META + i] = S[slot + X_META + i]
        copy_values(S, V, S[slot + X_VALUE], S[hold + X_VALUE], S[source + C_VALUES])
    else:
        S[u + P_DONE] = 1
    take(S, LOG, source, c)
    return BUSY


(H_DIM, H_CHUNK, H_PAD, H_ROWS, H_COLS, H_COUNT, H_LEFT, H_ROW, H_COL, H_STOP, H_FLAGS, H_LAST) = (
    range(U_OWN, U_OWN + 12)
)
# H_FLAGS: level of the padding stream, or -1; H_LAST: stop of the beat that left before


@fast
def reshape_flag(S, V, LOG, u, c, stop, data, pad):
    """The padding stream's part of a beat that leaves."""
    level = S[u + H_FLAGS]
    before = S[u + H_LAST]
    S[u + H_LAST] = stop
    if level < 0 or stop < level:
        return
    out = S[S[u + U_OUT] + 1]
    if stop == STOP_DONE and not data:
        push_done(S, V, LOG, out, c)
        return
    full = 1 if data or stop <= level or (level and before <= level) else 0
    slot = push(S, out, c, stop - level, full)
    S[slot + X_META] = pad
    commit(S, V, LOG, out, slot, c)


@fast
def reshape(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    dim = S[u + H_DIM]
    chunk = S[u + H_CHUNK]
    slot = -1
    if S[u + H_LEFT] == 0:
        slot = head(S, source, c)
        if slot < 0:
            return 0
    if not ready(S, out, c) or (S[u + H_FLAGS] >= 0 and not ready(S, S[S[u + U_OUT] + 1], c)):
        return BLOCKED
    if (
        slot >= 0
        and not S[slot + X_DATA]
        and S[slot + X_STOP] > dim
        and S[u + H_PAD]
        and S[u + H_COUNT]
    ):
        S[u + H_LEFT] = chunk - S[u + H_COUNT]
        S[u + H_STOP] = dim + 1
        S[u + H_COUNT] = 0
        if not is_done(S, slot):
            S[u + H_STOP] = S[slot + X_STOP] + 1
            take(S, LOG, source, c)
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
        reshape_flag(S, V, LOG, u, c, s, 1, 1)
        return BUSY
    s = S[slot + X_STOP]
    if is_done(S, slot):
        S[u + H_COUNT] = 0
    elif s >= dim:
        count = S[u + H_COUNT] + 1
        S[u + H_COUNT] = 0
        if s > dim:
            if S[u + H_PAD] and S[slot + X_DATA] and count < chunk:
                S[u + H_LEFT] = chunk - count
                S[u + H_STOP] = s + 1
                s = dim
            else:
                s += 1
        elif count == chunk:
            s = dim + 1
        else:
            S[u + H_COUNT] = count
    forward(S, V, LOG, slot, out, c, s)
    reshape_flag(S, V, LOG, u, c, s, S[slot + X_DATA], 0)
    take(S, LOG, source, c)
    return BUSY


R_COUNT = U_OWN
R_DONE = U_OWN + 1


@fast
def repeat(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if not ready(S, out, c):
        return BLOCKED
    if not S[slot + X_DATA]:
        forward(S, V, LOG, slot, out, c, S[slot + X_STOP] + (0 if is_done(S, slot) else 1))
        take(S, LOG, source, c)
        return BUSY
    S[u + R_DONE] += 1
    last = S[u + R_DONE] >= S[u + R_COUNT]
    forward(S, V, LOG, slot, out, c, S[slot + X_STOP] + 1 if last else 0)
    if last:
        S[u + R_DONE] = 0
        take(S, LOG, source, c)
    return BUSY


(E_INTERVAL, E_LAST, E_WAIT) = range(
    U_OWN, U_OWN + 3
)  # E_WAIT: sixteenths of a cycle to wait, at the end of cycle E_LAST


@fast
def pace(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    waiting = max(S[u + E_WAIT] - 16 * (c - S[u + E_LAST] - 1), 0)
    if S[slot + X_DATA] and waiting >= 16:
        wake(S, S[u + U_ID], c + waiting // 16)
        return 0
    if not ready(S, out, c):
        return BLOCKED
    if S[slot + X_DATA]:
        S[u + E_LAST], S[u + E_WAIT] = c, waiting + S[u + E_INTERVAL] - 16
    forward(S, V, LOG, slot, out, c, S[slot + X_STOP])
    take(S, LOG, source, c)
    return BUSY


@fast
def zip_(S, V, LOG, u, c):
    a = S[S[u + U_IN]]
    b = S[S[u + U_IN] + 1]
    out = S[S[u + U_OUT]]
    x = head(S, a, c)
    y = head(S, b, c)
    if x < 0 or y < 0:
        return 0
    if S[x + X_STOP] != S[y + X_STOP] or S[x + X_DATA] != S[y + X_DATA]:
        fail(S, FAULT_STOP, u, c)
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
    source = S[S[u + U_IN]]
    outs = S[u + U_OUT]
    n = S[u + U_NOUT]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if not is_done(S, slot):
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
    ins = S[u + U_IN]
    out = S[S[u + U_OUT]]
    n = S[u + U_NIN]
    source = S[ins + S[u + D_INDEX]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if not is_done(S, slot):
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
        if not is_done(S, other):
            fail(S, FAULT_STOP, u, c)
            return 0
    if not ready(S, out, c):
        return BLOCKED
    push_done(S, V, LOG, out, c)
    for i in range(n):
        take(S, LOG, S[ins + i], c)
    S[u + D_INDEX] = 0
    return BUSY
