"""Units that pack and unpack the rows of logical tiles (docs/timing.md section 3.3).

Where columns are packed (``across``) a row is a column here, and the other way round.
"""

from __future__ import annotations

import numpy as np

from ...machine.beat import STOP_DONE
from ..records import fast, record, singles, table
from .state import (
    ACTIVE,
    BLOCKED,
    BUSY,
    FAULT_ROWS,
    acts,
    commit,
    fail,
    head,
    is_done,
    push,
    push_bare,
    push_done,
    push_tile,
    ready,
    source,
    take,
    target,
    unit,
    visible,
    wake,
)
from .tiles import copy_values, fill_values, pad_tile, transpose


@unit
class RowPack:
    """State of a `row_pack`: the open band, and the tiles that leave."""

    depth: int  # tiles of a band
    level: int  # stop that ends a group
    bands: int  # that a group gives at least
    cols: int  # columns of an empty band in a group without tiles
    across: int  # columns are packed: the band's tiles are kept transposed
    extents: int  # columns of each tile of the open band
    value: int  # of its tiles, of an empty one, and of one more
    fill: int  # its rows
    width: int  # its tiles
    at: int  # tiles of the open row of tiles
    valid: int  # its rows, those of its first tile
    wide: int  # its columns
    some: int  # the group has a row
    blank: int  # columns of an empty band of the group
    out: int  # bands of the group that have left
    open: int  # the group has a tile
    before: int  # stop of the beat before
    leaving: int  # 1 + stop of a bare beat that leaves next
    left: int  # tiles that are to leave, and how many of them have left
    drained: int
    start: int  # cycle from which they leave
    stop: int  # that of the last of them
    drain_rows: int  # rows and tiles of the band among them
    drain_width: int
    drain_blank: int  # columns of an empty band among them

    @staticmethod
    def begin(layout, u):
        p = u.kind
        return {
            "depth": p.depth,
            "level": p.level,
            "bands": p.bands,
            "cols": p.cols,
            "blank": p.cols,
            "across": p.along == "cols",
            "extents": layout.alloc(p.depth),
            "value": layout.alloc_values((p.depth + 2) * layout.graph.t**2),
            "before": STOP_DONE,
        }


@acts(RowPack, "row_pack")
def row_pack(net, u, c):
    out = target(net, u, 0)
    if u.leaving:
        if not ready(out, c):
            return BLOCKED
        push_bare(net, out, c, u.leaving - 1)
        u.leaving = 0
        return BUSY
    draining = u.left > 0
    drained = u.drained
    flags = 0
    if draining and c >= u.start:
        flags = pack_emit(net, u, out, c)
    channel = source(net, u, 0)
    if not visible(net, channel, c):
        return flags
    beat = head(net, channel)
    rows = pack_rows(u, beat)
    if beat.data and u.at == 0 and u.fill == net.t and rows > 0:  # a full band makes room
        if not draining:
            u.out += 1
            pack_drain(net, u, c, 1, 0, 1)
            flags |= ACTIVE
        return flags
    if draining and (beat.stop >= u.level or (beat.data and u.at >= drained)):
        return flags
    if not beat.data:
        take(net, channel, c)
        pack_bare(net, u, beat.stop, c)
    elif u.fill + rows > net.t or u.at >= u.depth:
        fail(net, u, FAULT_ROWS, c)
        return flags
    else:
        pack_tile(net, u, beat, rows)
        take(net, channel, c)
        if beat.stop >= u.level:
            pack_close(net, u, c, 2 + beat.stop - u.level)
    u.before = beat.stop
    return BUSY


@fast
def pack_rows(u, beat):
    """Rows of a beat's tile: those of the first one of its row of tiles."""
    if u.at:
        return u.valid
    return beat.cols if u.across else beat.rows


