"""Units that route by selectors, and units that make selectors, addresses and tokens
(docs/timing.md sections 3 and 3.2).
"""

from __future__ import annotations

from .state import *


@fast
def selected(S, slot, k):
    """Bit `k` of the selector in `slot`."""
    return S[slot + X_META + (k >> 6)] >> (k & 63) & 1


@fast
def push_number(S, V, LOG, channel, c, stop, low, high):
    """A beat of a scalar, or of a selector of up to 128 bits."""
    slot = push(S, channel, c, stop, 1)
    S[slot + X_META] = low
    S[slot + X_META + 1] = high
    commit(S, V, LOG, channel, slot, c)


I_RANK = U_OWN
I_PAD = U_OWN + 1


@fast
def partition(S, V, LOG, u, c):
    data = S[S[u + U_IN]]
    selector = S[S[u + U_IN] + 1]
    outs = S[u + U_OUT]
    n = S[u + U_NOUT]
    x = head(S, data, c)
    y = head(S, selector, c)
    if x < 0 or y < 0:
        return 0
    s = S[x + X_STOP]
    q = S[y + X_STOP]
    rank = S[u + I_RANK]
    done = is_done(S, x)
    ends = s >= rank
    if done != is_done(S, y) or (
        not done
        and (
            (ends and s != rank + q)
            or (S[y + X_DATA] == 0 and (S[x + X_DATA] or not ends))
            or (rank == 0 and S[x + X_DATA] == 0 and S[y + X_DATA])
        )
    ):
        fail(S, FAULT_STOP, u, c)
        return 0
    live = S[y + X_DATA]
    for k in range(n):
        if (done or (live and selected(S, y, k))) and not ready(S, S[outs + k], c):
            return BLOCKED
    copies = 0
    for k in range(n):
        if done:
            push_done(S, V, LOG, S[outs + k], c)
        elif live and selected(S, y, k):
            forward(S, V, LOG, x, S[outs + k], c, min(s, rank))
            copies += 1
    if S[x + X_DATA]:
        post(S, S[u + I_PAD], S[x + X_META], copies - 1)
    take(S, LOG, data, c)
    if ends:
        take(S, LOG, selector, c)
    return BUSY


N_RANK, N_OPEN, N_FREE, N_GIVEN, N_DRAIN, N_LEFT = range(U_OWN, U_OWN + 6)
# N_OPEN: 1 + the input whose unit is being moved; N_FREE, N_GIVEN, N_DRAIN: a word an input: first
# cycle in which its next unit can
# arrive, whether it has given its unit to the selector, whether its Done is awaited; N_LEFT: Dones
# awaited.


@fast
def earliest(S, u, n, selector, c):
    """The input whose unit arrived first, among those with a unit and, unless `selector` is -1,
    wanted by it; -1 if there is none.
    """
    best = -1
    since = np.int64(0)
    for k in range(n):
        if selector >= 0 and (not selected(S, selector, k) or S[S[u + N_GIVEN] + k]):
            continue
        slot = head(S, S[S[u + U_IN] + k], c)
        if slot < 0 or is_done(S, slot):
            continue
        arrival = max(S[slot] + 1, S[S[u + N_FREE] + k])
        if best < 0 or arrival < since:
            best = k
            since = arrival
    return best


@fast
def moved(S, u, k, ends, c):
    """A beat of the unit of input `k` was taken."""
    S[u + N_OPEN] = 0 if ends else k + 1
    if ends:
        S[S[u + N_FREE] + k] = c + 1


