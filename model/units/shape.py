"""Units without pipeline that change stops or copy beats (docs/timing.md section 3)."""

from __future__ import annotations

from ...machine.beat import STOP_DONE, Tile
from ..records import fast
from .state import (
    BLOCKED,
    BUSY,
    FAULT_EMPTY,
    FAULT_STOP,
    Beat,
    acts,
    agree,
    all_ready,
    both_visible,
    commit,
    copy_beat,
    fail,
    forward,
    head,
    is_done,
    post,
    push,
    push_done,
    ready,
    source,
    take,
    target,
    unit,
    visible,
)
from .tiles import copy_values, fill_values, pad_tile


@unit
class Broadcast:
    """State of a `broadcast`."""

    counts: int  # of the scratchpad whose references are copied, or -1

    @staticmethod
    def begin(layout, u):
        return {"counts": layout.counts_of(u)}


@acts(Broadcast, "broadcast")
def broadcast(net, u, c):
    channel = source(net, u, 0)
    if not visible(net, channel, c):
        return 0
    if not all_ready(net, u, c):
        return BLOCKED
    beat = head(net, channel)
    for i in range(u.n_outs):
        forward(net, beat, target(net, u, i), c, beat.stop)
    if beat.data:
        post(net, u, beat.page, u.n_outs - 1)
    take(net, channel, c)
    return BUSY


@fast
def copy_to_all(net, u, channel, c):
    """The head of a channel, taken once every output has room for it."""
    if not visible(net, channel, c):
        return 0
    if not all_ready(net, u, c):
        return BLOCKED
    beat = head(net, channel)
    for i in range(u.n_outs):
        forward(net, beat, target(net, u, i), c, beat.stop)
    take(net, channel, c)
    return BUSY


@unit
class Hop:
    """State of a `hop`: none."""


@acts(Hop, "hop")
def hop(net, u, c):
    return copy_to_all(net, u, source(net, u, 0), c)


@unit
class Flatten:
    """State of a `flatten`; only one with `hold` holds a beat."""

    lo: int
    hi: int
    holds: int
    before: int  # stop of the beat before
    ended: int  # whether the last beat that was not dropped ends more than its group
    hold: int  # a `Beat`, with the stop with which it leaves
    held: int
    open: int  # the held one waits for the next

    @staticmethod
    def begin(layout, u):
        holds = u.kind.hold
        return {
            "lo": u.kind.lo,
            "hi": u.kind.hi,
            "holds": holds,
            "before": STOP_DONE,
            "ended": 1,
            "hold": layout.beats(layout.graph.inputs(u.id)[0].payload, 1) if holds else 0,
        }


@acts(Flatten, "flatten")
def flatten(net, u, c):
    channel = source(net, u, 0)
    out = target(net, u, 0)
    settled = u.held and not u.open
    if not visible(net, channel, c):
        return flatten_settled(net, u, out, c) if settled else 0
    beat = head(net, channel)
    s = beat.stop
    bare = not beat.data and s < STOP_DONE
    if bare and u.lo < s <= u.hi and (u.lo == 0 or u.before > u.lo):
        # an empty part adds nothing to the merged dimension
        u.before = s
        take(net, channel, c)
        if settled:
            flatten_settled(net, u, out, c)
        return BUSY
    if bare and s > u.hi and u.lo < u.before <= u.hi and not u.open:
        if not u.holds or (s > u.hi + 1 and u.ended):
            fail(net, u, FAULT_EMPTY, c)
            return 0
    opens = u.holds and u.lo < s <= u.hi
    if (u.held or not opens) and not ready(out, c):
        return BLOCKED
    to = s
    if not is_done(beat):
        if s > u.hi:
            to = s - (u.hi - u.lo)
        elif s > u.lo:
            to = u.lo
    held = Beat(net, u.hold, 0)
    if u.open and bare and s > u.hi:
        forward(net, held, out, c, to)
        u.held = 0
        u.open = 0
    elif u.held or opens:
        if u.held:
            forward(net, held, out, c, held.stop)
        held.stop = to
        held.data = beat.data
        copy_beat(net, beat, held, channel)
        u.held = 1
        u.open = opens
    else:
        forward(net, beat, out, c, to)
    u.before = s
    u.ended = s > u.hi + 1
    take(net, channel, c)
    return BUSY


@fast
def flatten_settled(net, u, out, c):
    """The held beat leaves as it is."""
    if not ready(out, c):
        return BLOCKED
    held = Beat(net, u.hold, 0)
    forward(net, held, out, c, held.stop)
    u.held = 0
    return BUSY


