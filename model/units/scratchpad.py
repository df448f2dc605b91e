"""`scratchpad`: pages, free list, writers and readers (docs/timing.md section 4)."""

from __future__ import annotations

import math

import numpy as np

from ...machine import beat as beats
from ...machine.beat import STOP_DONE
from ...machine.limits import PAGES_BITS
from ..records import fast, record, table
from .state import (
    ACTIVE,
    BLOCKED,
    BUSY,
    FAULT_ADDRESS,
    FAULT_REFERENCES,
    FAULT_STOP,
    Beat,
    Channel,
    Count,
    Counts,
    acts,
    copy_values,
    count_references,
    fail,
    head,
    is_done,
    push_bare,
    push_entry,
    push_pair,
    ready,
    source,
    take,
    target,
    unit,
    visible,
    wake,
)

ENDED = 8
"""A flag of a port: it took its Done."""

REFERENCES = 2
"""Entries of a writer's queue of references."""
TILES = 4
"""Entries of a reader's queue of tiles."""


COUNT_BITS = 16
"""Bits of a stored tile's rows and of its columns."""


@record
class Frame:
    """A stored tile: its columns, rows, data and stop in one word, as large buffers do not fit into
    a processor's cache.
    """

    about: int


@fast
def packed(beat):
    """A tile's beat without its values."""
    counts = beat.cols << COUNT_BITS | beat.rows
    return counts << 5 | beat.data << 4 | beat.stop


@fast
def unpack(about, entry):
    """The reverse; the stop is for the caller."""
    entry.data = about >> 4 & 1
    entry.rows = about >> 5 & ((1 << COUNT_BITS) - 1)
    entry.cols = about >> (5 + COUNT_BITS)
    return about & 15


@record
class Writer:
    """A writer: the buffer that it fills, and the references that are to leave."""

    rank: int  # of a buffer
    limit: int  # buffers it may hold, and holds
    holds: int
    first: int  # first page of the open buffer, or -1
    page: int  # its last one
    fill: int  # frames of that
    count: int  # tiles of the buffer
    before: int  # stop of the beat before
    asks: int
    queue: int  # `Beat`s
    at: int
    queued: int


@record
class Loop:
    """A loop dimension of affine reads."""

    trips: int
    stride: int
    index: int


@record
class Reader:
    """A reader: the buffer that it reads, and the tiles that are to leave."""

    rank: int
    turns: int  # how often it reads a buffer; 0: there is no such dimension
    is_dimension: int  # whether these are one
    list: int  # the turns of one buffer after the other, where they differ
    list_length: int
    list_at: int
    ref: int  # level of the stream that drives the reads, or -1
    tokens: int  # its channel
    ordered: int  # whether tiles are read in an order of their own
    n_loops: int  # of affine reads, the loops
    loops: int
    order: int  # of listed reads, tile and stop of each beat of a pass
    pages: int  # of such reads, the pages of the buffer, as far as known
    known: int
    holds: int  # a reference
    first: int  # its page; -1: none, groups without a buffer
    tiles: int
    stop: int
    span: int  # tiles of a pass
    turn: int
    left: int  # tiles of this pass
    page: int  # the next tile, where reads are not affine
    frame: int
    tile: int  # the next tile, where they are
    asks: int
    queue: int  # `Beat`s
    at: int
    queued: int


@unit
class Scratchpad:
    """State of a `scratchpad`."""

    n_pages: int
    frames: int  # of a page
    free: int  # first of the free pages
    n_free: int
    following: int  # page after each page: of its buffer, or free
    last_pages: int  # of the buffer that begins with a page: its last one
    owners: int  # and the writer that made it
    counts: int
    used: int  # pages in use, and most of them
    peak: int
    tiles: int  # `Frame`s
    value: int
    writers: int
    n_writers: int
    write_turn: int
    readers: int
    n_readers: int
    read_turn: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        tiles = p.pages * p.frames
        return {
            "n_pages": p.pages,
            "frames": p.frames,
            "n_free": p.pages,
            "following": layout.put(np.append(np.arange(1, p.pages), 0)),
            "last_pages": layout.alloc(p.pages),
            "owners": layout.alloc(p.pages),
            "counts": layout.counts[u.id],
            "tiles": layout.alloc(tiles * Frame.words),
            "value": layout.alloc_values(tiles * layout.graph.t**2),
            "writers": layout.records(Writer, _begin_writers(layout, p)),
            "n_writers": len(p.writers),
            "readers": layout.records(Reader, _begin_readers(layout, u)),
            "n_readers": len(p.readers),
        }


