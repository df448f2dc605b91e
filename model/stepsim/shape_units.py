"""Broadcast, flatten, promote, reshape, repeat, expand, zip: no cycles of their own but the
channel's one.
"""

from .channels import END, TOKEN, WAIT, finish, goes_on, heads, peek, room, send, sleep, slot, take
from .compute_units import both, take_all
from .kinds import steps
from .state import (
    PARTIAL_CHUNK,
    PHASE,
    S_STOP,
    S_WORD,
    S_WORD2,
    U_IN_AT,
    U_OUT_AT,
    fail,
    in_memory,
    inner,
    tile,
    tile_cols,
    tile_rows,
)

# columns of par
LO, HI = range(2)  # flatten
LEVEL = 0  # promote
DIM, CHUNK, PAD, ADD_OUTER = range(4)  # reshape
COUNT = 0  # repeat
RANK = 0  # expand
# registers of all: the token held, and where the unit is
HELD_STOP, HELD_WORD, HELD_WORD2, NEXT, PADS, STAMP = range(1, 7)

FREE, HOLD, LOOK, FILL, REST = range(5)


@inner
def hold(net, u, c, t):
    """Take the head of c into the registers."""
    reg = net.reg[u]
    s = slot(net, c)
    reg[HELD_STOP] = net.slot[s, S_STOP]
    reg[HELD_WORD] = net.slot[s, S_WORD]
    reg[HELD_WORD2] = net.slot[s, S_WORD2]
    take(net, c, t)


@steps("broadcast")
@inner
def broadcast(net, u, t):
    """Takes a token, waits until every output has room, sends to all in that cycle."""
    reg = net.reg[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    first = net.unit[u, U_OUT_AT]
    last = net.unit[u + 1, U_OUT_AT]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, peek(net, u, c, t)):
                return
            hold(net, u, c, t)
            reg[PHASE] = HOLD
        for i in range(first, last):
            if not room(net, u, net.outs[i], t):
                return
        for i in range(first, last):
            send(net, net.outs[i], t, t, reg[HELD_STOP], reg[HELD_WORD], reg[HELD_WORD2])
        reg[PHASE] = FREE


@inner
def _restop(net, u, t, is_flatten):
    """Flatten or promote: takes a token, sends it with another stop."""
    reg = net.reg[u]
    par = net.par[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, peek(net, u, c, t)):
                return
            hold(net, u, c, t)
            reg[PHASE] = HOLD
            s = reg[HELD_STOP]
            if not is_flatten:
                reg[HELD_STOP] = s if s < par[LEVEL] else s + 1
            elif s > par[HI]:
                reg[HELD_STOP] = s - (par[HI] - par[LO])
            else:
                reg[HELD_STOP] = min(s, par[LO])
        if not room(net, u, out, t):
            return
        send(net, out, t, t, reg[HELD_STOP], reg[HELD_WORD], reg[HELD_WORD2])
        reg[PHASE] = FREE


@steps("flatten")
@inner
def flatten(net, u, t):
    """Stops within the merged dimensions go."""
    _restop(net, u, t, True)


@steps("promote")
@inner
def promote(net, u, t):
    """Stops of the inserted dimension and those outside rise."""
    _restop(net, u, t, False)


@inner
def _pad(net, u):
    """Pads take the place of what the chunk lacks; False: it may lack nothing."""
    reg = net.reg[u]
    par = net.par[u]
    if par[DIM] > 0 or not par[PAD]:
        fail(net, u, PARTIAL_CHUNK)
        return False
    reg[PADS] = par[CHUNK] - reg[NEXT]
    reg[NEXT] = 0
    return True


@inner
def _count(net, u):
    """Count the token that is held, and find its stop; False: the unit has failed."""
    reg = net.reg[u]
    par = net.par[u]
    s = reg[HELD_STOP]
    reg[PHASE] = HOLD
    if par[DIM] > 0 and s < par[DIM]:
        return True
    reg[NEXT] += 1
    if reg[NEXT] == par[CHUNK]:
        reg[NEXT] = 0
        reg[HELD_STOP] = s + 1
        if par[ADD_OUTER] and s == 0:
            reg[PHASE] = LOOK
    elif s > par[DIM]:
        return _pad(net, u)
    return True


@inner
def _send_pads(net, u, out, t):
    """Send tiles without valid rows; False: there is no room."""
    reg = net.reg[u]
    word = reg[HELD_WORD]
    empty = tile(tile_rows(word), tile_cols(word), 0, in_memory(word))
    while reg[PADS]:
        if not room(net, u, out, t):
            return False
        reg[PADS] -= 1
        send(net, out, t, t, 0 if reg[PADS] else reg[HELD_STOP], empty, 0)
    return True