@unit
class Promote:
    """State of a `promote`; only an outermost one holds a beat."""

    level: int
    outermost: int
    hold: int  # a `Beat`
    held: int
    ends: int  # the held one has left, Done has not

    @staticmethod
    def begin(layout, u):
        return {
            "level": u.kind.level,
            "outermost": u.kind.outermost,
            "hold": layout.beats(layout.graph.inputs(u.id)[0].payload, 1),
        }


@acts(Promote, "promote")
def promote(net, u, c):
    channel = source(net, u, 0)
    out = target(net, u, 0)
    if u.ends:
        if not ready(out, c):
            return BLOCKED
        push_done(net, out, c)
        u.ends = 0
        return BUSY
    if not visible(net, channel, c):
        return 0
    beat = head(net, channel)
    if u.outermost:
        return promote_outermost(net, u, channel, beat, out, c)
    if not ready(out, c):
        return BLOCKED
    s = beat.stop
    forward(net, beat, out, c, s + 1 if s >= u.level and not is_done(beat) else s)
    take(net, channel, c)
    return BUSY


@fast
def promote_outermost(net, u, channel, beat, out, c):
    """A beat leaves when the next one shows whether it is the last."""
    held = Beat(net, u.hold, 0)
    if u.held:
        if not ready(out, c):
            return BLOCKED
        forward(net, held, out, c, u.level if is_done(beat) else held.stop)
        u.held = 0
    if is_done(beat):
        u.ends = 1
    else:
        u.held = 1
        held.stop = beat.stop
        held.data = beat.data
        copy_beat(net, beat, held, channel)
    take(net, channel, c)
    return BUSY


@unit
class Reshape:
    """State of a `reshape`."""

    dim: int
    chunk: int
    pad: int
    bare: int  # whether a pad element is a bare beat
    valued: int  # whether it has a value, and the words of a number
    low: int
    high: int
    tile: int  # whether it is a tile, of so many valid rows and columns
    valid_rows: int
    valid_cols: int
    rows: int  # tiles of a pad element
    cols: int
    count: int  # elements of the open chunk
    left: int  # pad elements to come, and where in the first of them
    row: int
    col: int
    stop: int  # that of the last of them
    flags: int  # level of the padding stream, or -1
    before: int  # stop of the beat that left before
    taken: int  # stop of the beat taken before

    @staticmethod
    def begin(layout, u):
        p = u.kind
        word = p.value or 0
        return {
            "bare": bool(p.bare),
            "valued": p.value is not None,
            "low": _signed(word & (1 << 64) - 1),
            "high": _signed(word >> 64),
            "tile": isinstance(layout.graph.inputs(u.id)[0].payload, Tile),
            "valid_rows": p.extent[0],
            "valid_cols": p.extent[1],
            "taken": STOP_DONE,
            "dim": p.dim,
            "chunk": p.chunk,
            "pad": p.pad,
            "rows": max(1, p.pad_rows or 1),
            "cols": max(1, p.pad_cols or 1),
            "flags": -1 if p.flags is None else p.flags,
            "before": STOP_DONE,
        }


def _signed(word: int) -> int:
    """The bits of a word of 64 as a number of the machine that runs the model."""
    return word - (word >> 63 << 64)


@acts(Reshape, "reshape")
def reshape(net, u, c):
    channel = source(net, u, 0)
    if u.left == 0 and not visible(net, channel, c):
        return 0
    if not all_ready(net, u, c):
        return BLOCKED
    beat = head(net, channel)
    full = beat.data
    if u.bare and not beat.data and not is_done(beat):
        full = beat.stop == u.dim or u.taken == u.dim < beat.stop
    if u.left == 0 and u.pad and u.count and beat.stop > u.dim and not full:
        reshape_close(net, u, channel, beat, c)
    if u.left:
        reshape_pad(net, u, c)
        return BUSY
    s = reshape_stop(u, beat, full)
    forward(net, beat, target(net, u, 0), c, s)
    reshape_flag(net, u, c, s, beat.data, 0)
    u.taken = beat.stop
    take(net, channel, c)
    return BUSY


@fast
def reshape_close(net, u, channel, beat, c):
    """A bare beat ends an open chunk: pads take its place."""
    u.left = u.chunk - u.count
    u.stop = u.dim + 1
    u.count = 0
    if not is_done(beat):
        u.stop = beat.stop + 1
        u.taken = beat.stop
        take(net, channel, c)


@fast
def reshape_pad(net, u, c):
    """A tile of a pad element leaves."""
    out = target(net, u, 0)
    s = 0
    rows = min(u.valid_rows - u.row * net.t, net.t)
    cols = min(u.valid_cols - u.col * net.t, net.t)
    u.col += 1
    if u.col == u.cols:
        u.col = 0
        u.row += 1
        s = 1
        if u.row == u.rows:
            u.row = 0
            u.left -= 1
            s = u.dim if u.left else u.stop
    slot = push(net, out, c, s, 1 - u.bare)
    for i in range(out.n_numbers):
        slot.numbers[i] = 0
    fill_values(net, slot.value, out.n_values, u.low)
    if u.valued:
        slot.low = rows if u.tile else u.low
        slot.high = cols if u.tile else u.high
        if u.tile and net.has_values:
            pad_tile(net, slot.value, rows, cols, 0)
    commit(net, out, slot, c)
    reshape_flag(net, u, c, s, 1 - u.bare, 1)


