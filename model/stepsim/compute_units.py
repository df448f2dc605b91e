"""Map, accumulate, and both in one: the roofline.

One application takes max(load, compute, store) cycles: load = sum over operands in a memory unit of
ceil(bytes / onchip_bw); compute = ceil(FLOPs / compute_bw); store = ceil(bytes of the result /
onchip_bw) if the result is put into a memory unit.
"""

from .channels import TOKEN, WAIT, goes_on, heads, room, send, sleep, slot, take
from .kinds import steps
from .state import (
    PHASE,
    S_STOP,
    S_WORD,
    S_WORD2,
    SHAPES_DIFFER,
    STOPS_DIFFER,
    U_IN_AT,
    U_OUT_AT,
    ceil_div,
    fail,
    in_memory,
    inner,
    tile,
    tile_cols,
    tile_rows,
    tile_valid,
    transfer_cycles,
)

# columns of par
RULE, FLOPS, BW, WRITE_BACK, RANK, INIT, PAIRED, STRIDE, TILES = range(9)
# registers
LAST_A, LAST_B, CYCLES, RESULT, GROUP, OUT_STOP, STORE = range(1, 8)

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
) = range(10)
SHOW, WORK, EMIT = range(3)


@inner
def apply(net, u, a, b):
    """Set CYCLES (without the store) and RESULT of one application to tiles a and b (b < 0: one
    operand).
    """
    reg = net.reg[u]
    par = net.par[u]
    if a == reg[LAST_A] and b == reg[LAST_B]:
        return True
    rule = par[RULE]
    mu = par[WRITE_BACK]
    rows = tile_rows(a)
    cols = tile_cols(a)
    valid = tile_valid(a)
    load = transfer_cycles(net, a) if par[TILES] > 0 and in_memory(a) else 0
    if par[TILES] > 1 and b >= 0 and in_memory(b):
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
    cycles = max(load, ceil_div(flops * par[FLOPS], par[BW]))
    if rule == RETILE_ROW or rule == RETILE_COL:
        cycles = 0
    elif rule >= FIXED:
        cycles = max(1, load)
    if rule == ROW_OFFSET:
        valid = min(b, rows)
    elif rule == ROW_APPEND:
        valid += 1
    reg[LAST_A] = a
    reg[LAST_B] = b
    reg[CYCLES] = cycles
    reg[RESULT] = (
        (a * par[STRIDE] + b) & 0xFFFFFFFF if rule == ADDRESS else tile(rows, cols, valid, mu)
    )
    reg[STORE] = transfer_cycles(net, reg[RESULT]) if mu and rule < FIXED else 0
    return True


@inner
def both(net, u, t):
    """Peek the unit's one or two inputs: WAIT, TOKEN (with equal stops) or END; may fail."""
    first = net.unit[u, U_IN_AT]
    seen = heads(net, u, t)
    if seen != TOKEN or net.unit[u + 1, U_IN_AT] - first == 1:
        return seen
    if (
        net.slot[slot(net, net.ins[first]), S_STOP]
        != net.slot[slot(net, net.ins[first + 1]), S_STOP]
    ):
        fail(net, u, STOPS_DIFFER)
        return WAIT
    return seen


@inner
def _operands(net, u):
    """The words at the heads of the inputs, and the stop."""
    first = net.unit[u, U_IN_AT]
    s = slot(net, net.ins[first])
    if net.par[u, PAIRED]:
        return net.slot[s, S_WORD], net.slot[s, S_WORD2], net.slot[s, S_STOP]
    if net.unit[u + 1, U_IN_AT] - first == 2:
        return (
            net.slot[s, S_WORD],
            net.slot[slot(net, net.ins[first + 1]), S_WORD],
            net.slot[s, S_STOP],
        )
    return net.slot[s, S_WORD], -1, net.slot[s, S_STOP]


@inner
def take_all(net, u, t):
    for i in range(net.unit[u, U_IN_AT], net.unit[u + 1, U_IN_AT]):
        take(net, net.ins[i], t)


@steps("map")
@inner
def map_(net, u, t):
    """Shows its inputs, works, sends, and takes the inputs when the result has been accepted."""
    reg = net.reg[u]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == SHOW:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            a, b, reg[OUT_STOP] = _operands(net, u)
            if not apply(net, u, a, b):
                return
            reg[PHASE] = EMIT
            cycles = max(reg[CYCLES], reg[STORE])
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if not room(net, u, out, t):
            return
        send(net, out, t, t, reg[OUT_STOP], reg[RESULT], 0)
        take_all(net, u, t)
        reg[PHASE] = SHOW


@inner
def _gather(net, u):
    """The group's tile after this application: the sum's shape, or the tiles put together."""
    reg = net.reg[u]
    par = net.par[u]
    old = reg[GROUP]
    new = reg[RESULT]
    if par[RULE] == RETILE_ROW and old >= 0:
        new = tile(
            tile_rows(old) + tile_rows(new),
            tile_cols(new),
            tile_valid(old) + tile_valid(new),
            in_memory(new),
        )
    elif par[RULE] == RETILE_COL and old >= 0:
        new = tile(tile_rows(new), tile_cols(old) + tile_cols(new), tile_valid(new), in_memory(new))
    reg[GROUP] = new


@inner
def _accumulate(net, u, t, scan):
    """Shows its one or two inputs, works, takes them, and with the last of a group (scan: with each
    of it) sends the result.

    A stop s < rank stays inside the group, s = rank ends it with a plain value, s > rank with stop
    s - rank; a scan copies it. The application that sends also pays for storing a tile of the
    initial accumulator's size.
    """
    reg = net.reg[u]
    par = net.par[u]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == SHOW:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            a, b, s = _operands(net, u)
            if not apply(net, u, a, b):
                return
            reg[OUT_STOP] = s if scan else s - par[RANK]
            _gather(net, u)
            cycles = reg[CYCLES]
            if reg[OUT_STOP] >= 0 and par[WRITE_BACK] and par[RULE] < FIXED:
                cycles = max(cycles, transfer_cycles(net, par[INIT]))
            reg[PHASE] = WORK
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if reg[PHASE] == WORK:
            take_all(net, u, t)
            reg[PHASE] = EMIT if reg[OUT_STOP] >= 0 else SHOW
        if reg[PHASE] == EMIT:
            if not room(net, u, out, t):
                return
            send(net, out, t, t, reg[OUT_STOP], reg[GROUP], 0)
            if not scan or reg[OUT_STOP] >= par[RANK]:
                reg[GROUP] = -1
            reg[PHASE] = SHOW


@steps("map_accum", "accum")
@inner
def accum(net, u, t):
    """Reduces, and sends with the last of a group."""
    _accumulate(net, u, t, False)


@steps("scan")
@inner
def scan(net, u, t):
    """Reduces, and sends with each of a group."""
    _accumulate(net, u, t, True)
