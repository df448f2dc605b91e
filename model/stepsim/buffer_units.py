"""Bufferize and streamify: one token a cycle into and out of buffers."""

from .channels import goes_on, heads, peek, room, send, sleep, slot, take
from .kinds import steps
from .memory_units import nest_stop
from .state import G_STORED, PHASE, S_STOP, S_WORD, S_WORD2, U_IN_AT, U_OUT_AT, inner

# columns of par; SHAPE and STRIDE: the NEST trip counts and strides of an affine read, SIZE its
# tokens (0: read as stored)
RANK, REPEAT, DIMS, TIMES, LEVEL, SHAPE, STRIDE, NEST, SIZE = range(9)
# registers
FIRST, LENGTH, STOP, INDEX, ROUND, PLACE = range(1, 7)

FREE, HOLD, LEAVE, TURN = range(4)


@steps("bufferize")
@inner
def bufferize(net, u, t):
    """Takes tokens, one a cycle within a buffer; with the last sends the buffer."""
    reg = net.reg[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    out = net.outs[net.unit[u, U_OUT_AT]]
    rank = net.par[u, RANK]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, peek(net, u, c, t)):
                return
            s = slot(net, c)
            # Several units fill buffers at the same time, so the entries of a buffer are linked.
            entry = net.g[G_STORED]
            net.g[G_STORED] += 1
            row = net.store[entry]
            row[0] = net.slot[s, S_WORD]
            row[1] = net.slot[s, S_WORD2]
            row[2] = net.slot[s, S_STOP]
            row[3] = -1
            if reg[LENGTH] == 0:
                reg[FIRST] = entry
            else:
                net.store[reg[INDEX], 3] = entry
            reg[INDEX] = entry
            reg[LENGTH] += 1
            reg[STOP] = net.slot[s, S_STOP] - rank
            take(net, c, t)
            if reg[STOP] < 0:
                return sleep(net, u, t + 1)
            reg[PHASE] = HOLD
        if not room(net, u, out, t):
            return
        send(net, out, t, t, reg[STOP], reg[FIRST], reg[LENGTH])
        reg[PHASE] = FREE
        reg[LENGTH] = 0


@inner
def _entry(net, u, place):
    """Entry of the place-th token of an affine read."""
    par = net.par[u]
    entry = net.reg[u, FIRST]
    left = 0
    for d in range(par[NEST] - 1, -1, -1):
        n = net.aux[par[SHAPE] + d]
        left += place % n * net.aux[par[STRIDE] + d]
        place //= n
    while left > 0:
        entry = net.store[entry, 3]
        left -= 1
    return entry


@inner
def _next(net, u):
    """The next token's entry and its stop inside the buffer; -1: it is the last of this pass."""
    reg = net.reg[u]
    par = net.par[u]
    if par[SIZE] == 0:
        entry = reg[INDEX]
        reg[INDEX] = net.store[entry, 3]
        return entry, -1 if reg[INDEX] < 0 else net.store[entry, 2]
    entry = _entry(net, u, reg[PLACE])
    reg[PLACE] += 1
    return entry, -1 if reg[PLACE] == par[SIZE] else nest_stop(
        net.aux, par[SHAPE], par[NEST], reg[PLACE] - 1
    )


@inner
def _show(net, u, s):
    """Start at the first token of the buffer in slot s."""
    reg = net.reg[u]
    reg[FIRST] = net.slot[s, S_WORD]
    reg[STOP] = net.slot[s, S_STOP]
    reg[INDEX] = net.slot[s, S_WORD]
    reg[ROUND] = 0
    reg[PLACE] = 0


@steps("streamify")
@inner
def streamify(net, u, t):
    """Shows a buffer, sends its tokens one a cycle, as often as the trip counts say, then takes the
    buffer.

    The last token of a pass gets stop `rank`, one more for each trip count that ends with it, and
    after the last pass the buffer's own.
    """
    reg = net.reg[u]
    par = net.par[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    out = net.outs[net.unit[u, U_OUT_AT]]
    if reg[PHASE] == LEAVE:
        take(net, c, t)
        reg[PHASE] = FREE
    if reg[PHASE] == FREE:
        if not goes_on(net, u, t, peek(net, u, c, t)):
            return
        _show(net, u, slot(net, c))
        reg[PHASE] = HOLD
    if not room(net, u, out, t):
        return
    entry, stop = _next(net, u)
    if stop < 0:
        stop = par[RANK] + nest_stop(net.aux, par[REPEAT], par[DIMS], reg[ROUND])
        reg[ROUND] += 1
        reg[INDEX] = reg[FIRST]
        reg[PLACE] = 0
        if reg[ROUND] == par[TIMES]:
            stop += reg[STOP]
            reg[PHASE] = LEAVE
    send(net, out, t, t, stop, net.store[entry, 0], net.store[entry, 1])
    sleep(net, u, t + 1)


@steps("streamify_ref")
@inner
def streamify_by_reference(net, u, t):
    """Shows a buffer; for each token of the reference takes it and sends the buffer's, one a cycle;
    a stop of at least `level` takes the buffer too.
    """
    reg = net.reg[u]
    par = net.par[u]
    out = net.outs[net.unit[u, U_OUT_AT]]
    c = net.ins[net.unit[u, U_IN_AT]]
    ref = net.ins[net.unit[u, U_IN_AT] + 1]
    if reg[PHASE] == LEAVE:
        take(net, c, t)
        reg[PHASE] = FREE
    if reg[PHASE] == FREE or reg[PHASE] == TURN:
        if not goes_on(net, u, t, heads(net, u, t)):
            return
        _show(net, u, slot(net, c))
        reg[STOP] = net.slot[slot(net, ref), S_STOP]
        take(net, ref, t)
        reg[PHASE] = HOLD
    if not room(net, u, out, t):
        return
    entry, stop = _next(net, u)
    if stop < 0:
        stop = par[RANK] + reg[STOP]
        reg[PHASE] = LEAVE if reg[STOP] >= par[LEVEL] else TURN
    send(net, out, t, t, stop, net.store[entry, 0], net.store[entry, 1])
    sleep(net, u, t + 1)
