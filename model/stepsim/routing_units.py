"""Partition, parallelize, reassemble, eager merge: a token is moved in one cycle, the switch's.

The arrival of a token is the cycle from which it is visible in its channel.
"""

from .calendar import wake
from .channels import END, TOKEN, WAIT, close, finish, goes_on, peek, room, send, sleep, slot, take
from .kinds import steps
from .shape_units import HELD_STOP, HELD_WORD, HELD_WORD2, hold
from .state import (
    C_CLOSED,
    C_COUNT,
    C_WANTS,
    EMPTY_DIMENSION,
    ENDS_EARLY,
    NO_UNIT,
    PHASE,
    S_STOP,
    S_VISIBLE,
    S_WORD,
    S_WORD2,
    STARVED,
    STOPS_DIFFER,
    U_IN_AT,
    U_ON,
    U_OUT_AT,
    U_WHY,
    fail,
    in_memory,
    inner,
    moved,
    selected,
    transfer_cycles,
)

# columns of par; TILES: tiles of a token (0: it has none, 1: the first word, 2: both); ORDER: list
# of the inputs selected, in aux; MISSES: of a partition, list of steps by output (`_end_early`)
PORTS, RANK, TILES, WRITE_BACK, ORDER, MISSES = range(6)
# registers (1 to 3 hold the token)
SEL, SEL2, SEL_STOP, NEXT, COUNT = range(4, 9)

FREE, UNIT, TAKE, SEND, ALL, HEAD, MORE, NAME = range(8)
SWITCH = 1
"""Cycles of a switch."""


@inner
def _load_cycles(net, u, s):
    """Cycles to read the token in slot s from a memory unit."""
    tiles = net.par[u, TILES]
    cycles = 0
    if tiles > 0 and in_memory(net.slot[s, S_WORD]):
        cycles += transfer_cycles(net, net.slot[s, S_WORD])
    if tiles > 1 and in_memory(net.slot[s, S_WORD2]):
        cycles += transfer_cycles(net, net.slot[s, S_WORD2])
    return cycles


@inner
def _hold_moved(net, u, c, t):
    """Take the head of c into the registers, its tiles where the unit puts them; returns the cycles
    that takes.
    """
    reg = net.reg[u]
    par = net.par[u]
    cycles = 0
    hold(net, u, c, t)
    if par[TILES] > 0:
        reg[HELD_WORD] = moved(reg[HELD_WORD], par[WRITE_BACK])
        cycles += transfer_cycles(net, reg[HELD_WORD]) if par[WRITE_BACK] else 0
    if par[TILES] > 1:
        reg[HELD_WORD2] = moved(reg[HELD_WORD2], par[WRITE_BACK])
        cycles += transfer_cycles(net, reg[HELD_WORD2]) if par[WRITE_BACK] else 0
    return cycles


@inner
def _take_selector(net, u, c, t):
    """Take a selector into the registers; WAIT, TOKEN or END."""
    reg = net.reg[u]
    seen = peek(net, u, c, t)
    if seen == TOKEN:
        s = slot(net, c)
        reg[SEL] = net.slot[s, S_WORD]
        reg[SEL2] = net.slot[s, S_WORD2]
        reg[SEL_STOP] = net.slot[s, S_STOP]
        take(net, c, t)
    return seen


@inner
def _send_selected(net, u, t):
    """Send the token to one selected output after the other; False: one has no room."""
    reg = net.reg[u]
    par = net.par[u]
    stop = min(reg[HELD_STOP], par[RANK])
    while reg[NEXT] < par[PORTS]:
        if selected(reg[SEL], reg[SEL2], reg[NEXT]):
            out = net.outs[net.unit[u, U_OUT_AT] + reg[NEXT]]
            if not room(net, u, out, t):
                return False
            send(net, out, t, t, stop, reg[HELD_WORD], reg[HELD_WORD2])
        reg[NEXT] += 1
    return True


@inner
def _end_early(net, u, t, missed):
    """The outputs that get no more token, and whose readers miss at least so many of the sender's
    last steps, end now: such a reader goes on from the last step of the sender that it has seen.

    The steps of a token are two: it is read from its memory unit, and switched.
    """
    rest = net.ins[net.unit[u, U_IN_AT] + 1]
    if net.chan[rest, C_CLOSED] < 0 or net.chan[rest, C_COUNT] > 0:
        return
    reg = net.reg[u]
    for i in range(net.par[u, PORTS]):
        if net.aux[net.par[u, MISSES] + i] >= missed and not selected(reg[SEL], reg[SEL2], i):
            close(net, net.outs[net.unit[u, U_OUT_AT] + i], t)