def _begin_writers(layout, p) -> list[dict]:
    return [
        {
            "rank": w["rank"],
            "limit": limit,
            "first": -1,
            "before": STOP_DONE,
            "queue": layout.alloc(REFERENCES * Beat.words),
        }
        for w, limit in zip(p.writers, p.limit, strict=True)
    ]


def _begin_readers(layout, u) -> list[dict]:
    p = u.kind
    ports = len(p.writers) + len(p.readers)
    tokens = iter(layout.graph.inputs(u.id)[ports:])
    shapes = iter(p.shape)
    strides = iter(p.stride)
    readers = []
    for i, r in enumerate(p.readers):
        turns = r.get("turns") or []
        loops = [(next(shapes), next(strides), 0) for _ in range(r.get("affine") or 0)]
        listed = r.get("listed") or []
        ordered = bool(loops or listed)
        readers.append(
            {
                "rank": r["rank"],
                "turns": p.repeat[i] if r["repeat_dim"] else 0,
                "is_dimension": bool(r["repeat_dim"]),
                "list": layout.put(turns),
                "list_length": len(turns),
                "ref": r.get("ref", -1),
                "tokens": layout.channel_at(next(tokens).id) if "ref" in r else 0,
                "ordered": ordered,
                "n_loops": len(loops),
                "loops": layout.put([x for loop in loops for x in loop]),
                "order": layout.put([x for entry in listed for x in entry]),
                "pages": layout.alloc(p.pages if ordered else 0),
                "span": len(listed) or math.prod(trips for trips, _, _ in loops),
                "queue": layout.beats(beats.Tile(layout.graph.t, "fp32"), TILES),
            }
        )
    return readers


@acts(Scratchpad, "scratchpad")
def scratchpad(net, u, c):
    flags = ACTIVE if free_lowest(net, u, c) else 0
    n_free = u.n_free
    for i in range(u.n_writers):
        flags |= writer_port(net, u, Writer(net, u.writers, i), i, n_free, c)
    flags |= write(net, u, c)
    if flags & ENDED:
        u.write_turn = 0
    ended = 0
    for i in range(u.n_readers):
        port = reader_port(net, u, Reader(net, u.readers, i), i, c)
        ended |= port & ENDED
        flags |= port
    flags |= read(net, u, c)
    if ended:
        u.read_turn = 0
    return flags


# ---- free pages (rules 5 and 9)


@fast
def free_lowest(net, u, c):
    """Splice the lowest buffer without a reference into the free list; whether others wait."""
    counts = Counts(net, u.counts, 0)
    if not counts.zeros:
        return False
    lowest = -1
    others = 0
    first = 0
    end = u.n_pages
    if counts.zeros == 1:
        first = counts.page
        end = first + 1
    for page in range(first, end):
        count = Count(net, counts.pages, page)
        if count.zero_at < 0:
            continue
        if count.references > 0:
            count.zero_at = -1  # another change of the same cycle
        elif count.zero_at == c or lowest >= 0:
            others += 1
            counts.page = page
        else:
            lowest = page
    counts.zeros = others
    if lowest >= 0:
        Count(net, counts.pages, lowest).zero_at = -1
        free_buffer(net, u, lowest)
    return others > 0


