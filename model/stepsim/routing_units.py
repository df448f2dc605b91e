"""Partition, parallelize, reassemble, eager merge: a token is moved in one cycle, the switch's.

The arrival of a token is the cycle from which it is visible in its channel.
"""

from ..records import extends, fast, table
from .calendar import wake
from .channels import (
    END,
    TOKEN,
    WAIT,
    close,
    finish,
    goes_on,
    head,
    hold,
    peek,
    room,
    send,
    send_held,
    sleep,
    take,
)
from .shape_units import FREE, held
from .state import (
    EMPTY_DIMENSION,
    ENDS_EARLY,
    NO_UNIT,
    STARVED,
    STOPS_DIFFER,
    Held,
    fail,
    in_memory,
    moved,
    selected,
    source,
    steps,
    transfer_cycles,
)

UNIT, TAKE, SEND, ALL, HEAD, MORE, NAME = range(FREE + 1, FREE + 8)
SWITCH = 1
"""Cycles of a switch."""


@extends(Held)
class Route:
    """State of a unit that routes."""

    n: int
    rank: int
    tiles: int  # of a token (0: it has none, 1: the first word, 2: both)
    write_back_mu: int
    order: int  # reassemble: the inputs selected
    misses: int  # partition: steps by output (`_end_early`)
    select: int
    select2: int
    select_stop: int
    next: int
    count: int

    @staticmethod
    def begin(layout, unit):
        return {"order": layout.alloc(unit.kind.n), "misses": layout.alloc(unit.kind.n)}


@fast
def _load_cycles(net, u, i):
    """Cycles to read the head of input i from a memory unit."""
    token = head(net, source(net, u, i))
    cycles = 0
    if u.tiles > 0 and in_memory(token.word):
        cycles += transfer_cycles(net, token.word)
    if u.tiles > 1 and in_memory(token.word2):
        cycles += transfer_cycles(net, token.word2)
    return cycles


@fast
def _hold_moved(net, u, i, t):
    """Take the head of input i into the registers, its tiles where the unit puts them; returns the
    cycles that takes.
    """
    cycles = 0
    hold(net, u, i, t)
    if u.tiles > 0:
        u.word = moved(u.word, u.write_back_mu)
        cycles += transfer_cycles(net, u.word) if u.write_back_mu else 0
    if u.tiles > 1:
        u.word2 = moved(u.word2, u.write_back_mu)
        cycles += transfer_cycles(net, u.word2) if u.write_back_mu else 0
    return cycles


@fast
def _take_selector(net, u, i, t):
    """Take a selector into the registers; WAIT, TOKEN or END."""
    seen = peek(net, u, i, t)
    if seen == TOKEN:
        token = head(net, source(net, u, i))
        u.select = token.word
        u.select2 = token.word2
        u.select_stop = token.stop
        take(net, u, i, t)
    return seen


@fast
def _send_selected(net, u, t):
    """Send the token to one selected output after the other; False: one has no room."""
    while u.next < u.n:
        if selected(u.select, u.select2, u.next):
            if not room(net, u, u.next, t):
                return False
            send_held(net, u, u.next, t, min(u.stop, u.rank))
        u.next += 1
    return True


@fast
def _end_early(net, u, t, missed):
    """The outputs that get no more token, and whose readers miss at least so many of the sender's
    last steps, end now: such a reader goes on from the last step of the sender that it has seen.

    The steps of a token are two: it is read from its memory unit, and switched.
    """
    rest = source(net, u, 1)
    if rest.closed < 0 or rest.count > 0:
        return
    for i in range(u.n):
        if table(net, u.misses)[i] >= missed and not selected(u.select, u.select2, i):
            close(net, u, i, t)


@steps(Route, "partition")
def partition(net, u, t):
    """Takes a selector; for each token of its unit: reads it, takes it, switches, sends it to one
    selected output after the other.
    """
    while True:
        if u.phase == FREE:
            if not goes_on(net, u, t, _take_selector(net, u, 1, t)):
                return
            u.phase = UNIT
        if u.phase == UNIT:
            seen = peek(net, u, 0, t)
            if seen == WAIT:
                return
            if seen == END:
                return fail(net, u, NO_UNIT)
            u.phase = TAKE
            _end_early(net, u, t, 2)
            cycles = _load_cycles(net, u, 0)
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if u.phase == TAKE:
            _end_early(net, u, t, 1)
            cycles = _hold_moved(net, u, 0, t)
            if u.stop >= u.rank and u.stop != u.rank + u.select_stop:
                return fail(net, u, STOPS_DIFFER)
            u.phase = SEND
            u.next = 0
            if u.select != 0 or u.select2 != 0:
                cycles += SWITCH
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if not _send_selected(net, u, t):
            return
        u.phase = FREE if u.stop >= u.rank else UNIT


