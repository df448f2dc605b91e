"""Broadcast, flatten, promote, reshape, repeat, expand, zip: no cycles of their own but the
channel's one.
"""

from ..records import extends, fast
from .channels import (
    END,
    TOKEN,
    WAIT,
    both,
    finish,
    goes_on,
    head,
    heads,
    hold,
    peek,
    room,
    send,
    send_held,
    sleep,
    take,
    take_all,
)
from .state import (
    PARTIAL_CHUNK,
    Held,
    Unit,
    fail,
    in_memory,
    source,
    steps,
    tile,
    tile_cols,
    tile_rows,
)

FREE, HOLD, LOOK, FILL, REST = range(5)


@fast
def held(net, u, t):
    """True if the unit holds a token, or takes one now; False: it waits, or has ended."""
    if u.phase != FREE:
        return True
    if not goes_on(net, u, t, peek(net, u, 0, t)):
        return False
    hold(net, u, 0, t)
    u.phase = HOLD
    return True


@steps(Held, "broadcast")
def broadcast(net, u, t):
    """Takes a token, waits until every output has room, sends to all in that cycle."""
    while True:
        if not held(net, u, t):
            return
        for i in range(u.n_outs):
            if not room(net, u, i, t):
                return
        for i in range(u.n_outs):
            send_held(net, u, i, t, u.stop)
        u.phase = FREE


@extends(Held)
class Flatten:
    """State of a `flatten`."""

    lo: int
    hi: int


@steps(Flatten, "flatten")
def flatten(net, u, t):
    """Stops within the merged dimensions go."""
    while held(net, u, t):
        if not room(net, u, 0, t):
            return
        stop = u.stop - (u.hi - u.lo) if u.stop > u.hi else min(u.stop, u.lo)
        send_held(net, u, 0, t, stop)
        u.phase = FREE


@extends(Held)
class Promote:
    """State of a `promote`."""

    level: int


@steps(Promote, "promote")
def promote(net, u, t):
    """Stops of the inserted dimension and those outside rise."""
    while held(net, u, t):
        if not room(net, u, 0, t):
            return
        send_held(net, u, 0, t, u.stop if u.stop < u.level else u.stop + 1)
        u.phase = FREE


@extends(Held)
class Reshape:
    """State of a `reshape`."""

    dim: int
    chunk: int
    pad: int
    add_outer: int
    count: int  # in the chunk
    pads: int  # to send


@fast
def _pad(net, u):
    """Fill a chunk with pads; False: it may lack nothing."""
    if u.dim > 0 or not u.pad:
        fail(net, u, PARTIAL_CHUNK)
        return False
    u.pads = u.chunk - u.count
    u.count = 0
    return True


@fast
def _count(net, u):
    """Count the token that is held, and find its stop; False: the unit has failed."""
    stop = u.stop
    u.phase = HOLD
    if u.dim > 0 and stop < u.dim:
        return True
    u.count += 1
    if u.count == u.chunk:
        u.count = 0
        u.stop = stop + 1
        if u.add_outer and stop == 0:
            u.phase = LOOK
    elif stop > u.dim:
        return _pad(net, u)
    return True


@fast
def _send_pads(net, u, t):
    """Send tiles without valid rows; False: there is no room."""
    empty = tile(tile_rows(u.word), tile_cols(u.word), 0, in_memory(u.word))
    while u.pads:
        if not room(net, u, 0, t):
            return False
        u.pads -= 1
        send(net, u, 0, t, t, 0 if u.pads else u.stop, empty, 0)
    return True


@fast
def _next_of_chunk(net, u, t):
    """Take the next token, or fill the chunk at the end, which may lack nothing; WAIT, TOKEN (there
    is one to send) or END.
    """
    seen = peek(net, u, 0, t)
    if seen == TOKEN:
        hold(net, u, 0, t)
        return TOKEN if _count(net, u) else WAIT
    if seen == WAIT or u.count == 0:
        return seen
    if not _pad(net, u):
        return WAIT
    u.stop = 2 if u.add_outer else 1
    u.phase = FILL
    return TOKEN


@steps(Reshape, "reshape")
def reshape(net, u, t):
    """Takes a token and sends it with the chunk's stop; fills a partial chunk of dim 0 with tiles
    without valid rows.

    With add_outer, the last token of a full chunk waits until the next token is visible (stop 1) or
    the input has ended (stop 2).
    """
    while True:
        if u.phase == FREE:
            seen = _next_of_chunk(net, u, t)
            if seen == WAIT:
                return
            if seen == END:
                return finish(net, u, t)
        if u.phase == LOOK:
            seen = peek(net, u, 0, t)
            if seen == WAIT:
                return
            u.stop = 1 if seen == TOKEN else 2
            u.phase = HOLD
        if u.phase == HOLD:
            if not room(net, u, 0, t):
                return
            send_held(net, u, 0, t, 0 if u.pads else u.stop)
            if u.pads:
                u.stop += 1
            u.phase = FILL if u.pads else FREE
        if u.phase == FILL:
            if not _send_pads(net, u, t):
                return
            u.phase = FREE


@extends(Unit)
class Repeat:
    """State of a `repeat`."""

    count: int
    next: int
    stamp: int


@steps(Repeat, "repeat")
def repeat(net, u, t):
    """Shows a token, sends copy i with stamp clock + i, rests `count` cycles after the last, then
    takes the token.

    The clock in a stamp includes the waits for room of the copies before: a blocked repeat spreads
    its copies further.
    """
    while True:
        if u.phase == REST:
            take(net, u, 0, t)
            u.phase = FREE
        if u.phase == FREE:
            if not goes_on(net, u, t, peek(net, u, 0, t)):
                return
            u.phase = HOLD
            u.next = 0
            u.stamp = t
        token = head(net, source(net, u, 0))
        while u.next < u.count:
            if not room(net, u, 0, t):
                return
            u.next += 1
            stop = token.stop + 1 if u.next == u.count else 0
            send(net, u, 0, t, u.stamp, stop, token.word, token.word2)
            u.stamp = t + u.next
        u.phase = REST
        return sleep(net, u, t + u.count)


@steps(Held, "zip")
def zip_(net, u, t):
    """Takes one token of each input when both are visible, sends the pair.

    (No published counterpart: as the shape operators.)
    """
    while True:
        if u.phase == FREE:
            if not goes_on(net, u, t, both(net, u, t)):
                return
            first = head(net, source(net, u, 0))
            u.stop = first.stop
            u.word = first.word
            u.word2 = head(net, source(net, u, 1)).word
            take_all(net, u, t)
            u.phase = HOLD
        if not room(net, u, 0, t):
            return
        send_held(net, u, 0, t, u.stop)
        u.phase = FREE


@extends(Unit)
class Expand:
    """State of an `expand`."""

    rank: int
    stop: int


@steps(Expand, "expand")
def expand(net, u, t):
    """Shows a token; takes each of the reference and sends the token with its stop; one of at least
    `rank` takes the token too.
    """
    while True:
        if u.phase == FREE:
            if not goes_on(net, u, t, heads(net, u, t)):
                return
            u.stop = head(net, source(net, u, 1)).stop
            take(net, u, 1, t)
            u.phase = HOLD
        if not room(net, u, 0, t):
            return
        token = head(net, source(net, u, 0))
        send(net, u, 0, t, t, u.stop, token.word, token.word2)
        if u.stop >= u.rank:
            take(net, u, 0, t)
        u.phase = FREE