@steps("partition")
@inner
def partition(net, u, t):
    """Takes a selector; for each token of its unit: reads it, takes it, switches, sends it to one
    selected output after the other.
    """
    reg = net.reg[u]
    par = net.par[u]
    first = net.unit[u, U_IN_AT]
    c = net.ins[first]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, _take_selector(net, u, net.ins[first + 1], t)):
                return
            reg[PHASE] = UNIT
        if reg[PHASE] == UNIT:
            seen = peek(net, u, c, t)
            if seen == WAIT:
                return
            if seen == END:
                return fail(net, u, NO_UNIT)
            reg[PHASE] = TAKE
            _end_early(net, u, t, 2)
            cycles = _load_cycles(net, u, slot(net, c))
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if reg[PHASE] == TAKE:
            _end_early(net, u, t, 1)
            cycles = _hold_moved(net, u, c, t)
            s = reg[HELD_STOP]
            if s >= par[RANK] and s != par[RANK] + reg[SEL_STOP]:
                return fail(net, u, STOPS_DIFFER)
            reg[PHASE] = SEND
            reg[NEXT] = 0
            if reg[SEL] != 0 or reg[SEL2] != 0:
                cycles += SWITCH
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if not _send_selected(net, u, t):
            return
        reg[PHASE] = FREE if reg[HELD_STOP] >= par[RANK] else UNIT


@steps("parallelize")
@inner
def parallelize(net, u, t):
    """Takes a token and sends it to the output whose turn it is: seen from the next cycle, the
    switch's. The end of a unit passes the turn on. A tile stays where it lies.
    """
    reg = net.reg[u]
    par = net.par[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, peek(net, u, c, t)):
                return
            hold(net, u, c, t)
            reg[PHASE] = SEND
        out = net.outs[net.unit[u, U_OUT_AT] + reg[NEXT]]
        if not room(net, u, out, t):
            return
        stop = min(reg[HELD_STOP], par[RANK])
        send(net, out, t, t + SWITCH, stop, reg[HELD_WORD], reg[HELD_WORD2])
        if reg[HELD_STOP] >= par[RANK]:
            reg[NEXT] = reg[NEXT] + 1 if reg[NEXT] + 1 < par[PORTS] else 0
        reg[PHASE] = FREE


@inner
def _sort_selected(net, u):
    """Order the inputs selected by the arrival of their heads, equal ones by index."""
    first = net.unit[u, U_IN_AT]
    order = net.par[u, ORDER]
    for i in range(1, net.reg[u, COUNT]):
        x = net.aux[order + i]
        arrival = net.slot[slot(net, net.ins[first + x]), S_VISIBLE]
        j = i
        while (
            j > 0
            and net.slot[slot(net, net.ins[first + net.aux[order + j - 1]]), S_VISIBLE] > arrival
        ):
            net.aux[order + j] = net.aux[order + j - 1]
            j -= 1
        net.aux[order + j] = x


@inner
def _choose(net, u, t):
    """Take a selector and wait for the heads of its inputs; False: the unit waits, or has ended."""
    reg = net.reg[u]
    par = net.par[u]
    first = net.unit[u, U_IN_AT]
    if reg[PHASE] == FREE:
        seen = _take_selector(net, u, net.ins[first + par[PORTS]], t)
        if seen == END:
            finish(net, u, t)
        if seen != TOKEN:
            return False
        reg[COUNT] = 0
        for i in range(par[PORTS]):
            if selected(reg[SEL], reg[SEL2], i):
                net.aux[par[ORDER] + reg[COUNT]] = i
                reg[COUNT] += 1
        if reg[COUNT] == 0:
            fail(net, u, EMPTY_DIMENSION)
            return False
        reg[PHASE] = ALL
    for i in range(reg[COUNT]):
        seen = peek(net, u, net.ins[first + net.aux[par[ORDER] + i]], t)
        if seen == END:
            fail(net, u, NO_UNIT)
        if seen != TOKEN:
            return False
    _sort_selected(net, u)
    reg[NEXT] = 0
    reg[PHASE] = HEAD
    return True


