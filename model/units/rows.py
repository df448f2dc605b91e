"""Units that pack and unpack the rows of logical tiles (docs/timing.md section 3.3)."""

from __future__ import annotations

from .state import *

(
    RP_DEPTH,
    RP_LEVEL,
    RP_BANDS,
    RP_COLS,
    RP_FILL,
    RP_AT,
    RP_OUT,
    RP_WIDTH,
    RP_OPEN,
    RP_LAST,
    RP_LEAVING,
    RP_LEFT,
    RP_DRAINED,
    RP_FROM,
    RP_STOP,
    RP_DRAIN_ROWS,
    RP_DRAIN_WIDTH,
    RP_EXTENT,
    RP_VALUE,
    RP_ACROSS,
    RP_VALID,
) = range(U_OWN, U_OWN + 21)
# RP_FILL: rows of the open band; RP_AT: tiles of the open row of tiles; RP_OUT: bands of the group
# that have left; RP_WIDTH: tiles of a band;
# RP_LEFT, RP_DRAINED: tiles of the drain to come, and gone; RP_EXTENT: columns of each tile.
# RP_ACROSS: 1 where columns are packed: a row is a column here,
# and the band's tiles are kept transposed. RP_VALID: rows of the open row of tiles, those of its
# first one.


@fast
def pack_drain(S, u, c, band, more, stop):
    """Let the open band (`band` of them) and `more` empty ones leave; the last tile gets `stop`."""
    t = S[G_T]
    S[u + RP_DRAIN_WIDTH] = S[u + RP_WIDTH] if band else 0
    S[u + RP_DRAIN_ROWS] = S[u + RP_FILL]
    S[u + RP_LEFT] = S[u + RP_DRAIN_WIDTH] + more * ((S[u + RP_COLS] + t - 1) // t)
    S[u + RP_DRAINED] = 0
    S[u + RP_FROM] = c + 1
    S[u + RP_STOP] = stop
    S[u + RP_FILL] = 0
    wake(S, S[u + U_ID], c + 1)


@fast
def pack_close(S, u, c, stop):
    more = max(S[u + RP_BANDS] - S[u + RP_OUT] - (1 if S[u + RP_FILL] else 0), 0)
    if S[u + RP_FILL] or more:
        pack_drain(S, u, c, 1 if S[u + RP_FILL] else 0, more, stop)
    else:
        S[u + RP_LEAVING] = 1 + stop
    S[u + RP_AT] = S[u + RP_OUT] = S[u + RP_OPEN] = 0


@fast
def pack_emit(S, V, LOG, u, out, c):
    t = S[G_T]
    i = S[u + RP_DRAINED]
    band = S[u + RP_DRAIN_WIDTH]
    stop = 0
    rows = 0
    cols = 0
    value = S[u + RP_VALUE] + S[u + RP_DEPTH] * t * t
    if i < band:
        rows = S[u + RP_DRAIN_ROWS]
        cols = S[S[u + RP_EXTENT] + i]
        value = S[u + RP_VALUE] + i * t * t
        stop = 1 if i == band - 1 else 0
        if S[G_VALUES]:
            mask_tile(S, V, value, rows, cols)
    else:
        width = (S[u + RP_COLS] + t - 1) // t
        j = (i - band) % width
        cols = min(S[u + RP_COLS] - j * t, t)
        stop = 1 if j == width - 1 else 0
    if S[u + RP_LEFT] == 1:
        stop = S[u + RP_STOP]
    if S[u + RP_ACROSS]:
        rows, cols = cols, rows
        if S[G_VALUES]:
            spare = S[u + RP_VALUE] + (S[u + RP_DEPTH] + 1) * t * t
            for r in range(t):
                for k in range(t):
                    V[spare + r * t + k] = V[value + k * t + r]
            value = spare
    push_tile(S, V, LOG, out, c, stop, rows, cols, value)
    S[u + RP_DRAINED], S[u + RP_LEFT] = i + 1, S[u + RP_LEFT] - 1


@fast
def row_pack(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    t = S[G_T]
    if S[u + RP_LEAVING]:
        if not ready(S, out, c):
            return BLOCKED
        commit(S, V, LOG, out, push(S, out, c, S[u + RP_LEAVING] - 1, 0), c)
        S[u + RP_LEAVING] = 0
        return BUSY
    flags = 0
    draining = S[u + RP_LEFT] > 0
    drained = S[u + RP_DRAINED]
    if draining and c >= S[u + RP_FROM]:
        if ready(S, out, c):
            pack_emit(S, V, LOG, u, out, c)
            flags = BUSY
        else:
            flags = BLOCKED
    slot = head(S, source, c)
    if slot < 0:
        return flags
    s = S[slot + X_STOP]
    data = S[slot + X_DATA]
    rows = S[slot + X_META]
    level = S[u + RP_LEVEL]
    across = S[u + RP_ACROSS]
    if S[u + RP_AT]:
        rows = S[u + RP_VALID]
    elif across and rows > 0:
        rows = S[slot + X_META + 1]
    if data and S[u + RP_AT] == 0 and S[u + RP_FILL] == t and rows > 0:  # a full band makes room
        if not draining:
            S[u + RP_OUT] += 1
            pack_drain(S, u, c, 1, 0, 1)
            flags |= ACTIVE
        return flags
    if draining and (s >= level or (data and S[u + RP_AT] >= drained)):
        return flags
    before = S[u + RP_LAST]
    if data:
        at = S[u + RP_AT]
        fill = S[u + RP_FILL]
        if fill + rows > t or at >= S[u + RP_DEPTH]:
            fail(S, FAULT_ROWS, u, c)
            return flags
        S[u + RP_OPEN] = 1
        S[u + RP_VALID] = rows
        if rows:
            S[S[u + RP_EXTENT] + at] = S[slot + X_META + 1 - across]
            to = S[u + RP_VALUE] + at * t * t + fill * t
            if not across:
                copy_values(S, V, S[slot + X_VALUE], to, rows * t)
            elif S[G_VALUES]:
                for r in range(rows):
                    for k in range(t):
                        V[to + r * t + k] = V[S[slot + X_VALUE] + k * t + r]
        S[u + RP_AT] = at + 1
        if s > across:
            S[u + RP_WIDTH] = at + 1
            S[u + RP_AT] = 0
            S[u + RP_FILL] += rows
        take(S, LOG, source, c)
        if s >= level:
            pack_close(S, u, c, 2 + s - level)
    else:
        take(S, LOG, source, c)
        if s == STOP_DONE:
            S[u + RP_LEAVING] = 1 + s
            S[u + RP_FILL] = S[u + RP_AT] = S[u + RP_OUT] = S[u + RP_OPEN] = 0
        elif s >= level:
            if not S[u + RP_OPEN] and before > level and s > level:
                S[u + RP_LEAVING] = 1 + 2 + s - level
            else:
                pack_close(S, u, c, 2 + s - level)
    S[u + RP_LAST] = s
    return BUSY


(
    RU_DEPTH,
    RU_MASK,
    RU_ROWS,
    RU_HEAD,
    RU_COUNT,
    RU_AT,
    RU_BAND,
    RU_ROW,
    RU_COL,
    RU_BANDS,
    RU_EXTENT,
    RU_VALUE,
    RU_ACROSS,
    RU_VALID,
) = range(U_OWN, U_OWN + 14)
# RU_ACROSS: 1 where a band is a column of tiles, and what is called a row here is a column;
# RU_VALID: rows of the open band's first tile.
RB_WIDTH, RB_VALID, RB_LEAVE, RB_END, BAND_WORDS = range(5)  # a complete band; width 0: a bare stop


@fast
def unpack_take(S, V, u, slot):
    """Keep the beat in `slot`; returns what is to be changed at the end of the cycle: 1 if a band
    is complete, its end << 1 if the band before it ends.
    """
    t = S[G_T]
    depth = S[u + RU_DEPTH]
    s = S[slot + X_STOP]
    which = (S[u + RU_HEAD] + S[u + RU_COUNT]) & 1
    b = S[u + RU_BANDS] + which * BAND_WORDS
    if not S[slot + X_DATA]:
        if s < 2:
            return 0
        S[b + RB_WIDTH] = 0
        S[b + RB_LEAVE] = 0
        S[b + RB_END] = s
        return 1
    at = S[u + RU_AT]
    across = S[u + RU_ACROSS]
    if at == 0:
        S[u + RU_VALID] = (
            S[slot + X_META + across] if S[slot + X_META] else 0
        )  # without a row no column is valid
    rows = S[u + RU_VALID]
    S[S[u + RU_EXTENT] + which * depth + at] = S[slot + X_META + 1 - across]
    copy_values(S, V, S[slot + X_VALUE], S[u + RU_VALUE] + (which * depth + at) * t * t, t * t)
    S[u + RU_AT] = at + 1
    if s == 0:
        return 0
    leave = rows if S[u + RU_MASK] else min(max(S[u + RU_ROWS] - S[u + RU_BAND] * t, 0), t)
    S[u + RU_AT], S[u + RU_BAND] = 0, 0 if s >= 2 else S[u + RU_BAND] + 1
    S[b + RB_WIDTH] = at + 1 if leave else 0
    S[b + RB_VALID] = rows
    S[b + RB_LEAVE] = leave
    S[b + RB_END] = s
    if leave:
        return 1
    if s < 2:
        return 0
    if S[u + RU_COUNT] and S[S[u + RU_BANDS] + (1 - which) * BAND_WORDS + RB_END] == 1:
        return s << 1
    return 1


@fast
def row_unpack(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    out = S[S[u + U_OUT]]
    t = S[G_T]
    flags = 0
    queued = S[u + RU_COUNT]
    change = 0
    slot = head(S, source, c)
    if slot >= 0 and queued < 2 and not is_done(S, slot):
        if S[slot + X_DATA] and S[u + RU_AT] >= S[u + RU_DEPTH]:
            fail(S, FAULT_ROWS, u, c)
            return 0
        change = unpack_take(S, V, u, slot)
        take(S, LOG, source, c)
        flags = BUSY
    if queued:
        which = S[u + RU_HEAD]
        b = S[u + RU_BANDS] + which * BAND_WORDS
        width = S[b + RB_WIDTH]
        end = S[b + RB_END]
        row = S[u + RU_ROW]
        col = S[u + RU_COL]
        last = row == S[b + RB_LEAVE] - 1
        if not (width and last and end == 1 and queued == 1 and S[u + RU_MASK]):
            if not ready(S, out, c):
                flags |= BLOCKED
            else:
                pops = True
                if width == 0:
                    commit(S, V, LOG, out, push(S, out, c, end + 1, 0), c)
                else:
                    ends = col == width - 1
                    across = S[u + RU_ACROSS]
                    tile = push(
                        S, out, c, across if not ends else end + 1 if last and end >= 2 else 2, 1
                    )
                    valid = row < S[b + RB_VALID]
                    S[tile + X_META + across], S[tile + X_META + 1 - across] = (
                        1 if valid else 0,
                        S[S[u + RU_EXTENT] + which * S[u + RU_DEPTH] + col],
                    )
                    if S[G_VALUES]:
                        along, step = (
                            (1, t) if across else (t, 1)
                        )  # from a row to the next, and within one
                        from_ = (
                            S[u + RU_VALUE] + (which * S[u + RU_DEPTH] + col) * t * t + row * along
                        )
                        to = S[tile + X_VALUE]
                        for k in range(t * t):
                            V[to + k] = 0
                        if valid:
                            for k in range(t):
                                V[to + k * step] = V[from_ + k * step]
                    commit(S, V, LOG, out, tile, c)
                    pops = ends and last
                    S[u + RU_COL] = 0 if ends else col + 1
                    if ends:
                        S[u + RU_ROW] = row + 1
                if pops:
                    S[u + RU_HEAD] = 1 - which
                    S[u + RU_COUNT] = queued - 1
                    S[u + RU_ROW] = 0
                    S[u + RU_COL] = 0
                flags |= BUSY
    elif slot >= 0 and is_done(S, slot):
        if not ready(S, out, c):
            return BLOCKED
        push_done(S, V, LOG, out, c)
        take(S, LOG, source, c)
        return BUSY
    if change == 1:
        S[u + RU_COUNT] += 1
        wake(S, S[u + U_ID], c + 1)
    elif change:
        S[S[u + RU_BANDS] + S[u + RU_HEAD] * BAND_WORDS + RB_END] = change >> 1
        wake(S, S[u + U_ID], c + 1)
    return BUSY if flags & BUSY else flags


RA_PLACED = U_OWN


@fast
def row_append(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    rows_from = S[S[u + U_IN] + 1]
    out = S[S[u + U_OUT]]
    t = S[G_T]
    x = head(S, source, c)
    if x < 0:
        return 0
    y = head(S, rows_from, c)
    s = S[x + X_STOP]
    rows = S[x + X_META]
    cols = S[x + X_META + 1]
    bare = not S[x + X_DATA]
    takes = not bare and not S[u + RA_PLACED] and rows < t
    if (takes or bare) and y < 0:
        return 0
    if (bare and (S[y + X_DATA] or S[y + X_STOP] != s)) or (
        takes and (not S[y + X_DATA] or (S[y + X_STOP] > 0) != (s > 0))
    ):
        fail(S, FAULT_STOP, u, c)
        return 0
    if not bare and not takes and not S[u + RA_PLACED] and s >= 2:
        fail(S, FAULT_ROWS, u, c)
        return 0
    if not ready(S, out, c):
        return BLOCKED
    if takes:
        slot = push(S, out, c, s, 1)
        S[slot + X_META], S[slot + X_META + 1] = rows + 1, max(cols, S[y + X_META + 1])
        copy_values(S, V, S[x + X_VALUE], S[slot + X_VALUE], t * t)
        copy_values(S, V, S[y + X_VALUE], S[slot + X_VALUE] + rows * t, t)
        commit(S, V, LOG, out, slot, c)
    else:
        forward(S, V, LOG, x, out, c, s)
    if takes or bare:
        take(S, LOG, rows_from, c)
    if not bare:
        S[u + RA_PLACED] = 1 if s < 2 and (S[u + RA_PLACED] or (takes and s == 1)) else 0
    take(S, LOG, source, c)
    return BUSY


RO_BAND = U_OWN


@fast
def row_offset(S, V, LOG, u, c):
    source = S[S[u + U_IN]]
    counts = S[S[u + U_IN] + 1]
    out = S[S[u + U_OUT]]
    t = S[G_T]
    x = head(S, source, c)
    y = head(S, counts, c)
    if x < 0 or y < 0:
        return 0
    s = S[x + X_STOP]
    data = S[x + X_DATA]
    ends = s >= 2
    if ends and (data != S[y + X_DATA] or s != S[y + X_STOP] + (0 if is_done(S, x) else 2)):
        fail(S, FAULT_STOP, u, c)
        return 0
    if not ready(S, out, c):
        return BLOCKED
    slot = push(S, out, c, s, data)
    if data:
        rows = min(S[x + X_META], max(S[y + X_META] - S[u + RO_BAND] * t, 0))
        S[slot + X_META], S[slot + X_META + 1] = rows, S[x + X_META + 1]
        copy_values(S, V, S[x + X_VALUE], S[slot + X_VALUE], t * t)
        if S[G_VALUES]:
            mask_tile(S, V, S[slot + X_VALUE], rows, S[x + X_META + 1])
    commit(S, V, LOG, out, slot, c)
    S[u + RO_BAND] = 0 if ends else S[u + RO_BAND] + (1 if s == 1 else 0)
    take(S, LOG, source, c)
    if ends:
        take(S, LOG, counts, c)
    return BUSY
