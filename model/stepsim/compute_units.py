"""Map, accumulate, and both in one: the roofline.

One application takes max(load, compute, store) cycles: load = sum over operands in a memory unit of
ceil(bytes / onchip_bw); compute = ceil(FLOPs / compute_bw); store = ceil(bytes of the result /
onchip_bw) if the result is put into a memory unit.
"""

from ...machine.stepsim_kinds import NUMBERS, RULES
from ..records import extends, fast
from .channels import both, goes_on, head, room, send, sleep, take_all
from .state import (
    SHAPES_DIFFER,
    Unit,
    ceil_div,
    fail,
    in_memory,
    plain,
    source,
    steps,
    tile,
    tile_cols,
    tile_rows,
    tile_valid,
    transfer_cycles,
)

(
    ELEMENTWISE,
    MATMUL,
    MATMUL_T,
    ROW_REDUCE,
    RETILE_ROW,
    RETILE_COL,
    FIXED,
    ROW_OFFSET,
    ROW_APPEND,
    ADDRESS,
    NUMBER,
) = range(len(RULES))
MIN, MAX, LESS, EQUAL, ONE_HOT = range(len(NUMBERS))
SHOW, WORK, EMIT = range(3)


@extends(Unit)
class Compute:
    """State of a unit that applies a function."""

    function: int  # rule
    flops: int
    bw: int
    write_back_mu: int
    tiles: int
    tuple_in: int
    stride: int
    constant: int
    op: int
    rank: int
    init: int  # tile
    # the last application: operands, cycles without the store, those of the store, result
    last_a: int
    last_b: int
    cycles: int
    store: int
    result: int
    group: int  # tile
    stop: int

    @staticmethod
    def begin(layout, unit):
        p = unit.kind
        given = {
            "function": list(RULES).index(p.rule),
            "bw": p.compute_bw or layout.config.compute_bw,
            "last_a": -1,
            "last_b": -2,
            "group": -1,
        }
        if getattr(p, "tiles", None) is None:
            given["tiles"] = 2
        if p.name != "map":
            given["init"] = plain(tile)(p.init_rows, p.init_cols, 0, 0)
        return given


@fast
def _number(u, x, b):
    """A number, or the word of a selector of up to 62 targets."""
    n = u.constant
    op = u.op
    if u.function == ADDRESS:
        return (x * u.stride + (n if b < 0 else b)) & 0xFFFFFFFF
    if op == MIN:
        return min(x, n)
    if op == MAX:
        return max(x, n)
    if op == ONE_HOT:
        return 1 << x if x < n else 0
    return int(x < n) if op == LESS else int(x == n)


@fast
def apply(net, u, a, b):
    """Set the last application to one to tiles a and b (b < 0: one operand)."""
    if a == u.last_a and b == u.last_b:
        return True
    rule = u.function
    rows = tile_rows(a)
    cols = tile_cols(a)
    valid = tile_valid(a)
    load = transfer_cycles(net, a) if u.tiles > 0 and in_memory(a) else 0
    if u.tiles > 1 and b >= 0 and in_memory(b):
        load += transfer_cycles(net, b)
    flops = 0
    if rule == MATMUL or rule == MATMUL_T:
        k, n = (tile_rows(b), tile_cols(b)) if rule == MATMUL else (tile_cols(b), tile_rows(b))
        if k != cols:
            fail(net, u, SHAPES_DIFFER)
            return False
        flops = rows * cols * n
        cols = n
    elif rule == ELEMENTWISE:
        if b >= 0:
            r = tile_rows(b)
            c = tile_cols(b)
            if (r != rows and r != 1 and rows != 1) or (c != cols and c != 1 and cols != 1):
                fail(net, u, SHAPES_DIFFER)
                return False
            if rows == 1 and cols == 1:
                valid = tile_valid(b)
            # a tile without rows stays one
            rows = min(rows, r) if rows == 0 or r == 0 else max(rows, r)
            cols = max(cols, c)
        flops = rows * cols
    elif rule == ROW_REDUCE:
        flops = rows * cols
        cols = 1
    cycles = max(load, ceil_div(flops * u.flops, u.bw))
    if rule == RETILE_ROW or rule == RETILE_COL:
        cycles = 0
    elif rule >= FIXED:
        cycles = max(1, load)
    if rule == ROW_OFFSET:
        valid = min(b, rows)
    elif rule == ROW_APPEND:
        valid += 1
    u.last_a = a
    u.last_b = b
    u.cycles = cycles
    if rule >= ADDRESS:
        u.result = _number(u, a, b)
    else:
        u.result = tile(rows, cols, valid, u.write_back_mu)
    u.store = transfer_cycles(net, u.result) if u.write_back_mu and rule < FIXED else 0
    return True


@fast
def _operands(net, u):
    """The words at the heads of the inputs, and the stop."""
    token = head(net, source(net, u, 0))
    if u.tuple_in:
        return token.word, token.word2, token.stop
    if u.n_ins == 2:
        return token.word, head(net, source(net, u, 1)).word, token.stop
    return token.word, -1, token.stop


@steps(Compute, "map")
def map_(net, u, t):
    """Shows its inputs, works, sends, and takes the inputs when the result has been accepted."""
    while True:
        if u.phase == SHOW:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            a, b, u.stop = _operands(net, u)
            if not apply(net, u, a, b):
                return
            u.phase = EMIT
            cycles = max(u.cycles, u.store)
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if not room(net, u, 0, t):
            return
        send(net, u, 0, t, t, u.stop, u.result, 0)
        take_all(net, u, t)
        u.phase = SHOW


@fast
def _gather(u):
    """The group's tile after this application: the sum's shape, or the tiles put together."""
    old = u.group
    new = u.result
    if u.function == RETILE_ROW and old >= 0:
        new = tile(
            tile_rows(old) + tile_rows(new),
            tile_cols(new),
            tile_valid(old) + tile_valid(new),
            in_memory(new),
        )
    elif u.function == RETILE_COL and old >= 0:
        new = tile(tile_rows(new), tile_cols(old) + tile_cols(new), tile_valid(new), in_memory(new))
    u.group = new


@fast
def _accumulate(net, u, t, scan):
    """Shows its one or two inputs, works, takes them, and with the last of a group (scan: with each
    of it) sends the result.

    A stop s < rank stays inside the group, s = rank ends it with a plain value, s > rank with stop
    s - rank; a scan copies it. The application that sends also pays for storing a tile of the
    initial accumulator's size.
    """
    while True:
        if u.phase == SHOW:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            a, b, stop = _operands(net, u)
            if not apply(net, u, a, b):
                return
            u.stop = stop if scan else stop - u.rank
            _gather(u)
            cycles = u.cycles
            if u.stop >= 0 and u.write_back_mu and u.function < FIXED:
                cycles = max(cycles, transfer_cycles(net, u.init))
            u.phase = WORK
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if u.phase == WORK:
            take_all(net, u, t)
            u.phase = EMIT if u.stop >= 0 else SHOW
        if u.phase == EMIT:
            if not room(net, u, 0, t):
                return
            send(net, u, 0, t, t, u.stop, u.group, 0)
            if not scan or u.stop >= u.rank:
                u.group = -1
            u.phase = SHOW


@steps(Compute, "map_accum", "accum")
def accum(net, u, t):
    """Reduces, and sends with the last of a group."""
    _accumulate(net, u, t, False)


@steps(Compute, "scan")
def scan(net, u, t):
    """Reduces, and sends with each of a group."""
    _accumulate(net, u, t, True)
