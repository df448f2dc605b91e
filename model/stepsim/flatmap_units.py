"""Units that turn one token into several: rows of a tile, addresses, selectors; all in the cycle in
which the token is taken, as room allows.
"""

from ..records import extends, fast
from .channels import both, goes_on, head, hold, room, send, take_all
from .state import (
    EMPTY_DIMENSION,
    Held,
    ceil_div,
    fail,
    in_memory,
    selected,
    source,
    steps,
    tile,
    tile_cols,
    tile_rows,
    tile_valid,
)

RANGE, EXPERT, LAST = range(3)
MODES = {"address_range": RANGE, "expert_addresses": EXPERT, "last_filter": LAST}
FREE, SEND = range(2)


@extends(Held)
class Parts:
    """State of a unit that sends parts of a token."""

    new: int  # whether they are a dimension of their own
    # split
    columns: int
    size: int
    mask: int
    # generate
    mode: int
    step: int
    next: int
    count: int
    stamp: int

    @staticmethod
    def begin(layout, unit):
        if unit.kind.name == "split":
            return {"columns": unit.kind.along == "cols"}
        return {"mode": MODES[unit.kind.name]}


@fast
def _begin(net, u, t, count):
    """Start to send `count` parts; False where there is none, and the token ends a dimension that
    would be left open.
    """
    u.next = 0
    u.count = count
    u.stamp = t
    u.phase = SEND
    if count == 0 and u.stop + u.new > 0:
        fail(net, u, EMPTY_DIMENSION)
        return False
    return True


@fast
def _part_stop(u):
    return u.stop + u.new if u.next == u.count - 1 else 0


@steps(Parts, "split")
def split(net, u, t):
    """Takes a tile and sends its parts of `size` rows or columns; masked: those of a valid row."""
    while True:
        if u.phase == FREE:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            hold(net, u, 0, t)
            whole = tile_valid(u.word) if u.mask else tile_rows(u.word)
            if u.columns:
                whole = tile_cols(u.word)
            if not _begin(net, u, t, ceil_div(whole, u.size)):
                return
        while u.next < u.count:
            if not room(net, u, 0, t):
                return
            rows = u.size
            cols = tile_cols(u.word)
            valid = min(u.size, max(0, tile_valid(u.word) - u.size * u.next))
            if u.columns:
                rows = tile_rows(u.word)
                cols = u.size
                valid = tile_valid(u.word)
            part = tile(rows, cols, valid, in_memory(u.word))
            send(net, u, 0, t, t, _part_stop(u), part, 0)
            u.next += 1
        u.phase = FREE


@steps(Parts, "address_range", "expert_addresses", "last_filter")
def generate(net, u, t):
    """Takes a number (or two, or a selector) and sends addresses or selectors; those of a range are
    stamped a cycle apart.
    """
    while True:
        if u.phase == FREE:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            token = head(net, source(net, u, 0))
            u.stop = token.stop
            count = token.word
            if u.mode == RANGE:
                count = head(net, source(net, u, 1)).word
                u.word = token.word * u.step
            elif u.mode == EXPERT:
                count = u.step
                expert = 0
                while expert < 127 and not selected(token.word, token.word2, expert):
                    expert += 1
                u.word = expert * u.step
            take_all(net, u, t)
            if not _begin(net, u, t, count):
                return
        while u.next < u.count:
            if not room(net, u, 0, t):
                return
            word = (u.word + u.next) & 0xFFFFFFFF
            if u.mode == LAST:
                word = 1 if u.next == u.count - 1 else 2
            send(net, u, 0, t, u.stamp if u.mode == RANGE else t, _part_stop(u), word, 0)
            u.next += 1
            u.stamp += 1
        u.phase = FREE