@inner
def _filled(net, u):
    """Remainder of a reshape at the end of c: END where it has no part of a chunk, WAIT where it
    may not have one; TOKEN: pads follow.
    """
    reg = net.reg[u]
    if reg[NEXT] == 0:
        return END
    if not _pad(net, u):
        return WAIT
    reg[HELD_STOP] = 2 if net.par[u, ADD_OUTER] else 1
    reg[PHASE] = FILL
    return TOKEN


@inner
def _next_of_chunk(net, u, c, t):
    """Take the next token of a reshape, or fill its chunk; WAIT, TOKEN (there is one to send) or
    END.
    """
    seen = peek(net, u, c, t)
    if seen == END:
        return _filled(net, u)
    if seen == TOKEN:
        hold(net, u, c, t)
        if not _count(net, u):
            return WAIT
    return seen


@steps("reshape")
@inner
def reshape(net, u, t):
    """Takes a token and sends it with the chunk's stop; fills a partial chunk of dim 0 with tiles
    without valid rows.

    With add_outer, the last token of a full chunk waits until the next token is visible (stop 1) or
    the input has ended (stop 2).
    """
    reg = net.reg[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == FREE:
            seen = _next_of_chunk(net, u, c, t)
            if seen == WAIT:
                return
            if seen == END:
                return finish(net, u, t)
        if reg[PHASE] == LOOK:
            seen = peek(net, u, c, t)
            if seen == WAIT:
                return
            reg[HELD_STOP] = 1 if seen == TOKEN else 2
            reg[PHASE] = HOLD
        if reg[PHASE] == HOLD:
            if not room(net, u, out, t):
                return
            stop = 0 if reg[PADS] else reg[HELD_STOP]
            send(net, out, t, t, stop, reg[HELD_WORD], reg[HELD_WORD2])
            if reg[PADS]:
                reg[HELD_STOP] += 1
            reg[PHASE] = FILL if reg[PADS] else FREE
        if reg[PHASE] == FILL:
            if not _send_pads(net, u, out, t):
                return
            reg[PHASE] = FREE


@steps("repeat")
@inner
def repeat(net, u, t):
    """Shows a token, sends copy i with stamp clock + i, rests `count` cycles after the last, then
    takes the token.

    The clock in a stamp includes the waits for room of the copies before: a blocked repeat spreads
    its copies further.
    """
    reg = net.reg[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    out = net.outs[net.unit[u, U_OUT_AT]]
    count = net.par[u, COUNT]
    while True:
        if reg[PHASE] == REST:
            take(net, c, t)
            reg[PHASE] = FREE
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, peek(net, u, c, t)):
                return
            reg[PHASE] = HOLD
            reg[NEXT] = 0
            reg[STAMP] = t
        s = slot(net, c)
        while reg[NEXT] < count:
            if not room(net, u, out, t):
                return
            reg[NEXT] += 1
            send(
                net,
                out,
                t,
                reg[STAMP],
                net.slot[s, S_STOP] + 1 if reg[NEXT] == count else 0,
                net.slot[s, S_WORD],
                net.slot[s, S_WORD2],
            )
            reg[STAMP] = t + reg[NEXT]
        reg[PHASE] = REST
        return sleep(net, u, t + count)


@steps("zip")
@inner
def zip_(net, u, t):
    """Takes one token of each input when both are visible, sends the pair.

    (No published counterpart: as the shape operators.)
    """
    reg = net.reg[u]
    first = net.unit[u, U_IN_AT]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            s = slot(net, net.ins[first])
            reg[HELD_STOP] = net.slot[s, S_STOP]
            reg[HELD_WORD] = net.slot[s, S_WORD]
            reg[HELD_WORD2] = net.slot[slot(net, net.ins[first + 1]), S_WORD]
            take_all(net, u, t)
            reg[PHASE] = HOLD
        if not room(net, u, out, t):
            return
        send(net, out, t, t, reg[HELD_STOP], reg[HELD_WORD], reg[HELD_WORD2])
        reg[PHASE] = FREE


@steps("expand")
@inner
def expand(net, u, t):
    """Shows a token; takes each of the reference and sends the token with its stop; one of at least
    `rank` takes the token too.
    """
    reg = net.reg[u]
    first = net.unit[u, U_IN_AT]
    out = net.outs[net.unit[u, U_OUT_AT]]
    c = net.ins[first]
    ref = net.ins[first + 1]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, heads(net, u, t)):
                return
            reg[HELD_STOP] = net.slot[slot(net, ref), S_STOP]
            take(net, ref, t)
            reg[PHASE] = HOLD
        if not room(net, u, out, t):
            return
        s = slot(net, c)
        send(net, out, t, t, reg[HELD_STOP], net.slot[s, S_WORD], net.slot[s, S_WORD2])
        if reg[HELD_STOP] >= net.par[u, RANK]:
            take(net, c, t)
        reg[PHASE] = FREE
