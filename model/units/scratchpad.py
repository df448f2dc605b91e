"""`scratchpad`: pages, free list, writers and readers (docs/timing.md section 4)."""

from __future__ import annotations

from .state import *

(
    M_FRAMES,
    M_NW,
    M_NR,
    M_FREE,
    M_FREE_COUNT,
    M_WRITE_TURN,
    M_READ_TURN,
    M_NEXT,
    M_REFS,
    M_LAST_PAGE,
    M_TILE,
    M_VALUE,
    M_USED,
    M_PEAK,
    M_WRITERS,
    M_READERS,
    M_PAGES,
    M_OWNER,
) = range(U_OWN, U_OWN + 18)  # M_OWNER: the writer of the buffer that begins with a page
(
    W_RANK,
    W_FIRST,
    W_PAGE,
    W_FILL,
    W_COUNT,
    W_HEAD,
    W_QUEUED,
    W_ASKS,
    W_LAST,
    W_LIMIT,
    W_HELD,
    W_QUEUE,
) = range(12)  # buffers it may hold, and holds; queue: 2 x (from cycle, stop, data, page, tiles)
WRITER_WORDS = 22
(
    Z_RANK,
    Z_REPEAT,
    Z_HOLDS,
    Z_FIRST,
    Z_PAGE,
    Z_FRAME,
    Z_LEFT,
    Z_TILES,
    Z_TURN,
    Z_STOP,
    Z_HEAD,
    Z_QUEUED,
    Z_ASKS,
    Z_TURNS,
    Z_TURNS_COUNT,
    Z_TURNS_AT,
    Z_REF,
    Z_TOKENS,
    Z_AFFINE,
    Z_LOOPS,
    Z_TABLE,
    Z_KNOWN,
    Z_AT,
    Z_SPAN,
    Z_DIMENSION,
    Z_QUEUE,
) = range(
    26
    # Z_REF: level of the stream that drives the reads, or -1, Z_TOKENS its channel; Z_SPAN: tiles
    # of a
    # pass; Z_DIMENSION: whether the repeats are one; queue: 4 x ENTRY
)
READER_WORDS = 50
LOOP_WORDS = 3  # trips, stride, index
FRAME = 4  # words of a stored tile: stop, data, rows, cols
REF_QUEUE = 2
TILE_QUEUE = 4


@fast
def start_read(S, LOG, z, channel, slot, c):
    S[z + Z_HOLDS] = 1
    if not S[slot + X_DATA]:  # groups without a buffer
        S[z + Z_FIRST], S[z + Z_STOP] = -1, S[slot + X_STOP]
        take(S, LOG, channel, c)
        return
    if S[z + Z_TURNS_COUNT]:
        S[z + Z_REPEAT] = S[S[z + Z_TURNS] + S[z + Z_TURNS_AT]]
        S[z + Z_TURNS_AT] = (S[z + Z_TURNS_AT] + 1) % S[z + Z_TURNS_COUNT]
    S[z + Z_FIRST], S[z + Z_TILES], S[z + Z_STOP] = (
        S[slot + X_META],
        S[slot + X_META + 1],
        S[slot + X_STOP],
    )
    if S[z + Z_AFFINE]:
        S[S[z + Z_TABLE]] = S[z + Z_FIRST]
        S[z + Z_KNOWN] = 1
    else:
        S[z + Z_SPAN] = S[z + Z_TILES]
    S[z + Z_PAGE], S[z + Z_FRAME], S[z + Z_LEFT], S[z + Z_TURN] = (
        S[z + Z_FIRST],
        0,
        S[z + Z_SPAN],
        0,
    )
    take(S, LOG, channel, c)


@fast
def next_point(S, z):
    """To the next point of an affine reader's loop nest; returns how many dimensions end."""
    ends = 0
    d = S[z + Z_AFFINE] - 1
    while d >= 0:
        loop = S[z + Z_LOOPS] + d * LOOP_WORDS
        S[loop + 2] += 1
        S[z + Z_AT] += S[loop + 1]
        if S[loop + 2] < S[loop]:
            break
        S[loop + 2] = 0
        S[z + Z_AT] -= S[loop] * S[loop + 1]
        ends += 1
        d -= 1
    return ends