@steps(Route, "parallelize")
def parallelize(net, u, t):
    """Takes a token and sends it to the output whose turn it is: seen from the next cycle, the
    switch's. The end of a unit passes the turn on. A tile stays where it lies.
    """
    while held(net, u, t):
        if not room(net, u, u.next, t):
            return
        send(net, u, u.next, t, t + SWITCH, min(u.stop, u.rank), u.word, u.word2)
        if u.stop >= u.rank:
            u.next = u.next + 1 if u.next + 1 < u.n else 0
        u.phase = FREE


@fast
def _arrival(net, u, i):
    return head(net, source(net, u, i)).visible


@fast
def _sort_selected(net, u):
    """Order the inputs selected by the arrival of their heads, equal ones by index."""
    order = table(net, u.order)
    for i in range(1, u.count):
        x = order[i]
        j = i
        while j > 0 and _arrival(net, u, order[j - 1]) > _arrival(net, u, x):
            order[j] = order[j - 1]
            j -= 1
        order[j] = x


@fast
def _choose(net, u, t):
    """Take a selector and wait for the heads of its inputs; False: the unit waits, or has ended."""
    order = table(net, u.order)
    if u.phase == FREE:
        if not goes_on(net, u, t, _take_selector(net, u, u.n, t)):
            return False
        u.count = 0
        for i in range(u.n):
            if selected(u.select, u.select2, i):
                order[u.count] = i
                u.count += 1
        if u.count == 0:
            fail(net, u, EMPTY_DIMENSION)
            return False
        u.phase = ALL
    for i in range(u.count):
        seen = peek(net, u, order[i], t)
        if seen == END:
            fail(net, u, NO_UNIT)
        if seen != TOKEN:
            return False
    _sort_selected(net, u)
    u.next = 0
    u.phase = HEAD
    return True


@steps(Route, "reassemble")
def reassemble(net, u, t):
    """Takes a selector, waits until all selected inputs have arrived, and sends their units in this
    order, each a switch after its arrival.
    """
    while True:
        if (u.phase == FREE or u.phase == ALL) and not _choose(net, u, t):
            return
        i = table(net, u.order)[u.next]
        if u.phase == HEAD:
            ready = _arrival(net, u, i) + SWITCH + _load_cycles(net, u, i)
            u.phase = TAKE
            if ready > t:
                return sleep(net, u, ready)
        if u.phase == MORE:
            seen = peek(net, u, i, t)
            if seen == WAIT:
                return
            if seen == END:
                return fail(net, u, ENDS_EARLY)
            u.phase = TAKE
            cycles = _load_cycles(net, u, i)
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if u.phase == TAKE:
            cycles = _hold_moved(net, u, i, t)
            u.phase = SEND
            if cycles > 0:
                return sleep(net, u, t + cycles)
        if not room(net, u, 0, t):
            return
        ended = u.stop >= u.rank
        last = u.next == u.count - 1
        stop = min(u.stop, u.rank)
        send_held(net, u, 0, t, u.rank + 1 + u.select_stop if ended and last else stop)
        if ended:
            u.next += 1
        u.phase = MORE if not ended else FREE if last else HEAD


@fast
def _earliest(net, u, t):
    """The input whose head has arrived first, equal ones by index; -1: none has yet (the unit is
    woken then), -2: all have ended.
    """
    best = -1
    earliest = t + 1
    ended = True
    u.why = STARVED
    for i in range(u.n):
        c = source(net, u, i)
        if c.count > 0:
            ended = False
            if head(net, c).visible < earliest:
                best = i
                earliest = head(net, c).visible
            elif head(net, c).visible > t:
                wake(net, u, head(net, c).visible)
        elif c.closed < 0:
            c.wants |= 1
            ended = False
            u.on = table(net, u.ins)[i]
    return -2 if ended else best


@steps(Route, "eager_merge")
def eager_merge(net, u, t):
    """Takes the unit that arrived first: says which on output 1, then sends its tokens on output 0,
    a cycle apart.
    """
    while True:
        if u.phase == FREE:
            i = _earliest(net, u, t)
            if i == -2:
                return finish(net, u, t)
            if i == -1:
                return
            for k in range(u.n):  # nothing else wakes it inside the unit
                source(net, u, k).wants &= 2
            u.next = i
            u.phase = NAME
        if u.phase == NAME:
            if not room(net, u, 1, t):
                return
            i = u.next
            send(net, u, 1, t, t, 0, 1 << i if i < 64 else 0, 1 << (i - 64) if i >= 64 else 0)
            u.phase = UNIT
        if u.phase == UNIT:
            seen = peek(net, u, u.next, t)
            if seen == WAIT:
                return
            if seen == END:
                return fail(net, u, ENDS_EARLY)
            hold(net, u, u.next, t)
            u.phase = SEND
        if not room(net, u, 0, t):
            return
        send_held(net, u, 0, t, u.stop)
        if u.stop >= u.rank:
            u.phase = FREE
        else:
            u.phase = UNIT
            return sleep(net, u, t + 1)
