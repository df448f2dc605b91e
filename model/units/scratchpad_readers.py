"""Readers of a `scratchpad` (docs/timing.md section 4)."""

from __future__ import annotations

import numpy as np

from ...machine.beat import STOP_DONE
from ..records import fast, table
from .scratchpad_state import ENDED, TILES, Frame, Loop, Reader, unpack
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
    push_entry,
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
def reader_port(net, u, r, i, c):
    """A reader's request or Done, judged on the start of the cycle, and its queue of tiles."""
    queued = r.queued
    flags = 0
    if queued:
        flags = deliver_tile(net, r, target(net, u, u.n_writers + i), c)
    token = token_visible(net, r, c)
    ended = r.ref < 0 or (token and is_done(token_of(net, r)))
    if r.holds:
        r.asks = queued < TILES and token and (r.ref < 0 or not ended)
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
    """Take a reference, or what stands for none."""
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
            if r.ordered and r.first >= 0 and r.known * u.frames < r.tiles:
                learn_page(net, u, r)
                return ACTIVE
            return serve(net, u, r, source(net, u, u.n_writers + i), c)
    return 0


@fast
def learn_page(net, u, r):
    """Rules 8 and 10: the next page of the buffer into the reader's table."""
    r.page = table(net, u.following)[r.page]
    table(net, r.pages)[r.known] = r.page
    r.known += 1


@fast
def serve(net, u, r, channel, c):
    """A tile, or what stands for none, into the reader's queue."""
    entry = Beat(net, r.queue, (r.at + r.queued) & (TILES - 1))
    entry.due = c + 2
    entry.data = 0
    bare = r.first < 0 or (r.ref >= 0 and not token_of(net, r).data)
    stop = np.int64(0)
    if not bare:
        at = place(net, u, r)
        if at < 0:
            fail(net, u, FAULT_ADDRESS, r.tile)
            return 0
        stop = read_tile(net, u, r, entry, at)
    flags = ACTIVE
    if bare or r.left == 0:
        last, stop = pass_end(net, u, r, c)
        if r.ref >= 0:
            take(net, Channel(net, r.tokens, 0), c)
            flags |= BUSY
        if not last:
            r.turn += 1
            start_pass(r)
        else:
            if r.first >= 0:
                count_references(net, u.counts, r.first, -1)
            r.holds = 0
            if visible(net, channel, c) and not is_done(head(net, channel)):
                start_read(net, r, channel, c)
                flags |= BUSY
    elif r.frame == u.frames and not r.ordered:
        r.page = table(net, u.following)[r.page]
        r.frame = 0
    entry.stop = stop
    r.queued += 1
    wake(net, u.id, c + 2)
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
