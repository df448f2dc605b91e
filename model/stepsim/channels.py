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

from .calendar import wake
from .state import (
    BLOCKED,
    C_BASE,
    C_CLOSED,
    C_COUNT,
    C_DEPTH,
    C_DST,
    C_HEAD,
    C_SRC,
    C_WANTS,
    ENDS_EARLY,
    G_LOGGED,
    G_LOGGING,
    G_TOKENS,
    OWN,
    S_FREE,
    S_SENT,
    S_STOP,
    S_VISIBLE,
    S_WORD,
    S_WORD2,
    STARVED,
    U_FINISH,
    U_IN_AT,
    U_ON,
    U_OUT_AT,
    U_WHY,
    fail,
    inner,
)

WAIT, TOKEN, END = range(3)


@inner
def sleep(net, u, t):
    """The unit works until t."""
    net.unit[u, U_WHY] = OWN
    net.unit[u, U_ON] = -1
    wake(net, u, t)


@inner
def peek(net, u, c, t):
    """TOKEN if channel c shows one at t, END if none comes any more; WAIT: it is woken then."""
    net.unit[u, U_WHY] = STARVED
    net.unit[u, U_ON] = c
    if net.chan[c, C_COUNT] == 0:
        if net.chan[c, C_CLOSED] >= 0:
            return END
        net.chan[c, C_WANTS] |= 1
        return WAIT
    seen = net.slot[net.chan[c, C_BASE] + net.chan[c, C_HEAD], S_VISIBLE]
    if seen <= t:
        return TOKEN
    wake(net, u, seen)
    return WAIT


@inner
def slot(net, c):
    """Slot of the first token of c."""
    return net.chan[c, C_BASE] + net.chan[c, C_HEAD]


@inner
def take(net, c, t):
    """Remove the first token of c."""
    s = net.chan[c, C_BASE] + net.chan[c, C_HEAD]
    net.slot[s, S_FREE] = t + 1
    net.chan[c, C_HEAD] = (
        net.chan[c, C_HEAD] + 1 if net.chan[c, C_HEAD] + 1 < net.chan[c, C_DEPTH] else 0
    )
    net.chan[c, C_COUNT] -= 1
    net.g[G_TOKENS] += 1
    if net.chan[c, C_WANTS] & 2:
        net.chan[c, C_WANTS] &= 1
        wake(net, net.chan[c, C_SRC], t + 1)
    if net.g[G_LOGGING]:
        row = net.log[net.g[G_LOGGED]]
        token = net.slot[s]
        row[0] = c
        row[1] = token[S_SENT]
        row[2] = t
        row[3] = token[S_STOP]
        row[4] = token[S_WORD]
        row[5] = token[S_WORD2]
        net.g[G_LOGGED] += 1


@inner
def _tail(net, c):
    at = net.chan[c, C_HEAD] + net.chan[c, C_COUNT]
    return net.chan[c, C_BASE] + (at if at < net.chan[c, C_DEPTH] else at - net.chan[c, C_DEPTH])


@inner
def heads(net, u, t):
    """Peek the unit's one or two inputs: WAIT, TOKEN or END; may fail, where only one has ended."""
    first = net.unit[u, U_IN_AT]
    seen = peek(net, u, net.ins[first], t)
    if seen == WAIT or net.unit[u + 1, U_IN_AT] - first == 1:
        return seen
    other = peek(net, u, net.ins[first + 1], t)
    if other == WAIT:
        return WAIT
    if other != seen:
        fail(net, u, ENDS_EARLY)
        return WAIT
    return seen


@inner
def room(net, u, c, t):
    """True if channel c can be filled at t; if not, the unit is woken then."""
    if net.chan[c, C_COUNT] < net.chan[c, C_DEPTH]:
        freed = net.slot[_tail(net, c), S_FREE]
        if freed <= t:
            return True
        wake(net, u, freed)
    else:
        net.chan[c, C_WANTS] |= 2
    net.unit[u, U_WHY] = BLOCKED
    net.unit[u, U_ON] = c
    return False


@inner
def send(net, c, t, stamp, stop, word, word2):
    """Put a token into c, which has room."""
    seen = max(stamp, t + 1)
    token = net.slot[_tail(net, c)]
    token[S_VISIBLE] = seen
    token[S_SENT] = t
    token[S_STOP] = stop
    token[S_WORD] = word
    token[S_WORD2] = word2
    net.chan[c, C_COUNT] += 1
    if net.chan[c, C_WANTS] & 1:
        net.chan[c, C_WANTS] &= 2
        wake(net, net.chan[c, C_DST], seen)


@inner
def close(net, c, t):
    """Channel c ends at t, if it has not."""
    if net.chan[c, C_CLOSED] >= 0:
        return
    net.chan[c, C_CLOSED] = t
    if net.chan[c, C_COUNT] == 0 and net.chan[c, C_WANTS] & 1:
        net.chan[c, C_WANTS] = 0
        wake(net, net.chan[c, C_DST], t)


@inner
def finish(net, u, t):
    """The unit ends at t: its outputs close."""
    net.unit[u, U_FINISH] = t
    for i in range(net.unit[u, U_OUT_AT], net.unit[u + 1, U_OUT_AT]):
        close(net, net.outs[i], t)


@inner
def goes_on(net, u, t, seen):
    """True if the unit's input shows a token; at its end the unit ends."""
    if seen == END:
        finish(net, u, t)
    return seen == TOKEN
