"""Load, store, source, sink."""

from numba import njit

from .channels import END, WAIT, finish, peek, room, send, sleep, slot, take
from .hbm import transfer
from .state import G_ELEMENT, G_READ, G_WRITTEN, OWN, PHASE, ceil_div, tile, tile_cols, tile_rows

LINE = 64

# load and store: columns of par
ROWS, COLS, SHAPE, DIMS, TILES, PORT = range(6)
# load and source: registers
INDEX = 1

ASK, MOVE, EMIT = range(3)


@njit
def tile_lines(net, rows, cols):
    """Requests of a tile: every row is rounded up to whole lines."""
    return rows * ceil_div(cols * net.g[G_ELEMENT], LINE)


@njit
def nest_stop(aux, shape, dims, index):
    """Stop level at position index of a nest of trip counts: dimensions that end there, those of size 1 too."""
    level, block = 0, 1
    for d in range(dims - 1, -1, -1):
        block *= aux[shape + d]
        if (index + 1) % block:
            break
        level += 1
    return level


@njit
def load(net, u, t):
    """Asks for a tile, waits for all its lines, sends it; asks for the next when that has been accepted."""
    par, reg, out = net.par[u], net.reg[u], net.outs[net.out_at[u]]
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
            lines = tile_lines(net, par[ROWS], par[COLS])
            if lines > 0:
                transfer(net, par[PORT], lines)
                net.g[G_READ] += lines
                net.why[u] = OWN
                return


@njit
def store(net, u, t):
    """Shows a tile, writes it, waits for all acknowledgements, and only then takes it."""
    par, reg, c = net.par[u], net.reg[u], net.ins[net.in_at[u]]
    while True:
        if reg[PHASE] == MOVE:
            take(net, c, t)
            reg[PHASE] = ASK
        seen = peek(net, u, c, t)
        if seen == WAIT:
            return
        if seen == END:
            return finish(net, u, t)
        reg[PHASE] = MOVE
        word = net.word[slot(net, c)]
        lines = tile_lines(net, tile_rows(word), tile_cols(word))
        if lines > 0:
            transfer(net, par[PORT], lines)
            net.g[G_WRITTEN] += lines
            net.why[u] = OWN
            return


# source: columns of par besides ROWS, COLS
STAMPS, STOPS, TOKENS = 2, 3, 4


@njit
def source(net, u, t):
    """Sends its tokens as fast as there is room, each with its own stamp; its clock moves with back-pressure only."""
    par, reg, out = net.par[u], net.reg[u], net.outs[net.out_at[u]]
    while reg[INDEX] < par[TOKENS]:
        if not room(net, u, out, t):
            return
        i = reg[INDEX]
        send(net, out, t, net.aux[par[STAMPS] + i], net.aux[par[STOPS] + i], tile(par[ROWS], par[COLS], par[ROWS], 0), 0)
        reg[INDEX] += 1
    finish(net, u, t)


@njit
def sink(net, u, t):
    """Takes one token a cycle."""
    c = net.ins[net.in_at[u]]
    seen = peek(net, u, c, t)
    if seen == END:
        finish(net, u, t)
    elif seen != WAIT:
        take(net, c, t)
        sleep(net, u, t + 1)
