"""Bufferize and streamify: one token a cycle into and out of buffers."""

from math import prod

from ..records import extends, fast, table
from .channels import goes_on, head, heads, peek, room, send, sleep, take
from .memory_units import nest_stop
from .state import Unit, entry_of, source, steps

FREE, HOLD, LEAVE, TURN = range(4)


@extends(Unit)
class Buffer:
    """State of a `bufferize`."""

    rank: int
    first: int
    last: int
    length: int
    stop: int


@steps(Buffer, "bufferize")
def bufferize(net, u, t):
    """Takes tokens, one a cycle within a buffer; with the last sends the buffer."""
    while True:
        if u.phase == FREE:
            if not goes_on(net, u, t, peek(net, u, 0, t)):
                return
            token = head(net, source(net, u, 0))
            # Several units fill buffers at the same time, so the entries of a buffer are linked.
            entry = entry_of(net, net.stored)
            entry.word = token.word
            entry.word2 = token.word2
            entry.stop = token.stop
            entry.next = -1
            if u.length == 0:
                u.first = net.stored
            else:
                entry_of(net, u.last).next = net.stored
            u.last = net.stored
            net.stored += 1
            u.length += 1
            u.stop = token.stop - u.rank
            take(net, u, 0, t)
            if u.stop < 0:
                return sleep(net, u, t + 1)
            u.phase = HOLD
        if not room(net, u, 0, t):
            return
        send(net, u, 0, t, t, u.stop, u.first, u.length)
        u.phase = FREE
        u.length = 0


@extends(Unit)
class Reader:
    """State of a `streamify` or a `streamify_ref`."""

    rank: int
    # affine read: trip counts, strides, dimensions, tokens (0: read as stored)
    shape: int
    stride: int
    dims: int
    size: int
    # repeats: trip counts, dimensions, passes; of a reference, the stop that takes the buffer
    repeat: int
    outer: int
    times: int
    level: int
    first: int  # entry
    index: int  # entry
    stop: int
    round: int
    place: int

    @staticmethod
    def begin(layout, unit):
        shape = unit.kind.shape or []
        repeat = getattr(unit.kind, "repeat", [])
        return {
            "dims": len(shape),
            "size": prod(shape) if shape else 0,
            "outer": len(repeat),
            "times": prod(repeat),
        }


@fast
def _affine(net, u):
    """Entry of the next token of an affine read."""
    entry = u.first
    place = u.place
    left = 0
    for d in range(u.dims - 1, -1, -1):
        n = table(net, u.shape)[d]
        left += place % n * table(net, u.stride)[d]
        place //= n
    while left > 0:
        entry = entry_of(net, entry).next
        left -= 1
    return entry


@fast
def _next(net, u):
    """The next token's entry and its stop inside the buffer; -1: it is the last of this pass."""
    if u.size == 0:
        entry = u.index
        u.index = entry_of(net, entry).next
        return entry, -1 if u.index < 0 else entry_of(net, entry).stop
    entry = _affine(net, u)
    u.place += 1
    return entry, -1 if u.place == u.size else nest_stop(net, u.shape, u.dims, u.place - 1)


@fast
def _show(net, u):
    """Start at the first token of the buffer at the head."""
    buffer = head(net, source(net, u, 0))
    u.first = buffer.word
    u.stop = buffer.stop
    u.index = buffer.word
    u.round = 0
    u.place = 0


@fast
def _send(net, u, t, entry, stop):
    token = entry_of(net, entry)
    send(net, u, 0, t, t, stop, token.word, token.word2)
    sleep(net, u, t + 1)


@steps(Reader, "streamify")
def streamify(net, u, t):
    """Shows a buffer, sends its tokens one a cycle, as often as the trip counts say, then takes the
    buffer.

    The last token of a pass gets stop `rank`, one more for each trip count that ends with it, and
    after the last pass the buffer's own.
    """
    if u.phase == LEAVE:
        take(net, u, 0, t)
        u.phase = FREE
    if u.phase == FREE:
        if not goes_on(net, u, t, peek(net, u, 0, t)):
            return
        _show(net, u)
        u.phase = HOLD
    if not room(net, u, 0, t):
        return
    entry, stop = _next(net, u)
    if stop < 0:
        stop = u.rank + nest_stop(net, u.repeat, u.outer, u.round)
        u.round += 1
        u.index = u.first
        u.place = 0
        if u.round == u.times:
            stop += u.stop
            u.phase = LEAVE
    _send(net, u, t, entry, stop)


@steps(Reader, "streamify_ref")
def streamify_by_reference(net, u, t):
    """Shows a buffer; for each token of the reference takes it and sends the buffer's, one a cycle;
    a stop of at least `level` takes the buffer too.
    """
    if u.phase == LEAVE:
        take(net, u, 0, t)
        u.phase = FREE
    if u.phase == FREE or u.phase == TURN:
        if not goes_on(net, u, t, heads(net, u, t)):
            return
        _show(net, u)
        u.stop = head(net, source(net, u, 1)).stop
        take(net, u, 1, t)
        u.phase = HOLD
    if not room(net, u, 0, t):
        return
    entry, stop = _next(net, u)
    if stop < 0:
        stop = u.rank + u.stop
        u.phase = LEAVE if u.stop >= u.level else TURN
    _send(net, u, t, entry, stop)