@fast
def pack_tile(net, u, beat, rows):
    """Add the rows of a tile to the open band."""
    t = net.t
    cols = beat.rows if u.across else beat.cols
    u.open = 1
    u.valid = rows
    u.wide = cols + (u.wide if u.at else 0)
    if rows:
        u.some = 1
        table(net, u.extents)[u.at] = cols
        to = u.value + u.at * t * t + u.fill * t
        if u.across:
            transpose(net, beat.value, to, rows)
        else:
            copy_values(net, beat.value, to, rows * t)
    u.at += 1
    if beat.stop > u.across:
        u.width = u.at
        u.at = 0
        u.fill += rows
        if rows or not u.some:
            u.blank = u.wide


@fast
def pack_bare(net, u, s, c):
    """A beat without data (section 3.4)."""
    if s == STOP_DONE:
        u.leaving = 1 + s
        u.fill = 0
        pack_reset(u)
    elif s >= u.level:
        if not u.open and u.before > u.level and s > u.level:
            u.leaving = 1 + 2 + s - u.level
        else:
            pack_close(net, u, c, 2 + s - u.level)


@fast
def pack_reset(u):
    u.at = 0
    u.out = 0
    u.open = 0
    u.some = 0
    u.blank = u.cols


@fast
def pack_close(net, u, c, stop):
    """The end of a group: its open band leaves, and empty ones."""
    band = 1 if u.fill else 0
    more = max(u.bands - u.out - band, 0)
    if band or more:
        pack_drain(net, u, c, band, more, stop)
    else:
        u.leaving = 1 + stop
    pack_reset(u)


