"""`load` and `store` (docs/timing.md section 5)."""

from __future__ import annotations

from ...machine import limits
from .state import *

(
    L_BASE,
    L_PITCH,
    L_TROWS,
    L_TCOLS,
    L_ROWS,
    L_COLS,
    L_E,
    L_PRESENT,
    L_LIMIT_LOW,
    L_LIMIT_HIGH,
    L_SEQUENCE,
    L_RANK,
    L_LOOPS,
    L_GROUPS,
    L_USED,
    L_RING_HEAD,
    L_RING_TAIL,
    L_RING,
    L_RING_VALUE,
    L_GENERATOR,
    L_ASSEMBLER,
    L_LINES_VALUE,
    L_BLOCKS,
    L_BLOCK_HEAD,
    L_BLOCK_COUNT,
    L_TILE,
    L_DONE,
    L_ORDER,
    L_ORDER_COUNT,
    L_ORDER_AT,
) = range(U_OWN, U_OWN + 30)
# Triggers: a ring of (stop, hollow, row, col) that generator and assembly go through each at its
# own pace.
(L_TRIGGER, L_SHIFT, L_HOLLOW, L_ENDING, L_TRIGGERS, L_TRIGGERS_TAIL) = range(
    U_OWN + 45, U_OWN + 51
)
BY_REF = 1
BY_ADDRESS = 2
TRIGGER_WORDS = 4
TRIGGER_RING = 32
# A random store: queue of (stop, data, row, col), ring of acknowledgements (stop, data, lines in
# flight).
(T_RANDOM, T_ADDRESSES, T_ADDRESS_HEAD, T_ADDRESS_COUNT, T_DUE, T_DUE_HEAD, T_DUE_COUNT) = range(
    U_OWN + 51, U_OWN + 58
)
ADDRESS_WORDS = 4
DUE_WORDS = 3
ADDRESSES = limits.STORE_ADDRESSES
DUE = limits.STORE_TILES
AHEAD = limits.TRIGGERS_AHEAD
BEHIND = limits.TRIGGERS_BEHIND
RING_WORDS = 2  # lines outstanding, sequence number of the first
BLOCK_WORDS = 8
X_PUSHED, X_TILES, X_FIRST, X_ROWS, X_COLS, X_END, X_BLOCK_VALUE = range(
    7
)  # a block; no tiles: a bare stop
(
    Y_DONE,
    Y_BAND,
    Y_ROW,
    Y_COL,
    Y_V,
    Y_N,
    Y_K,
    Y_CP,
    Y_STEP,
    Y_CHUNK,
    Y_STEPS,
    Y_CHUNKS,
    Y_STOP,
    Y_TILE,
    Y_HOLDS,
    Y_QUEUED,
    Y_HEAD,
    Y_ABOVE,
    Y_INDEX,
) = range(
    19
    # a position in the walk; of a triggered one whether it holds its head, its queue, the head's
    # stop
)
WALK_WORDS = 32
MAX_LOOPS = WALK_WORDS - Y_INDEX


@fast
def clamp(x, high):
    return min(max(x, 0), high)


@fast
def walk_band(S, u, y):
    """Derive a band's counts from its position."""
    t = S[G_T]
    e = S[u + L_E]
    w = S[G_W]
    rows = clamp(S[u + L_TROWS] - S[y + Y_ROW], S[u + L_ROWS])
    cols = clamp(S[u + L_TCOLS] - S[y + Y_COL], S[u + L_COLS])
    v = clamp(rows - S[y + Y_BAND] * t, t)
    k = S[y + Y_COL] % e
    S[y + Y_V] = v
    S[y + Y_CP] = cols
    S[y + Y_K] = k
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
        if S[u + L_ORDER_COUNT]:
            S[y + Y_TILE] += 1
            place = S[u + L_ORDER] + 2 * S[y + Y_TILE]
            S[y + Y_ROW], S[y + Y_COL] = S[place], S[place + 1]
    walk_band(S, u, y)