@fast
def reshape_stop(u, beat, full):
    """The stop of a beat that leaves."""
    s = beat.stop
    if is_done(beat):
        u.count = 0
        return s
    if s < u.dim:
        return s
    count = u.count + 1
    u.count = 0
    if s > u.dim:
        if u.pad and full and count < u.chunk:
            u.left = u.chunk - count
            u.stop = s + 1
            return u.dim
        return s + 1
    if count == u.chunk:
        return u.dim + 1
    u.count = count
    return s


@fast
def reshape_flag(net, u, c, stop, data, pad):
    """The padding stream's part of a beat that leaves."""
    before = u.before
    u.before = stop
    if u.flags < 0 or stop < u.flags:
        return
    out = target(net, u, 1)
    if stop == STOP_DONE and not data:
        push_done(net, out, c)
        return
    full = 1 if data or stop <= u.flags or (u.flags and before <= u.flags) else 0
    flag = push(net, out, c, stop - u.flags, full)
    flag.low = pad
    commit(net, out, flag, c)


@unit
class Repeat:
    """State of a `repeat`."""

    count: int
    sent: int

    @staticmethod
    def begin(layout, u):
        return {"count": u.kind.count}


@acts(Repeat, "repeat")
def repeat(net, u, c):
    channel = source(net, u, 0)
    out = target(net, u, 0)
    if not visible(net, channel, c):
        return 0
    if not ready(out, c):
        return BLOCKED
    beat = head(net, channel)
    if not beat.data:
        forward(net, beat, out, c, beat.stop + (0 if is_done(beat) else 1))
        take(net, channel, c)
        return BUSY
    u.sent += 1
    last = u.sent >= u.count
    forward(net, beat, out, c, beat.stop + 1 if last else 0)
    if last:
        u.sent = 0
        take(net, channel, c)
    return BUSY


@unit
class Zip:
    """State of a `zip`: none."""


@acts(Zip, "zip")
def zip_(net, u, c):
    a = source(net, u, 0)
    b = source(net, u, 1)
    out = target(net, u, 0)
    if not both_visible(net, a, b, c):
        return 0
    x = head(net, a)
    y = head(net, b)
    if not agree(x, y):
        fail(net, u, FAULT_STOP, c)
        return 0
    if not ready(out, c):
        return BLOCKED
    slot = push(net, out, c, x.stop, x.data)
    copy_beat(net, x, slot, a)
    for i in range(b.n_numbers):
        slot.numbers[a.n_numbers + i] = y.numbers[i]
    copy_values(net, y.value, slot.value + a.n_values, b.n_values)
    commit(net, out, slot, c)
    take(net, a, c)
    take(net, b, c)
    return BUSY


@unit
class Turns:
    """State of a `split` or a `merge`."""

    index: int  # whose turn it is


@acts(Turns, "split")
def split(net, u, c):
    channel = source(net, u, 0)
    if not visible(net, channel, c):
        return 0
    beat = head(net, channel)
    if is_done(beat):
        if not all_ready(net, u, c):
            return BLOCKED
        for i in range(u.n_outs):
            push_done(net, target(net, u, i), c)
        u.index = 0
    else:
        out = target(net, u, u.index)
        if not ready(out, c):
            return BLOCKED
        forward(net, beat, out, c, beat.stop)
        u.index = (u.index + 1) % u.n_outs
    take(net, channel, c)
    return BUSY


@acts(Turns, "merge")
def merge(net, u, c):
    out = target(net, u, 0)
    channel = source(net, u, u.index)
    if not visible(net, channel, c):
        return 0
    beat = head(net, channel)
    if not is_done(beat):
        if not ready(out, c):
            return BLOCKED
        forward(net, beat, out, c, beat.stop)
        take(net, channel, c)
        u.index = (u.index + 1) % u.n_ins
        return BUSY
    ended = True
    for i in range(u.n_ins):
        other = source(net, u, i)
        if not visible(net, other, c):
            ended = False
        elif not is_done(head(net, other)):
            fail(net, u, FAULT_STOP, c)
            return 0
    if not ended:
        return 0
    if not ready(out, c):
        return BLOCKED
    push_done(net, out, c)
    for i in range(u.n_ins):
        take(net, source(net, u, i), c)
    u.index = 0
    return BUSY