@fast
def pack_drain(net, u, c, band, more, stop):
    """Let the open band (`band` of them) and `more` empty ones leave; the last tile gets `stop`."""
    u.drain_width = u.width if band else 0
    u.drain_rows = u.fill
    u.drain_blank = u.blank
    u.left = u.drain_width + more * ((u.cols + net.t - 1) // net.t)
    u.drained = 0
    u.start = c + 1
    u.stop = stop
    u.fill = 0
    wake(net, u.id, c + 1)


@fast
def pack_emit(net, u, out, c):
    """The next tile leaves."""
    if not ready(out, c):
        return BLOCKED
    t = net.t
    i = u.drained
    rows = 0
    value = u.value + u.depth * t * t
    if i < u.drain_width:
        rows = u.drain_rows
        cols = table(net, u.extents)[i]
        value = u.value + i * t * t
        stop = 1 if i == u.drain_width - 1 else 0
        pad_tile(net, value, rows, cols, 0)
    else:
        width = (u.cols + t - 1) // t
        j = (i - u.drain_width) % width
        cols = min(max(u.drain_blank - j * t, 0), t)
        stop = 1 if j == width - 1 else 0
    if u.left == 1:
        stop = u.stop
    if u.across:
        spare = u.value + (u.depth + 1) * t * t
        transpose(net, value, spare, t)
        push_tile(net, out, c, stop, cols, rows, spare)
    else:
        push_tile(net, out, c, stop, rows, cols, value)
    u.drained = i + 1
    u.left -= 1
    return BUSY


@record
class Band:
    """A complete band."""

    width: int  # tiles; 0: a bare stop
    valid: int  # rows
    leaves: int  # rows that leave
    end: int  # stop of its last tile


@unit
class RowUnpack:
    """State of a `row_unpack`: two bands, the one at `first` leaves."""

    depth: int  # tiles of a band
    masks: int  # only valid rows leave
    rows: int  # of a logical tile
    across: int
    bands: int  # two `Band`s, and for each tile of each its columns and its values
    extents: int
    value: int
    first: int
    count: int  # complete ones
    at: int  # tiles of the open one
    valid: int  # rows of its first tile
    band: int  # bands before it in its logical tile
    row: int  # what leaves next
    col: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        return {
            "depth": p.depth,
            "masks": bool(p.mask),
            "rows": p.rows,
            "across": p.along == "cols",
            "bands": layout.alloc(2 * Band.words),
            "extents": layout.alloc(2 * p.depth),
            "value": layout.alloc_values(2 * p.depth * layout.graph.t**2),
        }


@acts(RowUnpack, "row_unpack")
def row_unpack(net, u, c):
    channel = source(net, u, 0)
    out = target(net, u, 0)
    queued = u.count
    seen = visible(net, channel, c)
    beat = head(net, channel)
    flags = 0
    completes = 0
    end = 0  # not 0: that of the band before changes
    if seen and queued < 2 and not is_done(beat):
        if beat.data and u.at >= u.depth:
            fail(net, u, FAULT_ROWS, c)
            return 0
        completes, end = unpack_take(net, u, beat)
        take(net, channel, c)
        flags = BUSY
    if queued:
        flags |= unpack_emit(net, u, out, c)
    elif seen and is_done(beat):
        if not ready(out, c):
            return BLOCKED
        push_done(net, out, c)
        take(net, channel, c)
        return BUSY
    if completes:
        u.count += 1
        wake(net, u.id, c + 1)
    elif end:
        Band(net, u.bands, u.first).end = end
        wake(net, u.id, c + 1)
    return flags


@fast
def unpack_take(net, u, beat):
    """Keep a beat; returns whether a band is complete at the end of the cycle, and the stop with
    which the band before it then ends, or 0.
    """
    t = net.t
    which = (u.first + u.count) & 1
    s = beat.stop
    if not beat.data:
        if s < 2:
            return 0, np.int64(0)
        unpack_band(net, u, which, 0, 0, s)
        return 1, np.int64(0)
    if u.at == 0:
        u.valid = beat.cols if u.across else beat.rows
        if u.masks and not beat.rows:  # without a row no column is valid
            u.valid = 0
    i = which * u.depth + u.at
    table(net, u.extents)[i] = beat.rows if u.across else beat.cols
    copy_values(net, beat.value, u.value + i * t * t, t * t)
    u.at += 1
    if s == 0:
        return 0, np.int64(0)
    leaves = u.valid if u.masks else min(max(u.rows - u.band * t, 0), t)
    unpack_band(net, u, which, u.at if leaves else 0, leaves, s)
    u.at = 0
    u.band = 0 if s >= 2 else u.band + 1
    if leaves:
        return 1, np.int64(0)
    if s < 2:
        return 0, np.int64(0)
    if u.count and Band(net, u.bands, 1 - which).end == 1:
        return 0, s
    return 1, np.int64(0)


@fast
def unpack_band(net, u, which, width, leaves, end):
    band = Band(net, u.bands, which)
    band.width = width
    band.valid = u.valid
    band.leaves = leaves
    band.end = end


@fast
def unpack_emit(net, u, out, c):
    """The next tile of one row leaves; the last one of a band waits for its stop."""
    band = Band(net, u.bands, u.first)
    last = u.row == band.leaves - 1
    if band.width and last and band.end == 1 and u.count == 1 and u.masks:
        return 0
    if not ready(out, c):
        return BLOCKED
    if band.width == 0:
        push_bare(net, out, c, band.end + 1)
        unpack_pop(u)
        return BUSY
    ends = u.col == band.width - 1
    stop = u.across
    if ends:
        stop = band.end + 1 if last and band.end >= 2 else 2
    unpack_row(net, u, band, out, c, stop)
    u.col += 1
    if ends:
        u.col = 0
        u.row += 1
        if last:
            unpack_pop(u)
    return BUSY


@fast
def unpack_pop(u):
    u.first = 1 - u.first
    u.count -= 1
    u.row = 0
    u.col = 0


@fast
def unpack_row(net, u, band, out, c, stop):
    """A row of a tile leaves as a tile."""
    t = net.t
    i = u.first * u.depth + u.col
    valid = u.row < band.valid
    tile = push(net, out, c, stop, 1)
    rows = 1 if valid else 0
    cols = table(net, u.extents)[i]
    tile.rows = cols if u.across else rows
    tile.cols = rows if u.across else cols
    fill_values(net, tile.value, t * t, 0)
    if valid and net.has_values:
        values = singles(net.values)
        step = t if u.across else 1  # within a row
        start = u.value + i * t * t + u.row * (1 if u.across else t)
        for k in range(t):
            values[tile.value + k * step] = values[start + k * step]
    commit(net, out, tile, c)
