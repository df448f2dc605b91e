"""`accum`: a reduction into a memory of accumulators (docs/timing.md sections 3.1 and 3.4)."""

from __future__ import annotations

from ...machine.beat import STOP_DONE
from ...machine.functions import identity_bits
from ...machine.kinds import accum_levels
from .. import kernels
from ..records import fast, record
from .state import (
    BLOCKED,
    BUSY,
    FAULT_ACCUMULATORS,
    FAULT_STOP,
    LONG_AGO,
    acts,
    fail,
    head,
    push_bare,
    push_tile,
    ready,
    source,
    take,
    target,
    unit,
    visible,
    wake,
)
from .tiles import compute, copy_values, fill_values, pad_tile


@record
class Dimension:
    """A dimension up to the highest reduced one (section 3.1)."""

    start: int  # the accumulator at which its pass begins
    first: int  # whether it is in its first pass


@record
class Accumulator:
    """An accumulator tile; its values lie with the unit's."""

    rows: int
    cols: int
    stop: int  # with which it leaves
    free: int  # cycle from which its next beat may be taken


@unit
class Accum:
    """State of an `accum`."""

    interval: int
    loop: int  # cycles from a beat to the next one of its accumulator
    latency: int
    reduce: int  # bit d: dimension d
    top: int  # highest dimension reduced
    lowest: int  # lowest one
    outer: int  # lowest one above all that are kept below `top`
    depth: int  # accumulators
    scans: int
    kernel: int  # its address
    identity: int  # bits of the function's identity
    starts: int  # whether a state lies before the first tile, and its bits
    init: int
    rows: int  # of the logical tile that an empty group gives; 0: none
    cols: int
    dimensions: int  # `Dimension` of each
    memory: int  # `Accumulator`s
    value: int
    spare: int  # values of one tile
    last: int  # cycle of the last take
    index: int
    high: int  # accumulators that the open group has opened
    before: int  # stop of the beat before
    tiles: int  # that drain, and how many of them have left
    drained: int
    start: int  # cycle from which they leave
    initial: int  # 1 + last stop while initial values drain
    leaving: int  # 1 + stop of a beat without data that leaves next (scan: of any)
    held: int  # scan: 1 + the accumulator that leaves, 0: none

    @staticmethod
    def begin(layout, u):
        p = u.kind
        t = layout.graph.t
        top = p.reduce.bit_length() - 1
        lowest, outer = accum_levels(p.reduce)
        return {
            "interval": p.interval(t),
            "loop": p.loop,
            "latency": p.latency(t),
            "reduce": p.reduce,
            "top": top,
            "lowest": lowest,
            "outer": outer,
            "depth": p.depth,
            "scans": bool(p.scan),
            "kernel": kernels.address(p.fn) if layout.values else 0,
            "identity": identity_bits(p.fn, p.init is not None),
            "starts": p.init is not None,
            "init": identity_bits(p.fn) if p.init is None else p.init,
            "rows": p.init_rows,
            "cols": p.init_cols,
            "dimensions": layout.put([0, 1] * (top + 1)),
            "memory": layout.alloc(p.depth * Accumulator.words),
            "value": layout.alloc_values(p.depth * t * t),
            "spare": layout.alloc_values(t * t),
            "last": LONG_AGO,
            "before": STOP_DONE,
        }


@acts(Accum, "accum")
def accum(net, u, c):
    if u.scans:
        return scan(net, u, c)
    out = target(net, u, 0)
    if u.leaving:
        if not ready(out, c):
            return BLOCKED
        push_bare(net, out, c, u.leaving - 1)
        u.leaving = 0
        return BUSY
    tiles = u.tiles
    drained = u.drained
    flags = 0
    if tiles and c >= u.start:
        flags = drain(net, u, out, c)
    if c < u.last + u.interval:
        return flags
    channel = source(net, u, 0)
    if not visible(net, channel, c):
        return flags
    beat = head(net, channel)
    if under_way(net, u, c):
        return flags
    if tiles and (beat.stop > u.top or (beat.data and u.index >= drained)):
        return flags
    if not beat.data:
        take(net, channel, c)
        bare(net, u, beat.stop, c)
        return BUSY
    index = u.index
    if not accumulate(net, u, beat, c):
        return flags
    take(net, channel, c)
    u.before = beat.stop
    wake(net, u.id, c + u.interval)
    wake(net, u.id, c + u.loop)
    if beat.stop > u.top:
        begin_drain(net, u, c, index + 1)
    return BUSY


@fast
def under_way(net, u, c):
    """Rule 6: whether a beat of the next one's accumulator is in the function's pipeline."""
    if u.loop == 1 or u.index >= u.depth:
        return False
    return c < Accumulator(net, u.memory, u.index).free


