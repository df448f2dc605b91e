"""Units that route by selectors, and one that makes them of data (docs/timing.md sections 3 and
3.2).
"""

from __future__ import annotations

import numpy as np

from ...machine.beat import STOP_DONE
from ..records import fast, record, singles, table
from .state import (
    ACTIVE,
    BLOCKED,
    BUSY,
    FAULT_STOP,
    acts,
    both_visible,
    commit,
    fail,
    forward,
    head,
    is_done,
    post,
    push,
    push_bare,
    push_done,
    push_target,
    ready,
    source,
    take,
    target,
    unit,
    visible,
    wake,
)
from .tiles import fill_values


@fast
def selected(beat, k):
    """Bit `k` of a selector."""
    return beat.numbers[k >> 6] >> (k & 63) & 1


@unit
class Ranked:
    """State of a `partition` or an `expand`."""

    rank: int  # stop from which on a unit, or what is copied, ends
    counts: int  # of the scratchpad whose references pass, or -1

    @staticmethod
    def begin(layout, u):
        p = u.kind
        return {"rank": p.rank if p.name == "partition" else p.level, "counts": layout.counts_of(u)}


@fast
def partition_agrees(u, x, y):
    """True if the data fit the selector: the last beat of a unit to its stop, and where the
    selector is bare there is nothing.
    """
    ends = x.stop >= u.rank
    if is_done(x) or is_done(y):
        return is_done(x) and is_done(y)
    if ends and x.stop != u.rank + y.stop:
        return False
    if y.data:
        return u.rank > 0 or x.data != 0
    return ends and not x.data


@acts(Ranked, "partition")
def partition(net, u, c):
    data = source(net, u, 0)
    selector = source(net, u, 1)
    if not both_visible(net, data, selector, c):
        return 0
    x = head(net, data)
    y = head(net, selector)
    if not partition_agrees(u, x, y):
        fail(net, u, FAULT_STOP, c)
        return 0
    done = is_done(x)
    for k in range(u.n_outs):
        if (done or (y.data and selected(y, k))) and not ready(target(net, u, k), c):
            return BLOCKED
    ends = x.stop >= u.rank
    copies = 0
    for k in range(u.n_outs):
        if done:
            push_done(net, target(net, u, k), c)
        elif y.data and selected(y, k):
            forward(net, x, target(net, u, k), c, min(x.stop, u.rank))
            copies += 1
    if x.data:
        post(net, u, x.page, copies - 1)
    take(net, data, c)
    if ends:
        take(net, selector, c)
    return BUSY


@acts(Ranked, "expand")
def expand(net, u, c):
    data = source(net, u, 0)
    reference = source(net, u, 1)
    out = target(net, u, 0)
    if not both_visible(net, data, reference, c):
        return 0
    x = head(net, data)
    y = head(net, reference)
    ends = y.stop >= u.rank
    if is_done(x) != is_done(y) or (ends and x.stop != y.stop) or (y.data and not x.data):
        fail(net, u, FAULT_STOP, c)
        return 0
    if not ready(out, c):
        return BLOCKED
    if y.data:
        forward(net, x, out, c, y.stop)
    else:
        push_bare(net, out, c, y.stop)
    if x.data:
        post(net, u, x.page, y.data - (1 if ends else 0))
    if ends:
        take(net, data, c)
    take(net, reference, c)
    return BUSY


# ---- arrival (section 3.2)


@record
class Arrival:
    """One input of a unit that takes by arrival."""

    free: int  # first cycle in which its next unit can arrive
    given: int  # whether it has given its unit to the selector
    drains: int  # whether its Done is awaited


@unit
class Arrivals:
    """State of a `reassemble` or an `eager_merge`."""

    rank: int
    n: int  # data inputs
    moving: int  # 1 + the input whose unit is being moved
    inputs: int  # `Arrival` of each
    left: int  # Dones awaited

    @staticmethod
    def begin(layout, u):
        n = u.kind.n
        return {"rank": u.kind.rank, "n": n, "inputs": layout.alloc(n * Arrival.words)}


@fast
def arrival(net, u, k, c):
    """The cycle in which the unit of input `k` arrived; -1 if none has."""
    channel = source(net, u, k)
    if not visible(net, channel, c):
        return np.int64(-1)
    beat = head(net, channel)
    if is_done(beat):
        return np.int64(-1)
    return max(beat.accepted + 1, Arrival(net, u.inputs, k).free)


@fast
def moved(net, u, k, ends, c):
    """A beat of the unit of input `k` was taken."""
    u.moving = 0 if ends else k + 1
    if ends:
        Arrival(net, u.inputs, k).free = c + 1


