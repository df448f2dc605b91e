"""Loads, stores, sources, sink."""

from .channels import END, WAIT, finish, goes_on, heads, peek, room, send, sleep, slot, take
from .hbm import transfer
from .kinds import steps
from .state import (
    G_ELEMENT,
    G_MOVED,
    G_READ,
    G_WRITTEN,
    OWN,
    PHASE,
    S_STOP,
    S_WORD,
    U_IN_AT,
    U_OUT_AT,
    U_WHY,
    ceil_div,
    inner,
    tile,
    tile_bytes,
    tile_cols,
    tile_rows,
)

LINE = 64

# load and store: columns of par
ROWS, COLS, SHAPE, DIMS, TILES, PORT = range(6)
# loads and source: registers
INDEX = 1
STOP = 2

ASK, MOVE, EMIT = range(3)


@inner
def tile_lines(net, rows, cols):
    """Requests of a tile: every row is rounded up to whole lines."""
    return rows * ceil_div(cols * net.g[G_ELEMENT], LINE)


@inner
def request(net, u, lines):
    """Ask the memory for lines; whether the unit has to wait for any."""
    if lines == 0:
        return False
    transfer(net, net.par[u, PORT], lines)
    net.unit[u, U_WHY] = OWN
    return True


@inner
def read_tile(net, u):
    """Ask for the unit's tile; whether it has to wait."""
    rows = net.par[u, ROWS]
    cols = net.par[u, COLS]
    lines = tile_lines(net, rows, cols)
    net.g[G_READ] += lines
    net.g[G_MOVED] += rows * cols * net.g[G_ELEMENT]
    return request(net, u, lines)


@inner
def write_tile(net, u, word):
    """Write a tile; whether the unit has to wait."""
    lines = tile_lines(net, tile_rows(word), tile_cols(word))
    net.g[G_WRITTEN] += lines
    net.g[G_MOVED] += tile_bytes(net, word)
    return request(net, u, lines)


@inner
def nest_stop(aux, shape, dims, index):
    """Stop level at position index of a nest of trip counts: dimensions that end there, those of
    size 1 too.
    """
    level = 0
    block = 1
    for d in range(dims - 1, -1, -1):
        block *= aux[shape + d]
        if (index + 1) % block:
            break
        level += 1
    return level


@steps("load")
@inner
def load(net, u, t):
    """Asks for a tile, waits for all its lines, sends it; asks for the next when that has been
    accepted.
    """
    par = net.par[u]
    reg = net.reg[u]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == EMIT:
            if not room(net, u, out, t):
                return
            word = tile(par[ROWS], par[COLS], par[ROWS], 1)
            send(net, out, t, t, nest_stop(net.aux, par[SHAPE], par[DIMS], reg[INDEX]), word, 0)
            reg[INDEX] += 1
            reg[PHASE] = ASK
        if reg[PHASE] == ASK:
            if reg[INDEX] == par[TILES]:
                return finish(net, u, t)
            reg[PHASE] = EMIT
            if read_tile(net, u):
                return


@steps("load_ref")
@inner
def load_by_reference(net, u, t):
    """Takes a token, then loads its tiles, each as `load` does; the last one ends the loop and what
    the token ends.
    """
    par = net.par[u]
    reg = net.reg[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == EMIT:
            if not room(net, u, out, t):
                return
            stop = nest_stop(net.aux, par[SHAPE], par[DIMS], reg[INDEX])
            reg[INDEX] += 1
            if reg[INDEX] == par[TILES]:
                stop += reg[STOP]
                reg[INDEX] = 0
            send(net, out, t, t, stop, tile(par[ROWS], par[COLS], par[ROWS], 1), 0)
            reg[PHASE] = ASK
        if reg[INDEX] == 0:
            if not goes_on(net, u, t, peek(net, u, c, t)):
                return
            reg[STOP] = net.slot[slot(net, c), S_STOP]
            take(net, c, t)
        reg[PHASE] = EMIT
        if read_tile(net, u):
            return


@steps("store_at")
@inner
def store_at(net, u, t):
    """Shows an address and a tile, writes, waits for all acknowledgements, sends one of its own,
    and takes both.
    """
    reg = net.reg[u]
    at = net.ins[net.unit[u, U_IN_AT]]
    data = net.ins[net.unit[u, U_IN_AT] + 1]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == EMIT:
            if not room(net, u, out, t):
                return
            send(net, out, t, t, net.slot[slot(net, at), S_STOP], 1, 0)
            take(net, at, t)
            take(net, data, t)
            reg[PHASE] = ASK
        if not goes_on(net, u, t, heads(net, u, t)):
            return
        reg[PHASE] = EMIT
        if write_tile(net, u, net.slot[slot(net, data), S_WORD]):
            return


@steps("store")
@inner
def store(net, u, t):
    """Shows a tile, writes it, waits for all acknowledgements, and only then takes it."""
    reg = net.reg[u]
    c = net.ins[net.unit[u, U_IN_AT]]
    while True:
        if reg[PHASE] == MOVE:
            take(net, c, t)
            reg[PHASE] = ASK
        if not goes_on(net, u, t, peek(net, u, c, t)):
            return
        reg[PHASE] = MOVE
        if write_tile(net, u, net.slot[slot(net, c), S_WORD]):
            return


# source: columns of par
STAMPS, STOPS, WORDS, WORDS2, TOKENS = range(5)


@steps("source", "stream")
@inner
def source(net, u, t):
    """Sends its tokens as fast as there is room, each with its own stamp; its clock moves with
    back-pressure only.
    """
    par = net.par[u]
    reg = net.reg[u]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while reg[INDEX] < par[TOKENS]:
        if not room(net, u, out, t):
            return
        i = reg[INDEX]
        send(
            net,
            out,
            t,
            net.aux[par[STAMPS] + i],
            net.aux[par[STOPS] + i],
            net.aux[par[WORDS] + i],
            net.aux[par[WORDS2] + i],
        )
        reg[INDEX] += 1
    finish(net, u, t)


@steps("sink")
@inner
def sink(net, u, t):
    """Takes one token a cycle."""
    c = net.ins[net.unit[u, U_IN_AT]]
    seen = peek(net, u, c, t)
    if seen == END:
        finish(net, u, t)
    elif seen != WAIT:
        take(net, c, t)
        sleep(net, u, t + 1)
