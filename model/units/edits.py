"""Units that add, mask and permute rows and columns of tiles (docs/timing.md section 3.3)."""

from __future__ import annotations

import numpy as np

from ...machine.kinds.rows import PERMUTATIONS
from ..records import fast, singles
from .state import (
    BLOCKED,
    BUSY,
    FAULT_ROWS,
    FAULT_STOP,
    acts,
    both_visible,
    commit,
    copy_beat,
    fail,
    forward,
    head,
    is_done,
    push,
    ready,
    source,
    take,
    target,
    unit,
    visible,
)
from .tiles import copy_values, pad_tile, transpose


@unit
class RowAppend:
    """State of a `row_append`."""

    placed: int  # the logical tile has its row


@acts(RowAppend, "row_append")
def row_append(net, u, c):
    tiles = source(net, u, 0)
    rows = source(net, u, 1)
    out = target(net, u, 0)
    if not visible(net, tiles, c):
        return 0
    x = head(net, tiles)
    takes = x.data and not u.placed and x.rows < net.t
    row_seen = visible(net, rows, c)
    if (takes or not x.data) and not row_seen:
        return 0
    y = head(net, rows)
    if not x.data:
        if y.data or y.stop != x.stop:
            fail(net, u, FAULT_STOP, c)
            return 0
    elif takes:
        if not y.data or (y.stop > 0) != (x.stop > 0):
            fail(net, u, FAULT_STOP, c)
            return 0
    elif not u.placed and x.stop >= 2:
        fail(net, u, FAULT_ROWS, c)
        return 0
    if not ready(out, c):
        return BLOCKED
    if takes:
        append(net, x, y, out, c)
    else:
        forward(net, x, out, c, x.stop)
    if takes or not x.data:
        take(net, rows, c)
    if x.data:
        u.placed = 1 if x.stop < 2 and (u.placed or (takes and x.stop == 1)) else 0
    take(net, tiles, c)
    return BUSY


@fast
def append(net, x, y, out, c):
    """A tile leaves with one row more."""
    t = net.t
    slot = push(net, out, c, x.stop, 1)
    slot.rows = x.rows + 1
    slot.cols = max(x.cols, y.cols)
    copy_values(net, x.value, slot.value, t * t)
    copy_values(net, y.value, slot.value + x.rows * t, t)
    commit(net, out, slot, c)


@unit
class RowOffset:
    """State of a `row_offset`."""

    band: int  # bands before in the logical tile
    at: int  # tiles before in the band
    along: int
    fills: int
    fill: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        along = ("rows", "cols", "diagonal").index(p.along)
        return {"along": along, "fills": p.fill is not None, "fill": p.fill or 0}


@acts(RowOffset, "row_offset")
def row_offset(net, u, c):
    tiles = source(net, u, 0)
    counts = source(net, u, 1)
    out = target(net, u, 0)
    if not both_visible(net, tiles, counts, c):
        return 0
    x = head(net, tiles)
    y = head(net, counts)
    ends = x.stop >= 2
    if ends and (x.data != y.data or x.stop != y.stop + (0 if is_done(x) else 2)):
        fail(net, u, FAULT_STOP, c)
        return 0
    if not ready(out, c):
        return BLOCKED
    slot = push(net, out, c, x.stop, x.data)
    if x.data:
        copy_beat(net, x, slot, tiles)
        slot.rows = x.rows
        slot.cols = x.cols
        if u.fills:
            mask(net, u, slot, y.low)
        else:
            slot.rows = min(x.rows, max(y.low - u.band * net.t, 0))
            pad_tile(net, slot.value, slot.rows, slot.cols, 0)
    commit(net, out, slot, c)
    u.band = 0 if ends else u.band + (1 if x.stop == 1 else 0)
    u.at = 0 if x.stop else u.at + 1
    take(net, tiles, c)
    if ends:
        take(net, counts, c)
    return BUSY


@fast
def mask(net, u, slot, n):
    """Fill a tile where its rows, its columns or its columns from the diagonal on do not count."""
    if not net.has_values:
        return
    t = net.t
    values = singles(net.values)
    if u.along == 2 and n >= 1 << 31:
        n -= 1 << 32
    for r in range(slot.rows):
        for k in range(slot.cols):
            row = u.band * t + r
            place = row if u.along == 0 else u.at * t + k
            if place >= (n + row if u.along == 2 else n):
                values[slot.value + r * t + k] = np.uint32(u.fill)


TRANSPOSE, PAIRS, _ = range(len(PERMUTATIONS))


@unit
class Permute:
    """State of a `permute`."""

    fn: int
    half: int  # columns
    at: int  # tiles before in the row

    @staticmethod
    def begin(layout, u):
        return {"fn": PERMUTATIONS.index(u.kind.fn), "half": u.kind.half}


@acts(Permute, "permute")
def permute(net, u, c):
    channel = source(net, u, 0)
    out = target(net, u, 0)
    if not visible(net, channel, c):
        return 0
    if not ready(out, c):
        return BLOCKED
    x = head(net, channel)
    slot = push(net, out, c, x.stop, x.data)
    if x.data:
        copy_beat(net, x, slot, channel)
        if u.fn == TRANSPOSE:
            slot.rows = x.cols
            slot.cols = x.rows
            transpose(net, x.value, slot.value, net.t)
        else:
            turn(net, u, x.value, slot.value, x.rows, x.cols)
    commit(net, out, slot, c)
    u.at = u.at + 1 if x.stop == 0 else 0
    take(net, channel, c)
    return BUSY


@fast
def turn(net, u, start, to, rows, cols):
    """Each pair of columns (a, b) of a tile becomes (-b, a)."""
    if not net.has_values:
        return
    t = net.t
    values = singles(net.values)
    half = 1 if u.fn == PAIRS else u.half
    for r in range(rows):
        for k in range(cols):
            origin = k
            negative = u.at * t < half
            if half < t:
                within = u.fn == PAIRS or k < 2 * half
                negative = within and k % (2 * half) < half
                if within:
                    origin = k + half if negative else k - half
            bits = np.int64(values[start + r * t + origin])
            values[to + r * t + k] = np.uint32(bits ^ 0x80000000 if negative else bits)