@fast
def drain_dones(net, u, c):
    """Take the inputs' Done beats after the selector's."""
    flags = 0
    for k in range(u.n):
        channel = source(net, u, k)
        one = Arrival(net, u.inputs, k)
        if not visible(net, channel, c) or not one.drains:
            continue
        if not is_done(head(net, channel)):
            fail(net, u, FAULT_STOP, c)
            return 0
        one.drains = 0
        u.left -= 1
        if u.left == 0:
            net.open -= 1
        take(net, channel, c)
        flags = BUSY
    return flags


@fast
def wants(net, u, y, k):
    """True if the selector waits for a unit of input `k`."""
    return selected(y, k) and not Arrival(net, u.inputs, k).given


@fast
def earliest_wanted(net, u, y, c):
    """Among the inputs that the selector wants the one whose unit arrived first; -1: none has."""
    best = -1
    since = np.int64(0)
    for k in range(u.n):
        if wants(net, u, y, k):
            at = arrival(net, u, k, c)
            if at >= 0 and (best < 0 or at < since):
                best = k
                since = at
    return best


@fast
def reassemble_bare(net, u, selector, y, out, c):
    """A selector without a unit to wait for leaves as a stop; Done opens the end of the inputs."""
    if not ready(out, c):
        return BLOCKED
    if is_done(y):
        push_done(net, out, c)
        for k in range(u.n):
            Arrival(net, u.inputs, k).drains = 1
        u.left = u.n
        net.open += 1
    else:
        push_bare(net, out, c, u.rank + 1 + y.stop)
    take(net, selector, c)
    return BUSY


@acts(Arrivals, "reassemble")
def reassemble(net, u, c):
    if u.left:
        return drain_dones(net, u, c)
    selector = source(net, u, u.n)
    out = target(net, u, 0)
    if not visible(net, selector, c):
        return 0
    y = head(net, selector)
    wanted = 0
    if y.data:
        for k in range(u.n):
            wanted += wants(net, u, y, k)
    if wanted == 0:
        return reassemble_bare(net, u, selector, y, out, c)
    k = u.moving - 1
    if k < 0:
        k = earliest_wanted(net, u, y, c)
        if k < 0:
            return 0
    channel = source(net, u, k)
    if not visible(net, channel, c):
        return 0
    x = head(net, channel)
    if is_done(x) or (u.rank == 0 and x.data == 0):
        fail(net, u, FAULT_STOP, c)
        return 0
    if not ready(out, c):
        return BLOCKED
    ends = x.stop >= u.rank
    s = min(x.stop, u.rank)
    if ends:
        Arrival(net, u.inputs, k).given = 1
        if wanted == 1:
            s += 1 + y.stop
            for j in range(u.n):
                Arrival(net, u.inputs, j).given = 0
            take(net, selector, c)
    forward(net, x, out, c, s)
    take(net, channel, c)
    moved(net, u, k, ends, c)
    return BUSY


@fast
def merge_dones(net, u, out, selectors, c):
    """Done leaves when all inputs show it."""
    for k in range(u.n):
        if not visible(net, source(net, u, k), c):
            return 0
    if not ready(out, c) or not ready(selectors, c):
        return BLOCKED
    push_done(net, out, c)
    push_done(net, selectors, c)
    for k in range(u.n):
        take(net, source(net, u, k), c)
    return BUSY


@fast
def earliest(net, u, c):
    """The input whose unit arrived first; -1: none has."""
    best = -1
    since = np.int64(0)
    for k in range(u.n):
        at = arrival(net, u, k, c)
        if at >= 0 and (best < 0 or at < since):
            best = k
            since = at
    return best


@acts(Arrivals, "eager_merge")
def eager_merge(net, u, c):
    out = target(net, u, 0)
    selectors = target(net, u, 1)
    first = u.moving == 0
    k = u.moving - 1
    if first:
        k = earliest(net, u, c)
        if k < 0:
            return merge_dones(net, u, out, selectors, c)
    channel = source(net, u, k)
    if not visible(net, channel, c):
        return 0
    x = head(net, channel)
    if is_done(x):
        fail(net, u, FAULT_STOP, c)
        return 0
    if not ready(out, c) or (first and not ready(selectors, c)):
        return BLOCKED
    s = x.stop
    forward(net, x, out, c, s)
    if first:
        push_target(net, selectors, c, 0, k)
    take(net, channel, c)
    moved(net, u, k, s >= u.rank, c)
    return BUSY