@fast
def next_trigger(S, u, y):
    """Let a walk that has come to its end go on with the head of its queue; returns how many
    triggers it has.
    """
    if not S[y + Y_DONE]:
        return S[y + Y_QUEUED]
    if S[y + Y_HOLDS]:
        S[y + Y_QUEUED] -= 1
        S[y + Y_HEAD] = (S[y + Y_HEAD] + 1) & (TRIGGER_RING - 1)
        S[y + Y_HOLDS] = 0
    if S[y + Y_QUEUED]:
        trigger = S[u + L_TRIGGERS] + S[y + Y_HEAD] * TRIGGER_WORDS
        S[y + Y_HOLDS], S[y + Y_DONE], S[y + Y_ABOVE] = 1, 0, S[trigger]
        S[y + Y_ROW], S[y + Y_COL], S[y + Y_TILE] = S[trigger + 2], S[trigger + 3], 0
        walk_band(S, u, y)
        if S[trigger + 1]:
            S[y + Y_N] = S[y + Y_STEPS] = S[y + Y_CHUNK] = 0
    return S[y + Y_QUEUED]


@fast
def take_trigger(S, LOG, u, c, ahead, behind):
    """One cycle of the trigger input, with the lengths of both queues at its start."""
    channel = S[S[u + U_IN]]
    slot = head(S, channel, c)
    if slot < 0 or S[u + L_ENDING]:
        return 0
    if is_done(S, slot):
        if ahead or behind:
            return 0
        S[u + L_ENDING] = 1
        S[u + L_DONE] = 0
    else:
        if ahead == AHEAD or behind == BEHIND:
            return 0
        trigger = S[u + L_TRIGGERS] + S[u + L_TRIGGERS_TAIL] * TRIGGER_WORDS
        S[u + L_TRIGGERS_TAIL] = (S[u + L_TRIGGERS_TAIL] + 1) & (TRIGGER_RING - 1)
        row = col = 0
        if S[u + L_ORDER_COUNT]:
            row = S[S[u + L_ORDER]]
            col = S[S[u + L_ORDER] + 1]
        if S[u + L_TRIGGER] == BY_ADDRESS and S[slot + X_DATA]:
            a = S[slot + X_META]
            shift = S[u + L_SHIFT]
            row = (a >> shift) * S[u + L_ROWS]
            col = (a & ((1 << shift) - 1)) * S[u + L_COLS]
            if row >= S[u + L_TROWS] or col >= S[u + L_TCOLS]:
                fail(
                    S,
                    FAULT_ADDRESS,
                    u,
                    S[u + L_BASE] + row * S[u + L_PITCH] + col * (64 // S[u + L_E]),
                )
        S[trigger], S[trigger + 1], S[trigger + 2], S[trigger + 3] = (
            S[slot + X_STOP],
            S[u + L_HOLLOW] | (1 - S[slot + X_DATA]),
            row,
            col,
        )
        S[S[u + L_GENERATOR] + Y_QUEUED] += 1
        S[S[u + L_ASSEMBLER] + Y_QUEUED] += 1
    take(S, LOG, channel, c)
    return BUSY


@fast
def load(S, V, LOG, u, c):
    flags = 0
    t = S[G_T]
    e = S[u + L_E]
    g = e // t
    ending = S[u + L_ENDING]
    if S[u + L_TRIGGER]:
        ahead = next_trigger(S, u, S[u + L_GENERATOR])
        flags = take_trigger(S, LOG, u, c, ahead, next_trigger(S, u, S[u + L_ASSEMBLER]))
    # Requests.
    y = S[u + L_GENERATOR]
    if not S[y + Y_DONE] and not S[u + L_PRESENT]:
        if S[y + Y_N] == 0:
            if S[y + Y_STEPS]:
                walk_on(S, u, y)
            else:
                S[y + Y_DONE] = 1
            flags |= ACTIVE
        elif S[u + L_USED] < S[u + L_GROUPS]:
            S[u + L_PRESENT] = 1
            S[G_PRESENT] += 1
    # Assembly.
    y = S[u + L_ASSEMBLER]
    blocks = S[u + L_BLOCK_COUNT]
    first = S[u + L_BLOCK_HEAD]
    assembled = S[y + Y_DONE]
    if not assembled and S[y + Y_STEPS] == 0:  # a trigger of no tile
        if blocks < 2:
            b = S[u + L_BLOCKS] + ((first + blocks) & 1) * BLOCK_WORDS
            S[b + X_PUSHED], S[b + X_TILES], S[b + X_END] = c, 0, 2 + S[u + L_RANK] + S[y + Y_ABOVE]
            S[u + L_BLOCK_COUNT] += 1
            S[y + Y_DONE] = 1
            flags |= ACTIVE
    elif not assembled:
        step = S[y + Y_STEP]
        k = S[y + Y_K]
        moves = step < S[y + Y_N]
        last = not moves or S[y + Y_CHUNK] == S[y + Y_CHUNKS] - 1
        pushes = last and (step >= 1 or k == 0)
        ring = S[u + L_RING] + S[u + L_RING_HEAD] * RING_WORDS
        if not (moves and (S[u + L_USED] == 0 or S[ring] > 0)) and not (pushes and blocks == 2):
            flags |= ACTIVE
            line = S[u + L_LINES_VALUE] + (step & 1) * t * e
            if moves:
                if S[G_VALUES]:
                    w = S[G_W]
                    copy_values(
                        S,
                        V,
                        S[u + L_RING_VALUE] + S[u + L_RING_HEAD] * w * e,
                        line + S[y + Y_CHUNK] * w * e,
                        min(w, t - S[y + Y_CHUNK] * w) * e,
                    )
                S[u + L_USED] -= 1
                at = S[u + L_RING_HEAD] + 1
                S[u + L_RING_HEAD] = 0 if at == S[u + L_GROUPS] else at
            if pushes:
                j = step - 1 if k else step
                b = S[u + L_BLOCKS] + ((first + blocks) & 1) * BLOCK_WORDS
                tiles = (S[u + L_COLS] + t - 1) // t
                n = min(g, tiles - j * g)
                S[b + X_PUSHED], S[b + X_TILES], S[b + X_FIRST], S[b + X_ROWS], S[b + X_COLS] = (
                    c,
                    n,
                    j * g,
                    S[y + Y_V],
                    S[y + Y_CP],
                )
                S[b + X_END] = S[y + Y_STOP] if j * g + n == tiles else 0
                if S[b + X_END] == 2 + S[u + L_RANK]:
                    S[b + X_END] += S[y + Y_ABOVE]
                if S[G_VALUES]:
                    low = S[u + L_LINES_VALUE] + (
                        ((step & 1) ^ 1) * t * e if k else (step & 1) * t * e
                    )
                    for i in range(n):
                        for r in range(t):
                            for q in range(t):
                                column = i * t + q
                                target = S[b + X_BLOCK_VALUE] + (i * t + r) * t + q
                                if r < S[y + Y_V] and j * e + column < S[y + Y_CP]:
                                    V[target] = (
                                        V[low + r * e + k + column]
                                        if k + column < e
                                        else V[line + r * e + k + column - e]
                                    )
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
            last = i + 1 >= S[b + X_TILES]
            if S[b + X_TILES]:
                push_tile(
                    S,
                    V,
                    LOG,
                    out,
                    c,
                    S[b + X_END] if last else 0,
                    S[b + X_ROWS],
                    clamp(S[b + X_COLS] - (S[b + X_FIRST] + i) * t, t),
                    S[b + X_BLOCK_VALUE] + i * t * t,
                )
            else:
                commit(S, V, LOG, out, push(S, out, c, S[b + X_END], 0), c)
            S[u + L_TILE] = i + 1
            if last:
                S[u + L_TILE] = 0
                S[u + L_BLOCK_HEAD] = 1 - first
                S[u + L_BLOCK_COUNT] -= 1
            return flags | BUSY
        return flags | BLOCKED
    if assembled and not S[u + L_DONE] and (ending or not S[u + L_TRIGGER]):
        if ready(S, out, c):
            push_done(S, V, LOG, out, c)
            S[u + L_DONE] = 1
            S[u + L_ENDING] = 0
            return flags | BUSY
        return flags | BLOCKED
    return flags | BLOCKED if S[u + L_PRESENT] else flags


# `store` shares L_BASE .. L_SEQUENCE and the block queue with `load`.
(
    T_ROW,
    T_COL,
    T_BAND,
    T_STEP,
    T_CHUNK,
    T_CHUNKS,
    T_CARRY,
    T_CARRY_COLS,
    T_CARRY_ROWS,
    T_CARRY_STOP,
    T_CARRY_VALUE,
    T_GATHERED,
    T_ACKS,
    T_DONE,
    T_CLOSED,
) = range(U_OWN + 30, U_OWN + 45)


@fast
def due_slot(S, u):
    """The acknowledgement of the tile at the head of the addresses."""
    return S[u + T_DUE] + (S[u + T_DUE_HEAD] + S[u + T_DUE_COUNT]) % DUE * DUE_WORDS


@fast
def make_due(S, u, data):
    """Pop an address: its acknowledgement is due."""
    slot = due_slot(S, u)
    address = S[u + T_ADDRESSES] + S[u + T_ADDRESS_HEAD] * ADDRESS_WORDS
    S[slot] = S[address]
    S[slot + 1] = data
    S[u + T_DUE_COUNT] += 1
    S[u + T_ADDRESS_HEAD] = (S[u + T_ADDRESS_HEAD] + 1) % ADDRESSES
    S[u + T_ADDRESS_COUNT] -= 1


@fast
def store_row_on(S, u, stop):
    """The next row of tiles: the next band, or the next logical tile."""
    S[u + T_STEP] = S[u + T_CARRY_COLS] = 0
    S[u + T_BAND] += 1
    if stop >= 2:
        S[u + T_BAND] = 0
        if S[u + T_RANDOM]:
            make_due(S, u, 1)
            return
        if S[u + L_ORDER_COUNT]:
            S[u + L_ORDER_AT] = (S[u + L_ORDER_AT] + 1) % S[u + L_ORDER_COUNT]
            place = S[u + L_ORDER] + 2 * S[u + L_ORDER_AT]
            S[u + T_ROW], S[u + T_COL] = S[place], S[place + 1]
            return
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
def random_store(S, V, LOG, u, c):
    flags = 0
    queued = S[u + T_ADDRESS_COUNT]
    due = S[u + T_DUE_COUNT]
    address = S[u + T_ADDRESSES] + S[u + T_ADDRESS_HEAD] * ADDRESS_WORDS
    acknowledgement = S[u + T_DUE] + S[u + T_DUE_HEAD] * DUE_WORDS
    offered = due and S[acknowledgement + 2] == 0
    new = S[u + T_ADDRESSES] + (S[u + T_ADDRESS_HEAD] + queued) % ADDRESSES * ADDRESS_WORDS
    goes_on = queued and S[address + 1] and due < DUE
    if goes_on:
        S[u + T_ROW], S[u + T_COL] = S[address + 2], S[address + 3]
    elif queued and not S[address + 1] and due < DUE:
        make_due(S, u, 0)
        flags = ACTIVE
    channel = S[S[u + U_IN]]
    slot = head(S, channel, c)
    ends = slot >= 0 and is_done(S, slot)
    if slot >= 0 and not ends and queued < ADDRESSES:
        a = S[slot + X_META]
        shift = S[u + L_SHIFT]
        row = (a >> shift) * S[u + L_ROWS]
        col = (a & ((1 << shift) - 1)) * S[u + L_COLS]
        if S[slot + X_DATA] and (row >= S[u + L_TROWS] or col >= S[u + L_TCOLS]):
            fail(
                S, FAULT_ADDRESS, u, S[u + L_BASE] + row * S[u + L_PITCH] + col * (64 // S[u + L_E])
            )
        S[new], S[new + 1], S[new + 2], S[new + 3] = S[slot + X_STOP], S[slot + X_DATA], row, col
        S[u + T_ADDRESS_COUNT] += 1
        take(S, LOG, channel, c)
        flags |= BUSY
    flags |= store(S, V, LOG, u, c, goes_on, ends and not queued and not due)
    if offered:
        out = S[S[u + U_OUT]]
        if ready(S, out, c):
            slot = push(S, out, c, S[acknowledgement], S[acknowledgement + 1])
            S[slot + X_META] = 1
            S[slot + X_META + 1] = 0
            commit(S, V, LOG, out, slot, c)
            S[u + T_DUE_HEAD] = (S[u + T_DUE_HEAD] + 1) % DUE
            S[u + T_DUE_COUNT] -= 1
            flags |= BUSY
        else:
            flags |= BLOCKED
    return flags


@fast
def store(S, V, LOG, u, c, goes_on, ends):
    """One cycle of a store; whether its steps may go on, and whether its Done may be taken as far
    as others know.
    """
    if S[u + T_DONE] and not S[u + T_CLOSED] and S[u + T_ACKS] == 0:
        S[u + T_CLOSED] = 1
        S[G_OPEN] -= 1
    flags = 0
    t = S[G_T]
    e = S[u + L_E]
    blocks = S[u + L_BLOCK_COUNT]
    carry = S[u + T_CARRY]
    gathered = S[u + T_GATHERED]
    # A step: present a chunk, or pass in one cycle.
    new = ((S[u + L_BLOCK_HEAD] + blocks) & 1) * BLOCK_WORDS + S[u + L_BLOCKS]
    if (blocks or carry) and not S[u + L_PRESENT] and goes_on:
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
    channel = S[S[u + U_IN] + S[u + U_NIN] - 1]
    slot = head(S, channel, c)
    if slot >= 0:
        if not S[slot + X_DATA]:
            if not is_done(S, slot):
                take(S, LOG, channel, c)
                return flags | BUSY
            if gathered:
                fail(S, FAULT_STOP, u, c)
            if blocks == 0 and not carry and ends:
                take(S, LOG, channel, c)
                S[u + T_DONE] = 1
                if S[u + T_RANDOM]:
                    slot = due_slot(S, u)
                    S[slot] = STOP_DONE
                    S[slot + 1] = 0
                    S[u + T_DUE_COUNT] += 1
                    take(S, LOG, S[S[u + U_IN]], c)
                return flags | BUSY
        elif blocks < 2:
            if gathered == 0:
                S[new + X_ROWS] = S[slot + X_META]
                S[new + X_COLS] = 0
            elif S[slot + X_META + 1] and (
                S[slot + X_META] != S[new + X_ROWS] or S[new + X_COLS] != gathered * t
            ):
                fail(S, FAULT_ROWS, u, c)
            S[new + X_COLS] += S[slot + X_META + 1]
            if S[G_VALUES]:
                for r in range(t):
                    for q in range(t):
                        V[S[new + X_BLOCK_VALUE] + r * e + gathered * t + q] = V[
                            S[slot + X_VALUE] + r * t + q
                        ]
            gathered += 1
            stop = S[slot + X_STOP]
            if stop or gathered == e // t:
                S[new + X_PUSHED] = c
                S[new + X_END] = stop
                S[u + L_BLOCK_COUNT] += 1
                gathered = 0
            S[u + T_GATHERED] = gathered
            take(S, LOG, channel, c)
            return flags | BUSY
    return flags | BLOCKED if S[u + L_PRESENT] else flags