@fast
def reassemble(S, V, LOG, u, c):
    ins = S[u + U_IN]
    out = S[S[u + U_OUT]]
    n = S[u + U_NIN] - 1
    rank = S[u + N_RANK]
    if S[u + N_LEFT]:
        flags = 0
        for k in range(n):
            slot = head(S, S[ins + k], c)
            if slot < 0 or not S[S[u + N_DRAIN] + k]:
                continue
            if not is_done(S, slot):
                fail(S, FAULT_STOP, u, c)
                return 0
            S[S[u + N_DRAIN] + k] = 0
            S[u + N_LEFT] -= 1
            if S[u + N_LEFT] == 0:
                S[G_OPEN] -= 1
            take(S, LOG, S[ins + k], c)
            flags = BUSY
        return flags
    selector = S[ins + n]
    y = head(S, selector, c)
    if y < 0:
        return 0
    q = S[y + X_STOP]
    if is_done(S, y):
        if not ready(S, out, c):
            return BLOCKED
        push_done(S, V, LOG, out, c)
        take(S, LOG, selector, c)
        for k in range(n):
            S[S[u + N_DRAIN] + k] = 1
        S[u + N_LEFT] = n
        S[G_OPEN] += 1
        return BUSY
    wanted = 0
    if S[y + X_DATA]:
        for k in range(n):
            wanted += selected(S, y, k) and not S[S[u + N_GIVEN] + k]
    if wanted == 0:
        if not ready(S, out, c):
            return BLOCKED
        commit(S, V, LOG, out, push(S, out, c, rank + 1 + q, 0), c)
        take(S, LOG, selector, c)
        return BUSY
    k = S[u + N_OPEN] - 1
    if k < 0:
        k = earliest(S, u, n, y, c)
        if k < 0:
            return 0
    source = S[ins + k]
    x = head(S, source, c)
    if x < 0:
        return 0
    s = S[x + X_STOP]
    if is_done(S, x) or (rank == 0 and S[x + X_DATA] == 0):
        fail(S, FAULT_STOP, u, c)
        return 0
    if not ready(S, out, c):
        return BLOCKED
    ends = s >= rank
    if ends:
        s = rank
        if wanted == 1:
            s += 1 + q
            for j in range(n):
                S[S[u + N_GIVEN] + j] = 0
            take(S, LOG, selector, c)
        else:
            S[S[u + N_GIVEN] + k] = 1
    forward(S, V, LOG, x, out, c, s)
    take(S, LOG, source, c)
    moved(S, u, k, ends, c)
    return BUSY


@fast
def eager_merge(S, V, LOG, u, c):
    ins = S[u + U_IN]
    n = S[u + U_NIN]
    out = S[S[u + U_OUT]]
    selectors = S[S[u + U_OUT] + 1]
    k = S[u + N_OPEN] - 1
    first = k < 0
    if first:
        k = earliest(S, u, n, -1, c)
        if k < 0:  # nothing but Done
            for j in range(n):
                if head(S, S[ins + j], c) < 0:
                    return 0
            if not ready(S, out, c) or not ready(S, selectors, c):
                return BLOCKED
            push_done(S, V, LOG, out, c)
            push_done(S, V, LOG, selectors, c)
            for j in range(n):
                take(S, LOG, S[ins + j], c)
            return BUSY
    source = S[ins + k]
    x = head(S, source, c)
    if x < 0:
        return 0
    if is_done(S, x):
        fail(S, FAULT_STOP, u, c)
        return 0
    if not ready(S, out, c) or (first and not ready(S, selectors, c)):
        return BLOCKED
    s = S[x + X_STOP]
    forward(S, V, LOG, x, out, c, s)
    if first:
        push_number(
            S,
            V,
            LOG,
            selectors,
            c,
            0,
            np.int64(1) << (k & 63) if k < 64 else 0,
            np.int64(1) << (k & 63) if k >= 64 else 0,
        )
    take(S, LOG, source, c)
    moved(S, u, k, s >= S[u + N_RANK], c)
    return BUSY


@fast
def expand(S, V, LOG, u, c):
    data = S[S[u + U_IN]]
    reference = S[S[u + U_IN] + 1]
    out = S[S[u + U_OUT]]
    x = head(S, data, c)
    y = head(S, reference, c)
    if x < 0 or y < 0:
        return 0
    s = S[y + X_STOP]
    ends = s >= S[u + I_RANK]
    if (
        is_done(S, x) != is_done(S, y)
        or (ends and S[x + X_STOP] != s)
        or (S[y + X_DATA] and not S[x + X_DATA])
    ):
        fail(S, FAULT_STOP, u, c)
        return 0
    if not ready(S, out, c):
        return BLOCKED
    if S[y + X_DATA]:
        forward(S, V, LOG, x, out, c, s)
    else:
        commit(S, V, LOG, out, push(S, out, c, s, 0), c)
    if S[x + X_DATA]:
        post(S, S[u + I_PAD], S[x + X_META], S[y + X_DATA] - (1 if ends else 0))
    if ends:
        take(S, LOG, data, c)
    take(S, LOG, reference, c)
    return BUSY