@steps("reassemble")
@inner
def reassemble(net, u, t):
    """Takes a selector, waits until all selected inputs have arrived, and sends their units in this
    order, each a switch after its arrival.
    """
    reg = net.reg[u]
    par = net.par[u]
    first = net.unit[u, U_IN_AT]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if (reg[PHASE] == FREE or reg[PHASE] == ALL) and not _choose(net, u, t):
            return
        c = net.ins[first + net.aux[par[ORDER] + reg[NEXT]]]
        if reg[PHASE] == HEAD:
            s = slot(net, c)
            ready = net.slot[s, S_VISIBLE] + SWITCH + _load_cycles(net, u, s)
            reg[PHASE] = TAKE
            if ready > t:
                return sleep(net, u, ready)
        if reg[PHASE] == MORE:
            seen = peek(net, u, c, t)
            if seen == WAIT:
                return
            if seen == END:
                return fail(net, u, ENDS_EARLY)
            reg[PHASE] = TAKE
            cycles = _load_cycles(net, u, slot(net, c))
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if reg[PHASE] == TAKE:
            cycles = _hold_moved(net, u, c, t)
            reg[PHASE] = SEND
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if not room(net, u, out, t):
            return
        stop = min(reg[HELD_STOP], par[RANK])
        ended = reg[HELD_STOP] >= par[RANK]
        last = reg[NEXT] == reg[COUNT] - 1
        send(
            net,
            out,
            t,
            t,
            par[RANK] + 1 + reg[SEL_STOP] if ended and last else stop,
            reg[HELD_WORD],
            reg[HELD_WORD2],
        )
        if ended:
            reg[NEXT] += 1
        reg[PHASE] = MORE if not ended else FREE if last else HEAD


@inner
def _earliest(net, u, t):
    """The input whose head has arrived first, equal ones by index; -1: none has yet (the unit is
    woken then), -2: all have ended.
    """
    first = net.unit[u, U_IN_AT]
    n = net.par[u, PORTS]
    best = -1
    earliest = t + 1
    ended = True
    net.unit[u, U_WHY] = STARVED
    for i in range(n):
        c = net.ins[first + i]
        if net.chan[c, C_COUNT] > 0:
            seen = net.slot[slot(net, c), S_VISIBLE]
            ended = False
            if seen < earliest:
                best = i
                earliest = seen
            elif seen > t:
                wake(net, u, seen)
        elif net.chan[c, C_CLOSED] < 0:
            net.chan[c, C_WANTS] |= 1
            ended = False
        else:
            continue
        if net.chan[c, C_COUNT] == 0:
            net.unit[u, U_ON] = c
    return -2 if ended else best


@steps("eager_merge")
@inner
def eager_merge(net, u, t):
    """Takes the unit that arrived first: says which on output 1, then sends its tokens on output 0,
    a cycle apart.
    """
    reg = net.reg[u]
    par = net.par[u]
    first = net.unit[u, U_IN_AT]
    out = net.unit[u, U_OUT_AT]
    while True:
        if reg[PHASE] == FREE:
            i = _earliest(net, u, t)
            if i == -2:
                return finish(net, u, t)
            if i == -1:
                return
            for k in range(par[PORTS]):  # nothing else wakes it inside the unit
                net.chan[net.ins[first + k], C_WANTS] &= 2
            reg[NEXT] = i
            reg[PHASE] = NAME
        if reg[PHASE] == NAME:
            if not room(net, u, net.outs[out + 1], t):
                return
            i = reg[NEXT]
            send(
                net,
                net.outs[out + 1],
                t,
                t,
                0,
                1 << i if i < 64 else 0,
                1 << (i - 64) if i >= 64 else 0,
            )
            reg[PHASE] = UNIT
        if reg[PHASE] == UNIT:
            c = net.ins[first + reg[NEXT]]
            seen = peek(net, u, c, t)
            if seen == WAIT:
                return
            if seen == END:
                return fail(net, u, ENDS_EARLY)
            hold(net, u, c, t)
            reg[PHASE] = SEND
        if not room(net, u, net.outs[out], t):
            return
        send(net, net.outs[out], t, t, reg[HELD_STOP], reg[HELD_WORD], reg[HELD_WORD2])
        if reg[HELD_STOP] >= par[RANK]:
            reg[PHASE] = FREE
        else:
            reg[PHASE] = UNIT
            return sleep(net, u, t + 1)