@fast
def free_lowest(S, u, counts, c):
    """Splice the lowest buffer without a reference into the free list; whether others wait."""
    lowest = -1
    others = 0
    first = 0
    last = S[u + M_PAGES]
    if S[counts + COUNTS_ZERO] == 1:
        first = S[counts + COUNTS_PAGE]
        last = first + 1
    for page in range(first, last):
        at = counts + COUNTS_WORDS + 2 * page
        if S[at + 1] < 0:
            continue
        if S[at] > 0:
            S[at + 1] = -1  # another change of the same cycle
        elif S[at + 1] == c or lowest >= 0:
            others += 1
            S[counts + COUNTS_PAGE] = page
        else:
            lowest = page
    S[counts + COUNTS_ZERO] = others
    if lowest >= 0:
        following = S[u + M_NEXT]
        last = lowest
        n = 1
        while last != S[S[u + M_LAST_PAGE] + lowest]:
            last = S[following + last]
            n += 1
        S[following + last] = S[u + M_FREE]
        S[u + M_FREE] = lowest
        S[u + M_FREE_COUNT] += n
        S[u + M_USED] -= n
        S[S[S[u + M_OWNER] + lowest] + W_HELD] -= 1
        S[counts + COUNTS_WORDS + 2 * lowest + 1] = -1
    return others


