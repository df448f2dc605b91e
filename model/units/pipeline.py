"""`map`, `row_reduce`, `matmul` and users' own units: inputs, a computation of latency L, an output
queue (docs/timing.md section 2).
"""

from __future__ import annotations

from ...machine import beat as beats
from ...machine.functions import identity_bits
from ...machine.kinds import queue_entries
from .. import kernels
from ..records import fast, singles
from .state import (
    BLOCKED,
    BUSY,
    FAULT_STOP,
    LONG_AGO,
    Beat,
    acts,
    agree,
    fail,
    head,
    push_entry,
    ready,
    source,
    take,
    target,
    unit,
    visible,
    wake,
)
from .tiles import compute, copy_values, fill_values, pad_tile

WHOLE, SPREAD_COLS, SPREAD_ROWS, SPREAD_BOTH, CONSTANT = range(5)  # the second operand
SPREADS = {"cols": SPREAD_COLS, "rows": SPREAD_ROWS, "both": SPREAD_BOTH}


@unit
class Pipe:
    """State of a pipelined unit."""

    latency: int
    interval: int
    last: int  # cycle of the last take
    queue: int  # `Beat`s: `entries` places, `count` in use from `first` on
    entries: int
    first: int
    count: int
    kernel: int  # its address
    joined: int  # both operands come in a tuple
    multiplies: int  # `matmul`
    transposed: int
    reduces: int  # `row_reduce`
    spread: int  # how the second operand becomes a tile
    over: int  # likewise the first one
    bits: int  # of the constant operand, or of a reduction's identity
    spare: int  # values of three tiles

    @staticmethod
    def begin(layout, u):
        p = u.kind
        t = layout.graph.t
        latency, interval = p.pipeline(t)
        entries = queue_entries(latency, interval)
        own = {
            "latency": latency,
            "interval": interval,
            "entries": entries,
            "last": LONG_AGO,
            "queue": layout.beats(beats.Tile(t, "fp32"), entries),
        }
        if u.kind.name == "matmul":
            kernel = kernels.matmul_address(p.transposed) if layout.values else 0
            return own | {"multiplies": 1, "transposed": p.transposed, "kernel": kernel}
        fn = p.fn if u.kind.name in ("map", "row_reduce") else p.values
        own |= {
            "kernel": kernels.address(fn) if layout.values else 0,
            "spare": layout.alloc_values(3 * t**2),
        }
        if u.kind.name == "row_reduce":
            return own | {"reduces": 1, "bits": identity_bits(fn)}
        if u.kind.name == "map":
            own |= {"joined": p.tuple_in, "spread": SPREADS.get(p.spread, WHOLE)}
            own["over"] = SPREADS.get(p.first, WHOLE)
            if p.constant is not None:
                own |= {"spread": CONSTANT, "bits": p.constant}
        return own


@acts(Pipe, "map", "row_reduce", "matmul")
def pipeline(net, u, c):
    credit = u.count
    flags = deliver(net, u, c) if credit else 0
    if credit == u.entries or c < u.last + u.interval:
        return flags
    a = source(net, u, 0)
    b = source(net, u, u.n_ins - 1)
    if not visible(net, a, c) or not visible(net, b, c):
        return flags
    x = head(net, a)
    y = head(net, b)
    if not agree(x, y):
        fail(net, u, FAULT_STOP, c)
        return flags
    take(net, a, c)
    if u.n_ins == 2:
        take(net, b, c)
    at = u.first + u.count
    entry = Beat(net, u.queue, at if at < u.entries else at - u.entries)
    entry.due = c + u.latency
    entry.stop = x.stop
    entry.data = x.data
    if x.data:
        result(net, u, x, y, entry)
    u.count += 1
    u.last = c
    wake(net, u.id, entry.due)
    wake(net, u.id, c + u.interval)
    return BUSY


@fast
def deliver(net, u, c):
    """Rule 2: the oldest result leaves."""
    entry = Beat(net, u.queue, u.first)
    if entry.due > c:
        return 0
    out = target(net, u, 0)
    if not ready(out, c):
        return BLOCKED
    push_entry(net, out, c, entry)
    u.first = u.first + 1 if u.first + 1 < u.entries else 0
    u.count -= 1
    return BUSY


@fast
def result(net, u, x, y, entry):
    """The tile of an entry, from the beats of its operands."""
    y_rows = y.rows
    y_cols = y.cols
    y_value = y.value
    if u.joined:
        y_rows = y.numbers[2]
        y_cols = y.numbers[3]
        y_value += net.t * net.t
    entry.rows = x.rows
    entry.cols = x.cols
    if u.over & SPREAD_ROWS:
        entry.rows = y_rows
    if u.over & SPREAD_COLS:
        entry.cols = y_cols
    if u.multiplies:
        entry.cols = y_rows if u.transposed else y_cols
    if net.has_values:
        if u.reduces:
            reduce_rows(net, u, x.value, entry.value, x.cols)
        else:
            t = net.t
            a = spread_tile(net, u.over, x.value, u.spare + t * t)
            compute(net, u.kernel, a, second_operand(net, u, y_value), entry.value)
    if u.reduces:
        entry.cols = min(x.cols, 1)
    pad_tile(net, entry.value, entry.rows, entry.cols, 0)


@fast
def second_operand(net, u, value):
    """Place of the values of the second operand, once its column, row, element or the constant is
    spread over a tile.
    """
    if u.spread == CONSTANT:
        fill_values(net, u.spare, net.t * net.t, u.bits)
        return u.spare
    return spread_tile(net, u.spread, value, u.spare)


@fast
def spread_tile(net, spread, value, spare):
    """Place of a tile's values, in ``spare`` where its row or column is repeated."""
    if spread == WHOLE:
        return value
    t = net.t
    values = singles(net.values)
    down = 0 if spread & SPREAD_ROWS else t
    along = 0 if spread & SPREAD_COLS else 1
    for r in range(t):
        for k in range(t):
            values[spare + r * t + k] = values[value + r * down + k * along]
    return spare


@fast
def reduce_rows(net, u, value, out, cols):
    """A balanced tree over the columns of each row into the first column; columns from `cols` on
    are the identity.
    """
    t = net.t
    a = u.spare
    b = a + t * t
    z = a + 2 * t * t
    values = singles(net.values)
    copy_values(net, value, z, t * t)
    pad_tile(net, z, t, cols, u.bits)
    width = t // 2
    while width:
        for r in range(t):
            for k in range(width):
                values[a + r * t + k] = values[z + r * t + 2 * k]
                values[b + r * t + k] = values[z + r * t + 2 * k + 1]
        compute(net, u.kernel, a, b, z)
        width //= 2
    copy_values(net, z, out, t * t)
