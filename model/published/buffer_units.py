"""Bufferize and streamify: one token a cycle into and out of buffers."""

from .channels import END, WAIT, finish, peek, room, send, sleep, slot, take
from .memory_units import nest_stop
from .state import G_STORED, PHASE, S_STOP, S_WORD, S_WORD2, U_IN_AT, U_OUT_AT, inner

# columns of par
RANK, REPEAT, DIMS, TIMES = range(4)
# registers
FIRST, LENGTH, STOP, INDEX, ROUND = range(1, 6)

FREE, HOLD, LEAVE = range(3)


@inner
def bufferize(net, u, t):
    """Takes tokens, one a cycle within a buffer; with the last sends the buffer."""
    reg, c, out, rank = net.reg[u], net.ins[net.unit[u, U_IN_AT]], net.outs[net.unit[u, U_OUT_AT]], net.par[u, RANK]
    while True:
        if reg[PHASE] == FREE:
            seen = peek(net, u, c, t)
            if seen == WAIT:
                return
            if seen == END:
                return finish(net, u, t)
            s = slot(net, c)
            # Several units fill buffers at the same time, so the entries of a buffer are linked.
            entry = net.g[G_STORED]
            net.g[G_STORED] += 1
            row = net.store[entry]
            row[0], row[1], row[2], row[3] = net.slot[s, S_WORD], net.slot[s, S_WORD2], net.slot[s, S_STOP], -1
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
        reg[PHASE], reg[LENGTH] = FREE, 0


@inner
def streamify(net, u, t):
    """Shows a buffer, sends its tokens one a cycle, as often as the trip counts say, then takes the buffer.

    The last token of a pass gets stop `rank`, one more for each trip count that ends with it, and after the last pass
    the buffer's own.
    """
    reg, par, c, out = net.reg[u], net.par[u], net.ins[net.unit[u, U_IN_AT]], net.outs[net.unit[u, U_OUT_AT]]
    if reg[PHASE] == LEAVE:
        take(net, c, t)
        reg[PHASE] = FREE
    if reg[PHASE] == FREE:
        seen = peek(net, u, c, t)
        if seen == WAIT:
            return
        if seen == END:
            return finish(net, u, t)
        s = slot(net, c)
        reg[FIRST], reg[STOP], reg[INDEX], reg[ROUND], reg[PHASE] = net.slot[s, S_WORD], net.slot[s, S_STOP], net.slot[s, S_WORD], 0, HOLD
    if not room(net, u, out, t):
        return
    row = net.store[reg[INDEX]]
    stop = row[2]
    reg[INDEX] = row[3]
    if reg[INDEX] < 0:
        stop = par[RANK] + nest_stop(net.aux, par[REPEAT], par[DIMS], reg[ROUND])
        reg[ROUND] += 1
        reg[INDEX] = reg[FIRST]
        if reg[ROUND] == par[TIMES]:
            stop += reg[STOP]
            reg[PHASE] = LEAVE
    send(net, out, t, t, stop, row[0], row[1])
    sleep(net, u, t + 1)
