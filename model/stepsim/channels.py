"""Channels with time stamps, and how a unit waits (docs: DAM's rules, one clock per unit).

1. A token sent in cycle t with stamp s is visible from max(s, t + 1).
2. A slot emptied in t can be filled from t + 1; a send to a full channel waits for that, and the
   sender's clock with it.
3. A receiver's clock moves to the cycle in which the token it waits for is visible.
4. The end of a sender is no token. A receiver that waits sees it in the cycle of the sender's last
   step; one that comes later sees it at its own clock.

A unit's step calls `peek` and `room` in the order of its rule and returns as soon as one says no:
it is then woken when the answer may have changed. But for an end, nothing a unit does in a cycle
can be seen by another in the same cycle; who waits for an end is woken once more in its cycle.
"""

from ..records import fast, table
from .calendar import wake
from .state import (
    BLOCKED,
    ENDS_EARLY,
    OWN,
    STARVED,
    STOPS_DIFFER,
    Slot,
    Unit,
    fail,
    line_of,
    source,
    target,
)

WAIT, TOKEN, END = range(3)


def of_unit(function):
    """Compiles a function of a unit of any kind, once for all of them."""
    compiled = fast(function)

    @fast
    def call(net, u, *rest):
        return compiled(net, Unit(net, u.at, 0), *rest)

    return call


@of_unit
def sleep(net, u, t):
    """The unit works until t."""
    u.why = OWN
    u.on = 0
    wake(net, u, t)


@fast
def head(net, c):
    """The slot of the first token of c."""
    return Slot(net, c.slots, c.head)


@of_unit
def peek(net, u, i, t):
    """TOKEN if input i shows one at t, END if none comes any more; WAIT: the unit is woken then."""
    c = source(net, u, i)
    u.why = STARVED
    u.on = table(net, u.ins)[i]
    if c.count == 0:
        if c.closed >= 0:
            return END
        c.wants |= 1
        return WAIT
    seen = head(net, c).visible
    if seen <= t:
        return TOKEN
    wake(net, u, seen)
    return WAIT


@of_unit
def take(net, u, i, t):
    """Remove the first token of input i."""
    c = source(net, u, i)
    token = head(net, c)
    token.free = t + 1
    c.head = c.head + 1 if c.head + 1 < c.depth else 0
    c.count -= 1
    net.tokens += 1
    if c.wants & 2:
        c.wants &= 1
        wake(net, Unit(net, c.src, 0), t + 1)
    if net.logging:
        line = line_of(net, net.logged)
        net.logged += 1
        line.channel = table(net, u.ins)[i]
        line.sent = token.sent
        line.taken = t
        line.stop = token.stop
        line.word = token.word
        line.word2 = token.word2


@of_unit
def take_all(net, u, t):
    for i in range(u.n_ins):
        take(net, u, i, t)


@fast
def hold(net, u, i, t):
    """Take the head of input i into the registers."""
    token = head(net, source(net, u, i))
    u.stop = token.stop
    u.word = token.word
    u.word2 = token.word2
    take(net, u, i, t)


@fast
def _tail(net, c):
    at = c.head + c.count
    return Slot(net, c.slots, at if at < c.depth else at - c.depth)


@of_unit
def heads(net, u, t):
    """Peek the unit's one or two inputs: WAIT, TOKEN or END; may fail, where only one has ended."""
    seen = peek(net, u, 0, t)
    if seen == WAIT or u.n_ins == 1:
        return seen
    other = peek(net, u, 1, t)
    if other == WAIT:
        return WAIT
    if other != seen:
        fail(net, u, ENDS_EARLY)
        return WAIT
    return seen


@of_unit
def both(net, u, t):
    """Peek the unit's one or two inputs: WAIT, TOKEN (with equal stops) or END; may fail."""
    seen = heads(net, u, t)
    if seen != TOKEN or u.n_ins == 1:
        return seen
    if head(net, source(net, u, 0)).stop != head(net, source(net, u, 1)).stop:
        fail(net, u, STOPS_DIFFER)
        return WAIT
    return seen


@of_unit
def room(net, u, i, t):
    """True if output i can be filled at t; if not, the unit is woken then."""
    c = target(net, u, i)
    if c.count < c.depth:
        freed = _tail(net, c).free
        if freed <= t:
            return True
        wake(net, u, freed)
    else:
        c.wants |= 2
    u.why = BLOCKED
    u.on = table(net, u.outs)[i]
    return False


@of_unit
def send(net, u, i, t, stamp, stop, word, word2):
    """Put a token into output i, which has room."""
    c = target(net, u, i)
    token = _tail(net, c)
    token.visible = max(stamp, t + 1)
    token.sent = t
    token.stop = stop
    token.word = word
    token.word2 = word2
    c.count += 1
    if c.wants & 1:
        c.wants &= 2
        wake(net, Unit(net, c.dst, 0), token.visible)


@fast
def send_held(net, u, i, t, stop):
    """Send the token in the registers, with a stop."""
    send(net, u, i, t, t, stop, u.word, u.word2)


@of_unit
def close(net, u, i, t):
    """Output i ends at t, if it has not."""
    c = target(net, u, i)
    if c.closed >= 0:
        return
    c.closed = t
    if c.count == 0 and c.wants & 1:
        c.wants = 0
        wake(net, Unit(net, c.dst, 0), t)


@of_unit
def finish(net, u, t):
    """The unit ends at t: its outputs close."""
    u.finish = t
    for i in range(u.n_outs):
        close(net, u, i, t)


@fast
def goes_on(net, u, t, seen):
    """True if the unit's input shows a token; at its end the unit ends."""
    if seen == END:
        finish(net, u, t)
    return seen == TOKEN
