"""Writers of a `scratchpad`, and its free pages (docs/timing.md section 4)."""

from __future__ import annotations

from ...machine.limits import PAGES_BITS
from ..records import fast, table
from .scratchpad_state import ENDED, REFERENCES, Frame, Writer, packed
from .state import (
    BLOCKED,
    BUSY,
    FAULT_REFERENCES,
    Beat,
    Count,
    Counts,
    fail,
    head,
    is_done,
    push_bare,
    push_done,
    push_pair,
    push_tile,
    ready,
    source,
    take,
    target,
    visible,
)
from .tiles import copy_values

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
        w.asks = has_room(net, u, w, n_free, c) and (beat.stop < w.rank or queued < REFERENCES)
    elif queued == 0 and (not done or not u.spill or may_spill(net, u, c)):
        w.before = beat.stop
        w.over = done
        push_reference(net, w, c, beat.stop if done else beat.stop - w.rank, 0)
        take(net, channel, c)
        flags |= BUSY | ENDED if done else BUSY
    return flags


@fast
def has_room(net, u, w, n_free, c):
    """True if a writer finds a frame, or a place off-chip."""
    if w.first < 0:
        return n_free > 0 and w.holds < w.limit
    if u.spill and w.count >= u.n_pages * u.frames:
        return w.count < u.n_pages * u.frames + u.spill and may_spill(net, u, c)
    return w.fill < u.frames or n_free > 0


@fast
def may_spill(net, u, c):
    """True if both channels of spilled tiles have a slot (rule 11)."""
    first = ready(target(net, u, u.spill_outs), c)
    return ready(target(net, u, u.spill_outs + 1), c) and first


@fast
def spill_tile(net, u, w, beat, c):
    """Rule 11: a tile leaves, whole; the first of a block with the block's number."""
    number = w.count - u.n_pages * u.frames
    last = (number + 1) % u.block == 0 or beat.stop >= w.rank
    if number % u.block == 0:
        push_pair(net, target(net, u, u.spill_outs), c, 0, number // u.block, 0)
        u.in_flight += 1
    out = target(net, u, u.spill_outs + 1)
    push_tile(net, out, c, 2 if last else 0, net.t, net.t, beat.value)


@fast
def end_spilling(net, u, c):
    """End the streams to memory when the last of the writers has ended."""
    for i in range(u.n_writers):
        if not Writer(net, u.writers, i).over:
            return
    for i in range(u.n_writers):
        Writer(net, u.writers, i).over = 0
    push_done(net, target(net, u, u.spill_outs), c)
    push_done(net, target(net, u, u.spill_outs + 1), c)


@fast
def acknowledged(net, u, c):
    """A block that has been written."""
    channel = source(net, u, u.spill_ins)
    if not visible(net, channel, c):
        return 0
    u.in_flight -= head(net, channel).data
    take(net, channel, c)
    return BUSY


@fast
def push_reference(net, w, c, stop, data):
    """Queue the reference to the open buffer, or a beat without one."""
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
    on_chip = not u.spill or w.count < u.n_pages * u.frames
    if on_chip and w.fill == u.frames:
        page = new_page(net, u)
        table(net, u.following)[w.page] = page
        w.page = page
        w.fill = 0
    if on_chip:
        at = w.page * u.frames + w.fill
        size = net.t * net.t
        copy_values(net, beat.value, u.value + at * size, size)
        w.fill += 1
    else:
        at = w.count
        spill_tile(net, u, w, beat, c)
    Frame(net, u.tiles, at).about = packed(beat)
    w.before = beat.stop
    w.count += 1
    if w.count >= 1 << PAGES_BITS:
        fail(net, u, FAULT_REFERENCES, c)
    if beat.stop >= w.rank:
        push_reference(net, w, c, beat.stop - w.rank, 1)
        Count(net, Counts(net, u.counts, 0).pages, w.first).references = 1
        table(net, u.last_pages)[w.first] = w.page
        table(net, u.owners)[w.first] = i
        w.first = -1