@fast
def free_buffer(net, u, first):
    """The pages of a buffer become the first ones of the free list."""
    following = table(net, u.following)
    last = table(net, u.last_pages)[first]
    page = first
    n = 1
    while page != last:
        page = following[page]
        n += 1
    following[last] = u.free
    u.free = first
    u.n_free += n
    u.used -= n
    Writer(net, u.writers, table(net, u.owners)[first]).holds -= 1


@fast
def new_page(net, u):
    """Take the first free page."""
    page = u.free
    u.free = table(net, u.following)[page]
    u.n_free -= 1
    u.used += 1
    u.peak = max(u.peak, u.used)
    return page


# ---- writers (rules 1, 2 and 6)


@fast
def writer_port(net, u, w, i, n_free, c):
    """A writer's request or Done, judged on the start of the cycle, and its queue of references."""
    queued = w.queued
    flags = 0
    if queued:
        out = target(net, u, i)
        entry = Beat(net, w.queue, w.at)
        if not ready(out, c):
            flags = BLOCKED
        else:
            if entry.data:
                push_pair(net, out, c, entry.stop, entry.page, entry.tiles)
            else:
                push_bare(net, out, c, entry.stop)
            w.at = 1 - w.at
            w.queued -= 1
            flags = BUSY
    w.asks = 0
    channel = source(net, u, i)
    if not visible(net, channel, c):
        return flags
    beat = head(net, channel)
    done = is_done(beat)
    if not done and (beat.data or beat.stop <= w.rank or w.before <= w.rank):
        w.asks = has_room(u, w, n_free) and (beat.stop < w.rank or queued < REFERENCES)
    elif queued == 0:
        w.before = beat.stop
        push_reference(net, w, c, beat.stop if done else beat.stop - w.rank, 0)
        take(net, channel, c)
        flags |= BUSY | ENDED if done else BUSY
    return flags


@fast
def has_room(u, w, n_free):
    """True if a writer finds a frame."""
    if w.first >= 0:
        return w.fill < u.frames or n_free > 0
    return n_free > 0 and w.holds < w.limit


@fast
def push_reference(net, w, c, stop, data):
    """Queue the reference to the open buffer, or what stands for none."""
    entry = Beat(net, w.queue, (w.at + w.queued) & (REFERENCES - 1))
    entry.due = c + 1
    entry.stop = stop
    entry.data = data
    entry.page = w.first
    entry.tiles = w.count
    w.queued += 1


@fast
def write(net, u, c):
    """Rule 2: one writer a cycle, round robin."""
    i = u.write_turn - 1
    for _ in range(u.n_writers):
        i = i + 1 if i + 1 < u.n_writers else 0
        w = Writer(net, u.writers, i)
        if w.asks:
            u.write_turn = i + 1 if i + 1 < u.n_writers else 0
            channel = source(net, u, i)
            store_tile(net, u, i, head(net, channel), c)
            take(net, channel, c)
            return BUSY
    return 0


@fast
def store_tile(net, u, i, beat, c):
    """Rule 2: a tile into the next frame; a buffer's last one gives the reference."""
    w = Writer(net, u.writers, i)
    if w.first < 0:
        w.first = new_page(net, u)
        w.page = w.first
        w.fill = 0
        w.count = 0
        w.holds += 1
    elif w.fill == u.frames:
        page = new_page(net, u)
        table(net, u.following)[w.page] = page
        w.page = page
        w.fill = 0
    at = w.page * u.frames + w.fill
    Frame(net, u.tiles, at).about = packed(beat)
    size = net.t * net.t
    copy_values(net, beat.value, u.value + at * size, size)
    w.before = beat.stop
    w.fill += 1
    w.count += 1
    if w.count >= 1 << PAGES_BITS:
        fail(net, u, FAULT_REFERENCES, c)
    if beat.stop >= w.rank:
        push_reference(net, w, c, beat.stop - w.rank, 1)
        Count(net, Counts(net, u.counts, 0).pages, w.first).references = 1
        table(net, u.last_pages)[w.first] = w.page
        table(net, u.owners)[w.first] = i
        w.first = -1


# ---- readers (rules 3, 4, 7 and 8)


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