@fast
def bare(net, u, s, c):
    """A beat without data (section 3.4): it may end a group, or stand for an empty one."""
    before = u.before
    u.before = s
    if s == STOP_DONE:
        u.leaving = 1 + s
        reset_group(net, u)
    elif s > u.top:
        stop = kept(u, s)
        if u.high:
            Accumulator(net, u.memory, u.high - 1).stop = stop
            begin_drain(net, u, c, u.high)
        elif (s > u.top + 1 and before > u.top + 1) or u.rows == 0:
            u.leaving = 1 + stop
        else:
            u.initial = 1 + stop
            begin_drain(net, u, c, -(-u.rows // net.t) * -(-u.cols // net.t))


@fast
def scan(net, u, c):
    """An accumulator leaves after each of its beats."""
    flags = 0
    if u.leaving and c >= u.start:
        flags = leave(net, u, target(net, u, 0), c)
    if u.leaving or c < u.last + u.interval:
        return flags
    channel = source(net, u, 0)
    if not visible(net, channel, c) or under_way(net, u, c):
        return flags
    beat = head(net, channel)
    index = u.index
    if beat.data:
        if not accumulate(net, u, beat, c):
            return flags
        u.held = index + 1
        u.start = c + u.latency
    else:
        u.held = 0
        u.start = c + 1
    if beat.stop > u.top:
        reset_group(net, u)
    u.leaving = 1 + beat.stop
    take(net, channel, c)
    wake(net, u.id, u.start)
    return BUSY


# ---- rules 1 to 5 of section 3.1


@fast
def accumulate(net, u, beat, c):
    """Take a beat into its accumulator; False: a fault."""
    index = u.index
    if index >= u.depth:
        fail(net, u, FAULT_ACCUMULATORS, c)
        return False
    initialising = opens(net, u)
    if not fits(net, u, beat.stop, initialising):
        fail(net, u, FAULT_STOP, c)
        return False
    into = Accumulator(net, u.memory, index)
    add(net, u, beat, into, u.value + index * net.t * net.t, initialising)
    into.stop = kept(u, beat.stop)
    into.free = c + u.loop
    u.last = c
    if beat.stop <= u.top:
        group_step(net, u, beat.stop)
    return True


@fast
def opens(net, u):
    """Rule 1: whether the next beat is the first of its accumulator."""
    for d in range(u.top + 1):
        if u.reduce >> d & 1 and not Dimension(net, u.dimensions, d).first:
            return False
    return True


@fast
def add(net, u, beat, into, value, initialising):
    """Rule 1: the function, with its identity where the tile has no value."""
    if net.has_values:
        size = net.t * net.t
        new = beat.value
        if u.identity and (beat.rows < net.t or beat.cols < net.t):
            copy_values(net, new, u.spare, size)
            new = u.spare
            pad_tile(net, new, beat.rows, beat.cols, u.identity)
        if initialising and u.starts:
            fill_values(net, value, size, u.init)
        if initialising and not u.starts:
            copy_values(net, new, value, size)
        else:
            compute(net, u.kernel, value, new, value)
    into.rows = beat.rows if initialising else max(into.rows, beat.rows)
    into.cols = beat.cols if initialising else max(into.cols, beat.cols)


@fast
def kept(u, s):
    """Rule 2: kept dimensions below `s`."""
    n = 0
    for d in range(min(s, u.top + 1)):
        n += 1 - (u.reduce >> d & 1)
    return n + max(s - u.top - 1, 0)


@fast
def group_step(net, u, s):
    """Rule 3: the next beat's accumulator, after a data beat of stop `s` <= top."""
    index = u.index + 1
    u.high = max(u.high, index)
    if u.reduce >> s & 1:
        goes_on = Dimension(net, u.dimensions, s)
        index = goes_on.start
        goes_on.first = 0
    for d in range(s):
        inner = Dimension(net, u.dimensions, d)
        inner.first = 1
        inner.start = index
    u.index = index


@fast
def reset_group(net, u):
    """Rule 4."""
    u.index = 0
    u.high = 0
    for d in range(u.top + 1):
        dimension = Dimension(net, u.dimensions, d)
        dimension.first = 1
        dimension.start = 0


@fast
def fits(net, u, s, initialising):
    """Rule 5: whether a beat of stop `s` stands where it stood in the passes before."""
    if not initialising:
        opened = Accumulator(net, u.memory, u.index)
        if u.index >= u.high or min(opened.stop, u.lowest) != min(s, u.lowest):
            return False
    return s < u.outer or u.index + 1 >= u.high


# ---- what leaves


@fast
def begin_drain(net, u, c, tiles):
    u.tiles = tiles
    u.drained = 0
    u.start = c + u.latency
    u.last = c
    reset_group(net, u)
    wake(net, u.id, c + u.interval)
    wake(net, u.id, u.start)


@fast
def drain(net, u, out, c):
    """The next tile of the group that drains."""
    if not ready(out, c):
        return BLOCKED
    i = u.drained
    if u.initial:
        push_initial(net, u, out, c, i)
    else:
        tile = Accumulator(net, u.memory, i)
        push_masked(net, u, out, c, tile.stop, tile, u.value + i * net.t * net.t)
    u.drained = i + 1
    if u.drained == u.tiles:
        u.tiles = 0
        u.initial = 0
    return BUSY


@fast
def push_masked(net, u, out, c, stop, tile, value):
    """A tile leaves; its invalid elements are zero."""
    if u.identity or u.starts:
        pad_tile(net, value, tile.rows, tile.cols, 0)
    push_tile(net, out, c, stop, tile.rows, tile.cols, value)


@fast
def push_initial(net, u, out, c, i):
    """Tile `i` of an empty group's logical tile of identities."""
    t = net.t
    width = (u.cols + t - 1) // t
    rows = min(u.rows - i // width * t, t)
    cols = min(u.cols - i % width * t, t)
    stop = 1 if i % width == width - 1 else 0
    if i == u.tiles - 1:
        stop = u.initial - 1
    fill_values(net, u.spare, t * t, u.init)
    if u.init:
        pad_tile(net, u.spare, rows, cols, 0)
    push_tile(net, out, c, stop, rows, cols, u.spare)


@fast
def leave(net, u, out, c):
    """Send the state that a scan holds."""
    if not ready(out, c):
        return BLOCKED
    if u.held:
        size = net.t * net.t
        copy_values(net, u.value + (u.held - 1) * size, u.spare, size)
        tile = Accumulator(net, u.memory, u.held - 1)
        push_masked(net, u, out, c, u.leaving - 1, tile, u.spare)
    else:
        push_bare(net, out, c, u.leaving - 1)
    u.leaving = 0
    return BUSY