@unit
class TopK:
    """State of a `top_k`: the best of the open row so far, and the beats that leave."""

    n: int
    k: int
    rank: int
    keys: int  # of the best, in the order of numbers; the largest first
    bits: int
    found: int  # their columns
    listed: int
    next: int  # column of the tile
    base: int  # columns of the tiles of the row before
    held: int  # 1: results leave, 2: a beat without data
    stop: int
    sent: int  # beats of each output
    out_bits: int
    out_found: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        names = ("keys", "bits", "found", "out_bits", "out_found")
        places = {name: layout.alloc(p.k) for name in names}
        return {"n": p.n, "k": p.k, "rank": p.rank, "sent": layout.alloc(3), **places}


@fast
def top_insert(net, u, beat):
    """Lists the next column where it is among the best; equal ones stay before it."""
    bits = np.int64(0)
    if net.has_values:
        bits = np.int64(singles(net.values)[beat.value + u.next])
    magnitude = bits & 0x7FFFFFFF
    if magnitude > 0x7F800000:
        bits = np.int64(0x7FC00000)
    elif magnitude < 0x00800000:
        bits &= 0x80000000
    key = bits if bits < 0x80000000 else 0x80000000 - bits  # -0 equals +0
    if bits == 0x80000000:
        key = np.int64(0)
    keys = table(net, u.keys)
    at = u.listed
    while at > 0 and keys[at - 1] < key:
        at -= 1
    if at >= u.k:
        return
    values = table(net, u.bits)
    found = table(net, u.found)
    last = min(u.listed, u.k - 1)
    for i in range(last, at, -1):
        keys[i] = keys[i - 1]
        values[i] = values[i - 1]
        found[i] = found[i - 1]
    keys[at] = key
    values[at] = bits
    found[at] = u.base + u.next
    u.listed = last + 1


@fast
def top_result(net, u, out, c, port, i):
    """Result ``i`` of an output leaves."""
    stop = u.stop if port == 0 else u.stop + 1 if i == u.k - 1 else 0
    found = table(net, u.out_found)
    if port == 2:
        tile = push(net, out, c, stop + u.rank, 1)
        tile.rows = 1
        tile.cols = 1
        fill_values(net, tile.value, net.t * net.t, 0)
        fill_values(net, tile.value, 1, np.uint32(table(net, u.out_bits)[i]))
        commit(net, out, tile, c)
        return
    beat = push(net, out, c, stop, 1)
    for word in range(out.n_numbers):
        beat.numbers[word] = 0
    for j in range(u.k):
        if (port == 0 or j == i) and 0 <= found[j] < u.n:
            beat.numbers[found[j] >> 6] |= np.int64(1) << (found[j] & 63)
    commit(net, out, beat, c)


@acts(TopK, "top_k")
def top_k(net, u, c):
    flags = 0
    held = u.held
    if held:
        sent = table(net, u.sent)
        open_ = 0
        for port in range(3):
            count = u.k if held == 1 and port else 1
            if sent[port] < count:
                out = target(net, u, port)
                if ready(out, c):
                    if held == 1:
                        top_result(net, u, out, c, port, sent[port])
                    elif u.stop == STOP_DONE:
                        push_done(net, out, c)
                    else:
                        push_bare(net, out, c, u.stop + (0, 1, 1 + u.rank)[port])
                    sent[port] += 1
                    flags |= BUSY
                else:
                    flags |= BLOCKED
            open_ += count - sent[port]
        if open_ == 0:
            u.held = 0
    channel = source(net, u, 0)
    if not visible(net, channel, c):
        return flags
    beat = head(net, channel)
    ends = beat.stop >= u.rank
    last = not beat.data or u.next + 1 >= beat.cols
    if last and held and (ends or not beat.data):
        return flags
    if beat.data and u.next < beat.cols:
        top_insert(net, u, beat)
    if not last:
        u.next += 1
        wake(net, u.id, c + 1)
        return flags | ACTIVE
    u.next = 0
    u.base = min(u.base + beat.cols, 256)
    if not beat.data or ends:
        u.held = 1 if beat.data else 2
        u.stop = STOP_DONE if is_done(beat) else beat.stop - u.rank
        for i in range(u.k):
            some = i < u.listed
            table(net, u.out_bits)[i] = table(net, u.bits)[i] if some else 0
            table(net, u.out_found)[i] = table(net, u.found)[i] if some else -1
        for port in range(3):
            table(net, u.sent)[port] = 0
        u.listed = 0
        u.base = 0
    take(net, channel, c)
    return flags | BUSY
