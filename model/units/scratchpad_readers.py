"""Readers of a `scratchpad` (docs/timing.md section 4)."""

from __future__ import annotations

import numpy as np

from ...machine.beat import STOP_DONE
from ..records import fast, table
from .scratchpad_state import ABSENTS, COUNT_BITS, ENDED, TILES, Absent, Frame, Loop, Reader, unpack
from .state import (
    ACTIVE,
    BLOCKED,
    BUSY,
    FAULT_ADDRESS,
    FAULT_STOP,
    Beat,
    Channel,
    count_references,
    fail,
    head,
    is_done,
    push_bare,
    push_entry,
    push_pair,
    push_tile,
    ready,
    source,
    take,
    target,
    visible,
    wake,
)
from .tiles import copy_values


@fast
def token_of(net, r):
    """The head of the stream that drives a reader."""
    return head(net, Channel(net, r.tokens, 0))


@fast
def token_visible(net, r, c):
    return r.ref < 0 or visible(net, Channel(net, r.tokens, 0), c)


@fast
def reader_port(net, u, r, i, settled, c):
    """A reader's request or Done, judged on the start of the cycle, and its queues of tiles."""
    queued = r.queued
    away = r.away
    rest = r.rest
    flags = 0
    if queued:
        flags = deliver_tile(net, r, target(net, u, u.n_writers + i), c)
    if u.spill:
        flags |= fetched_tile(net, u, r, i, queued, c)
    token = token_visible(net, r, c)
    ended = r.ref < 0 or (token and is_done(token_of(net, r)))
    if r.holds:
        r.asks = queued < TILES and token and (r.ref < 0 or not ended)
        if u.spill:
            if r.drains:
                r.asks = away == 0 and not rest
            elif r.asks and is_away(net, u, r):
                fetch = target(net, u, u.spill_outs + 2 + i)
                r.asks = settled and away < ABSENTS and ready(fetch, c)
            else:
                r.asks = r.asks and away == 0
        return flags
    r.asks = 0
    channel = source(net, u, u.n_writers + i)
    if not visible(net, channel, c):
        return flags
    if not is_done(head(net, channel)):
        start_read(net, r, channel, c)
        return flags | BUSY
    if queued or not ended:
        return flags
    entry = Beat(net, r.queue, r.at)
    entry.due = c + 1
    entry.stop = STOP_DONE
    entry.data = 0
    r.queued = 1
    r.list_at = 0
    take(net, channel, c)
    if r.ref >= 0:
        take(net, Channel(net, r.tokens, 0), c)
    return flags | BUSY | ENDED


@fast
def deliver_tile(net, r, out, c):
    """The first tile of the queue leaves."""
    entry = Beat(net, r.queue, r.at)
    if entry.due > c:
        return 0
    if not ready(out, c):
        return BLOCKED
    push_entry(net, out, c, entry)
    r.at = (r.at + 1) & (TILES - 1)
    r.queued -= 1
    return BUSY


@fast
def start_read(net, r, channel, c):
    """Take a reference, or a beat without one."""
    reference = head(net, channel)
    take(net, channel, c)
    r.holds = 1
    r.stop = reference.stop
    r.first = -1
    if not reference.data:
        return
    if r.list_length:
        r.turns = table(net, r.list)[r.list_at]
        r.list_at = (r.list_at + 1) % r.list_length
    r.first = reference.page
    r.tiles = reference.tiles
    if r.ordered:
        table(net, r.pages)[0] = r.first
        r.known = 1
    else:
        r.span = r.tiles
    r.turn = 0
    start_pass(r)


@fast
def start_pass(r):
    r.page = r.first
    r.frame = 0
    r.left = r.span


@fast
def read(net, u, c):
    """Rule 3: one reader a cycle, round robin."""
    i = u.read_turn - 1
    for _ in range(u.n_readers):
        i = i + 1 if i + 1 < u.n_readers else 0
        r = Reader(net, u.readers, i)
        if r.asks:
            u.read_turn = i + 1 if i + 1 < u.n_readers else 0
            if r.drains:
                return release(net, u, r, source(net, u, u.n_writers + i), c)
            if learns(u, r):
                learn_page(net, u, r)
                return ACTIVE
            return serve(net, u, r, i, source(net, u, u.n_writers + i), c)
    return 0


@fast
def learns(u, r):
    """True if the reader's table lacks a page of its buffer."""
    more = r.ordered and r.first >= 0 and r.known * u.frames < r.tiles
    return more and r.known < u.n_pages


@fast
def release(net, u, r, channel, c):
    """The buffer's reference is given up, and the next one taken."""
    r.drains = 0
    if r.first >= 0:
        count_references(net, u.counts, r.first, -1)
    r.holds = 0
    if visible(net, channel, c) and not is_done(head(net, channel)):
        start_read(net, r, channel, c)
        return BUSY
    return ACTIVE


# ---- tiles off-chip (rule 11)


@fast
def next_tile(net, r):
    """Number of the next tile of the buffer."""
    if not r.ordered:
        return r.span - r.left
    if not r.n_loops:
        return table(net, r.order)[2 * (r.span - r.left)]
    return r.tile


@fast
def is_away(net, u, r):
    """True if the next tile is off-chip, and the reader knows its pages."""
    bare = r.first < 0 or (r.ref >= 0 and not token_of(net, r).data)
    return not bare and not learns(u, r) and next_tile(net, r) >= u.n_pages * u.frames


