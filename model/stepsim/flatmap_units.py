"""Units that turn one token into several: rows of a tile, addresses, selectors; all in the cycle in
which the token is taken, as room allows.
"""

from .channels import goes_on, room, send, slot
from .compute_units import both, take_all
from .kinds import steps
from .shape_units import HELD_STOP, HELD_WORD, hold
from .state import (
    EMPTY_DIMENSION,
    PHASE,
    S_STOP,
    S_WORD,
    S_WORD2,
    U_IN_AT,
    U_OUT_AT,
    ceil_div,
    fail,
    in_memory,
    inner,
    selected,
    tile,
    tile_cols,
    tile_rows,
    tile_valid,
)

# columns of par; NEW: 1 where the parts of a token are a dimension of their own
ALONG, SIZE, MASK, NEW = range(4)  # split
# generate; NEW as above
STEP = 0
MODE = 1
# registers (1 to 3 hold the token)
NEXT = 4
COUNT = 5
STAMP = 6

ROWS, COLS = range(2)
RANGE, EXPERT, LAST = range(3)
FREE, SEND = range(2)


@inner
def _begin(net, u, t, count):
    """Start to send `count` parts; False where there is none, and the token ends a dimension that
    would be left open.
    """
    reg = net.reg[u]
    reg[NEXT] = 0
    reg[COUNT] = count
    reg[STAMP] = t
    reg[PHASE] = SEND
    if count == 0 and reg[HELD_STOP] + net.par[u, NEW] > 0:
        fail(net, u, EMPTY_DIMENSION)
        return False
    return True


@inner
def _part_stop(net, u):
    return (
        net.reg[u, HELD_STOP] + net.par[u, NEW] if net.reg[u, NEXT] == net.reg[u, COUNT] - 1 else 0
    )


@steps("split")
@inner
def split(net, u, t):
    """Takes a tile and sends its parts of `size` rows or columns; masked: those of a valid row."""
    reg = net.reg[u]
    par = net.par[u]
    out = net.outs[net.unit[u, U_OUT_AT]]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            hold(net, u, net.ins[net.unit[u, U_IN_AT]], t)
            word = reg[HELD_WORD]
            whole = (
                tile_cols(word)
                if par[ALONG] == COLS
                else tile_valid(word)
                if par[MASK]
                else tile_rows(word)
            )
            if not _begin(net, u, t, ceil_div(whole, par[SIZE])):
                return
        word = reg[HELD_WORD]
        size = par[SIZE]
        while reg[NEXT] < reg[COUNT]:
            if not room(net, u, out, t):
                return
            if par[ALONG] == COLS:
                part = tile(tile_rows(word), size, tile_valid(word), in_memory(word))
            else:
                part = tile(
                    size,
                    tile_cols(word),
                    min(size, max(0, tile_valid(word) - size * reg[NEXT])),
                    in_memory(word),
                )
            send(net, out, t, t, _part_stop(net, u), part, 0)
            reg[NEXT] += 1
        reg[PHASE] = FREE


@steps("address_range", "expert_addresses", "last_filter")
@inner
def generate(net, u, t):
    """Takes a number (or two, or a selector) and sends addresses or selectors; those of a range are
    stamped a cycle apart.
    """
    reg = net.reg[u]
    par = net.par[u]
    first = net.unit[u, U_IN_AT]
    out = net.outs[net.unit[u, U_OUT_AT]]
    mode = par[MODE]
    while True:
        if reg[PHASE] == FREE:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            s = slot(net, net.ins[first])
            a = net.slot[s, S_WORD]
            reg[HELD_STOP] = net.slot[s, S_STOP]
            if mode == RANGE:
                count = net.slot[slot(net, net.ins[first + 1]), S_WORD]
                reg[HELD_WORD] = a * par[STEP]
            elif mode == EXPERT:
                count = par[STEP]
                target = 0
                while target < 127 and not selected(a, net.slot[s, S_WORD2], target):
                    target += 1
                reg[HELD_WORD] = target * par[STEP]
            else:
                count = a
            take_all(net, u, t)
            if not _begin(net, u, t, count):
                return
        while reg[NEXT] < reg[COUNT]:
            if not room(net, u, out, t):
                return
            i = reg[NEXT]
            word = (
                (1 if i == reg[COUNT] - 1 else 2)
                if mode == LAST
                else (reg[HELD_WORD] + i) & 0xFFFFFFFF
            )
            send(net, out, t, reg[STAMP] if mode == RANGE else t, _part_stop(net, u), word, 0)
            reg[NEXT] += 1
            reg[STAMP] += 1
        reg[PHASE] = FREE