# of `signal`; G_LAST: stop of the beat before
G_LEVEL = U_OWN
G_LAST = U_OWN + 1


@fast
def signal(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    level = S[u + G_LEVEL]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    s = S[slot + X_STOP]
    data = S[slot + X_DATA]
    if s >= level:
        if not ready(S, out, c):
            return BLOCKED
        if is_done(S, slot):
            push_done(S, V, LOG, out, c)
        elif data == 0 and s > level and (level == 0 or S[u + G_LAST] > level):
            commit(S, V, LOG, out, push(S, out, c, s - level, 0), c)
        else:
            push_number(S, V, LOG, out, c, s - level, 1, 0)
    S[u + G_LAST] = s
    take(S, LOG, source, c)
    return BUSY


(J_FN, J_STRIDE, J_COUNT, J_SENT) = range(U_OWN, U_OWN + 4)
GENERATE_ADDRESS, GENERATE_EXPERT, GENERATE_LAST = range(3)
WORD = (1 << 32) - 1  # addresses have 32 bits


@fast
def generate(S, V, LOG, u, c):
    ins = S[u + U_IN]
    out = S[S[u + U_OUT]]
    fn = S[u + J_FN]
    x = head(S, S[ins], c)
    y = x
    if fn == GENERATE_ADDRESS:
        y = head(S, S[ins + 1], c)
    if x < 0 or y < 0:
        return 0
    s = S[x + X_STOP]
    if s != S[y + X_STOP] or S[x + X_DATA] != S[y + X_DATA]:
        fail(S, FAULT_STOP, u, c)
        return 0
    if not ready(S, out, c):
        return BLOCKED
    i = S[u + J_SENT]
    n = np.int64(0)
    first = np.int64(0)
    if S[x + X_DATA]:
        if fn == GENERATE_ADDRESS:
            n = S[y + X_META]
            first = S[x + X_META] * S[u + J_STRIDE]
        elif fn == GENERATE_EXPERT:
            low = S[x + X_META]
            high = S[x + X_META + 1]
            if low or high:
                first = (trailing_zeros(low) if low else 64 + trailing_zeros(high)) * S[u + J_COUNT]
                n = S[u + J_COUNT]
        else:
            n = S[x + X_META]
    last = i + 1 >= n
    if is_done(S, x):
        push_done(S, V, LOG, out, c)
    elif n == 0:
        commit(S, V, LOG, out, push(S, out, c, s + 1, 0), c)
    else:
        value = (1 if last else 2) if fn == GENERATE_LAST else (first + i) & WORD
        push_number(S, V, LOG, out, c, s + 1 if last else 0, value, 0)
    S[u + J_SENT] = 0 if last else i + 1
    if last:
        take(S, LOG, S[ins], c)
        if fn == GENERATE_ADDRESS:
            take(S, LOG, S[ins + 1], c)
    return BUSY


@fast
def address(S, V, LOG, u, c):
    a = S[S[u + U_IN]]
    b = S[S[u + U_IN] + 1]
    out = S[S[u + U_OUT]]
    x = head(S, a, c)
    y = head(S, b, c)
    if x < 0 or y < 0:
        return 0
    s = S[x + X_STOP]
    if s != S[y + X_STOP] or S[x + X_DATA] != S[y + X_DATA]:
        fail(S, FAULT_STOP, u, c)
        return 0
    if not ready(S, out, c):
        return BLOCKED
    if S[x + X_DATA]:
        push_number(
            S, V, LOG, out, c, s, (S[x + X_META] * S[u + J_STRIDE] + S[y + X_META]) & WORD, 0
        )
    else:
        commit(S, V, LOG, out, push(S, out, c, s, 0), c)
    take(S, LOG, a, c)
    take(S, LOG, b, c)
    return BUSY