@fast
def ask_block(net, u, r, i, c):
    """Ask for the block of the next tile, unless the one before did."""
    number = next_tile(net, r) - u.n_pages * u.frames
    if not r.ordered and number % u.block:
        return ACTIVE
    push_pair(net, target(net, u, u.spill_outs + 2 + i), c, 0, number // u.block, 0)
    return BUSY


@fast
def fetch_tile(net, u, r, c):
    """Queue a tile off-chip; returns its stop within the pass."""
    tile = next_tile(net, r)
    at = (tile - u.n_pages * u.frames) % u.block
    absent = Absent(net, r.absent, (r.absent_at + r.away) & (ABSENTS - 1))
    absent.due = c + 2
    absent.about = Frame(net, u.tiles, tile).about
    absent.at = at
    absent.last = r.ordered or at == u.block - 1 or r.left == 1
    r.away += 1
    return step_on(net, r, absent.about & 15)


@fast
def fetched_tile(net, u, r, i, queued, c):
    """Send the tile from off-chip that is at the head of the queue; drop those not asked for."""
    channel = source(net, u, u.spill_ins + 1 + i)
    if not visible(net, channel, c):
        return 0
    beat = head(net, channel)
    absent = Absent(net, r.absent, r.absent_at)
    mine = r.away > 0 and absent.due <= c and not r.rest
    if not r.rest:
        if not mine:
            return 0
        if absent.at == r.place:
            if queued:
                return 0
            out = target(net, u, u.n_writers + i)
            if not ready(out, c):
                return BLOCKED
            about = absent.about
            rows = about >> 5 & ((1 << COUNT_BITS) - 1)
            if about >> 4 & 1:
                cols = about >> (5 + COUNT_BITS)
                push_tile(net, out, c, absent.stop, rows, cols, beat.value)
            else:
                push_bare(net, out, c, absent.stop)
            r.rest = absent.last
            r.absent_at = (r.absent_at + 1) & (ABSENTS - 1)
            r.away -= 1
    take(net, channel, c)
    r.place += 1
    if r.place == u.block:
        r.place = 0
        r.rest = 0
    return BUSY


@fast
def learn_page(net, u, r):
    """Rules 8 and 10: the next page of the buffer into the reader's table."""
    r.page = table(net, u.following)[r.page]
    table(net, r.pages)[r.known] = r.page
    r.known += 1


@fast
def serve(net, u, r, i, channel, c):
    """Put a tile, or a beat without data, into one of the reader's queues."""
    entry = Beat(net, r.queue, (r.at + r.queued) & (TILES - 1))
    entry.due = c + 2
    entry.data = 0
    bare = r.first < 0 or (r.ref >= 0 and not token_of(net, r).data)
    stop = np.int64(0)
    flags = ACTIVE
    away = u.spill > 0 and is_away(net, u, r)
    if away:
        if next_tile(net, r) >= r.tiles:
            fail(net, u, FAULT_ADDRESS, c)
            return 0
        flags = ask_block(net, u, r, i, c)
        stop = fetch_tile(net, u, r, c)
    elif not bare:
        at = place(net, u, r)
        if at < 0:
            fail(net, u, FAULT_ADDRESS, c)
            return 0
        stop = read_tile(net, u, r, entry, at)
    if bare or r.left == 0:
        last, stop = pass_end(net, u, r, c)
        if r.ref >= 0:
            take(net, Channel(net, r.tokens, 0), c)
            flags |= BUSY
        if not last:
            r.turn += 1
            start_pass(r)
        elif u.spill and r.first >= 0 and r.tiles > u.n_pages * u.frames:
            r.drains = 1
        else:
            flags |= release(net, u, r, channel, c)
    elif r.frame == u.frames and not r.ordered:
        r.page = table(net, u.following)[r.page]
        r.frame = 0
    wake(net, u.id, c + 2)
    if away:
        last_one = (r.absent_at + r.away - 1) & (ABSENTS - 1)
        Absent(net, r.absent, last_one).stop = stop
        return flags
    entry.stop = stop
    r.queued += 1
    return flags


@fast
def place(net, u, r):
    """Place of the next tile; -1: outside of the buffer."""
    if not r.ordered:
        return r.page * u.frames + r.frame
    if not r.n_loops:
        r.tile = table(net, r.order)[2 * (r.span - r.left)]
    if r.tile >= r.tiles:
        return np.int64(-1)
    return table(net, r.pages)[r.tile // u.frames] * u.frames + r.tile % u.frames


@fast
def read_tile(net, u, r, entry, at):
    """The tile at a place into an entry; returns its stop within the pass."""
    stop = unpack(Frame(net, u.tiles, at).about, entry)
    size = net.t * net.t
    copy_values(net, u.value + at * size, entry.value, size)
    return step_on(net, r, stop)


@fast
def step_on(net, r, stop):
    """Advance to the next tile of the pass; returns the stop of this one within it."""
    r.left -= 1
    r.frame += 1
    if r.n_loops:
        return next_point(net, r)
    if r.ordered:
        return table(net, r.order)[2 * (r.span - r.left) - 1]
    return stop


@fast
def next_point(net, r):
    """Rule 8: to the next point of the loop nest; returns how many dimensions end."""
    ends = np.int64(0)
    for d in range(r.n_loops - 1, -1, -1):
        loop = Loop(net, r.loops, d)
        loop.index += 1
        r.tile += loop.stride
        if loop.index < loop.trips:
            break
        loop.index = 0
        r.tile -= loop.trips * loop.stride
        ends += 1
    return ends


@fast
def pass_end(net, u, r, c):
    """Rules 4 and 7: whether a pass is the buffer's last one, and the stop with which it ends."""
    if r.ref < 0:
        last = r.first < 0 or r.turn + 1 >= r.turns
        return last, r.rank + (r.stop + r.is_dimension if last else 0)
    stop = token_of(net, r).stop
    last = stop >= r.ref
    if last and stop != r.ref + r.stop:
        fail(net, u, FAULT_STOP, c)
    return last, stop + r.rank