@fast
def scratchpad(S, V, LOG, u, c):
    flags = 0
    blocked = False
    size = S[G_T] * S[G_T]
    frames = S[u + M_FRAMES]
    following = S[u + M_NEXT]
    counts = S[u + M_REFS]
    if S[counts + COUNTS_ZERO]:  # posts of earlier cycles
        if free_lowest(S, u, counts, c):
            flags = ACTIVE
    free = S[u + M_FREE_COUNT]
    # Writers: requests and Done on the levels at the start of the cycle, then the reference queues.
    nw = S[u + M_NW]
    ended = False
    for i in range(nw):
        w = S[u + M_WRITERS] + i * WRITER_WORDS
        channel = S[S[u + U_IN] + i]
        out = S[S[u + U_OUT] + i]
        queued = S[w + W_QUEUED]
        first = S[w + W_HEAD]
        S[w + W_ASKS] = 0
        slot = head(S, channel, c)
        if slot >= 0:
            s = S[slot + X_STOP]
            if not is_done(S, slot) and (
                S[slot + X_DATA] or s <= S[w + W_RANK] or S[w + W_LAST] <= S[w + W_RANK]
            ):
                if (
                    S[w + W_FILL] < frames or free > 0
                    if S[w + W_FIRST] >= 0
                    else free > 0 and S[w + W_HELD] < S[w + W_LIMIT]
                ) and (S[slot + X_STOP] < S[w + W_RANK] or queued < REF_QUEUE):
                    S[w + W_ASKS] = 1
            elif queued == 0:
                e = w + W_QUEUE + first * 5
                S[e], S[e + 1], S[e + 2] = c + 1, s if is_done(S, slot) else s - S[w + W_RANK], 0
                S[w + W_QUEUED] = 1
                S[w + W_LAST] = s
                ended |= is_done(S, slot)
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
                    commit(S, V, LOG, out, push(S, out, c, S[e + 1], 0), c)
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
                S[w + W_FIRST] = page
                S[w + W_COUNT] = 0
                S[w + W_HELD] += 1
            else:
                S[following + S[w + W_PAGE]] = page
            S[w + W_PAGE] = page
            S[w + W_FILL] = 0
        at = S[w + W_PAGE] * frames + S[w + W_FILL]
        m = S[u + M_TILE] + FRAME * at
        S[m], S[m + 1], S[m + 2], S[m + 3] = (
            S[slot + X_STOP],
            S[slot + X_DATA],
            S[slot + X_META],
            S[slot + X_META + 1],
        )
        S[w + W_LAST] = S[slot + X_STOP]
        copy_values(S, V, S[slot + X_VALUE], S[u + M_VALUE] + at * size, size)
        S[w + W_FILL] += 1
        S[w + W_COUNT] += 1
        if S[w + W_COUNT] >= 1 << 16:
            fail(S, FAULT_REFERENCES, u, c)
        if S[slot + X_STOP] >= S[w + W_RANK]:
            first = S[w + W_FIRST]
            e = w + W_QUEUE + ((S[w + W_HEAD] + S[w + W_QUEUED]) & 1) * 5
            S[e], S[e + 1], S[e + 2], S[e + 3], S[e + 4] = (
                c + 1,
                S[slot + X_STOP] - S[w + W_RANK],
                1,
                first,
                S[w + W_COUNT],
            )
            S[w + W_QUEUED] += 1
            S[counts + COUNTS_WORDS + 2 * first] = 1
            S[S[u + M_LAST_PAGE] + first] = S[w + W_PAGE]
            S[S[u + M_OWNER] + first] = w
            S[w + W_FIRST] = -1
        take(S, LOG, channel, c)
        flags |= BUSY
        break
    if ended:
        S[u + M_WRITE_TURN] = 0
    # Readers.
    nr = S[u + M_NR]
    ended = False
    for i in range(nr):
        z = S[u + M_READERS] + i * READER_WORDS
        channel = S[S[u + U_IN] + nw + i]
        out = S[S[u + U_OUT] + nw + i]
        queued = S[z + Z_QUEUED]
        first = S[z + Z_HEAD]
        token = 0
        if S[z + Z_REF] >= 0:
            token = head(S, S[z + Z_TOKENS], c)
        S[z + Z_ASKS] = (
            1
            if S[z + Z_HOLDS]
            and queued < TILE_QUEUE
            and (S[z + Z_REF] < 0 or (token >= 0 and not is_done(S, token)))
            else 0
        )
        if not S[z + Z_HOLDS]:
            slot = head(S, channel, c)
            if slot >= 0:
                if not is_done(S, slot):
                    start_read(S, LOG, z, channel, slot, c)
                    flags |= BUSY
                elif queued == 0 and (S[z + Z_REF] < 0 or (token >= 0 and is_done(S, token))):
                    e = z + Z_QUEUE + first * ENTRY
                    S[e] = c + 1
                    S[e + X_STOP] = STOP_DONE
                    S[e + X_DATA] = 0
                    S[z + Z_QUEUED] = 1
                    S[z + Z_TURNS_AT] = 0
                    ended = True
                    take(S, LOG, channel, c)
                    if S[z + Z_REF] >= 0:
                        take(S, LOG, S[z + Z_TOKENS], c)
                    flags |= BUSY
        if queued:
            e = z + Z_QUEUE + first * ENTRY
            if S[e] <= c:
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
        hollow = S[z + Z_FIRST] < 0
        token = 0
        if S[z + Z_REF] >= 0:
            token = head(S, S[z + Z_TOKENS], c)
        nothing = hollow or (S[z + Z_REF] >= 0 and not S[token + X_DATA])
        if S[z + Z_AFFINE] and not hollow and S[z + Z_KNOWN] * frames < S[z + Z_TILES]:
            S[z + Z_PAGE] = S[following + S[z + Z_PAGE]]
            S[S[z + Z_TABLE] + S[z + Z_KNOWN]] = S[z + Z_PAGE]
            S[z + Z_KNOWN] += 1
            flags |= ACTIVE
            break
        e = z + Z_QUEUE + ((S[z + Z_HEAD] + S[z + Z_QUEUED]) & (TILE_QUEUE - 1)) * ENTRY
        S[e] = c + 2
        S[e + X_DATA] = 0
        stop = 0
        if not nothing:
            at = S[z + Z_PAGE] * frames + S[z + Z_FRAME]
            if S[z + Z_AFFINE]:
                at = S[z + Z_AT]
                if at >= S[z + Z_TILES]:
                    fail(S, FAULT_ADDRESS, u, at)
                    break
                at = S[S[z + Z_TABLE] + at // frames] * frames + at % frames
            m = S[u + M_TILE] + FRAME * at
            stop, S[e + X_DATA], S[e + X_META], S[e + X_META + 1] = (
                S[m],
                S[m + 1],
                S[m + 2],
                S[m + 3],
            )
            copy_values(S, V, S[u + M_VALUE] + at * size, S[e + X_VALUE], size)
            S[z + Z_LEFT] -= 1
            S[z + Z_FRAME] += 1
            if S[z + Z_AFFINE]:
                stop = next_point(S, z)
        if nothing or S[z + Z_LEFT] == 0:
            if S[z + Z_REF] >= 0:
                stop = S[token + X_STOP]
                last_turn = stop >= S[z + Z_REF]
                if last_turn and stop != S[z + Z_REF] + S[z + Z_STOP]:
                    fail(S, FAULT_STOP, u, c)
                stop += S[z + Z_RANK]
                take(S, LOG, S[z + Z_TOKENS], c)
                flags |= BUSY
            else:
                turns = S[z + Z_REPEAT]
                stop = S[z + Z_RANK]
                last_turn = hollow or S[z + Z_TURN] + 1 >= turns
                if last_turn:
                    stop += S[z + Z_STOP] + S[z + Z_DIMENSION]
            if last_turn:
                first = S[z + Z_FIRST]
                if first >= 0:
                    post(S, counts, first, -1)
                S[z + Z_HOLDS] = 0
                channel = S[S[u + U_IN] + nw + i]
                slot = head(S, channel, c)
                if slot >= 0 and not is_done(S, slot):
                    start_read(S, LOG, z, channel, slot, c)
                    flags |= BUSY
            else:
                S[z + Z_TURN] += 1
                S[z + Z_PAGE], S[z + Z_FRAME], S[z + Z_LEFT] = S[z + Z_FIRST], 0, S[z + Z_SPAN]
        elif S[z + Z_FRAME] == frames and not S[z + Z_AFFINE]:
            S[z + Z_PAGE] = S[following + S[z + Z_PAGE]]
            S[z + Z_FRAME] = 0
        S[e + X_STOP] = stop
        S[z + Z_QUEUED] += 1
        wake(S, S[u + U_ID], c + 2)
        flags |= ACTIVE
        break
    if ended:
        S[u + M_READ_TURN] = 0
    return flags | BLOCKED if blocked and not flags & BUSY else flags
