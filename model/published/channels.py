"""Channels with time stamps, and how a unit waits (docs: DAM's rules, one clock per unit).

1. A token sent in cycle t with stamp s is visible from max(s, t + 1).
2. A slot emptied in t can be filled from t + 1; a send to a full channel waits for that, and the sender's clock with it.
3. A receiver's clock moves to the cycle in which the token it waits for is visible.
4. The end of a sender in t is seen by its receivers from t + 1, when all tokens are taken.

A unit's step calls `peek` and `room` in the order of its rule and returns as soon as one says no: it is then woken when
the answer may have changed. Nothing a unit does in a cycle can be seen by another in the same cycle.
"""

from numba import njit

from .calendar import wake
from .state import BLOCKED, G_LOGGED, G_LOGGING, G_TOKENS, OWN, STARVED

WAIT, TOKEN, END = range(3)


@njit
def sleep(net, u, t):
    """The unit works until t."""
    net.why[u] = OWN
    net.on[u] = -1
    wake(net, u, t)


@njit
def peek(net, u, c, t):
    """TOKEN if channel c shows one at t, END if it never will again; WAIT: the unit is woken then."""
    net.why[u] = STARVED
    net.on[u] = c
    if net.count[c] == 0:
        if net.closed[c] < 0:
            net.wants[c] |= 1
            return WAIT
        if net.closed[c] < t:
            return END
        wake(net, u, net.closed[c] + 1)
        return WAIT
    seen = net.visible[net.base[c] + net.head[c]]
    if seen <= t:
        return TOKEN
    wake(net, u, seen)
    return WAIT


@njit
def slot(net, c):
    """Slot of the first token of c."""
    return net.base[c] + net.head[c]


@njit
def take(net, c, t):
    """Remove the first token of c."""
    s = net.base[c] + net.head[c]
    net.free[s] = t + 1
    net.head[c] = net.head[c] + 1 if net.head[c] + 1 < net.depth[c] else 0
    net.count[c] -= 1
    net.g[G_TOKENS] += 1
    if net.wants[c] & 2:
        net.wants[c] &= 1
        wake(net, net.src[c], t + 1)
    if net.g[G_LOGGING]:
        row = net.log[net.g[G_LOGGED]]
        row[0], row[1], row[2], row[3], row[4], row[5] = c, net.sent[s], t, net.stop[s], net.word[s], net.word2[s]
        net.g[G_LOGGED] += 1


@njit
def _tail(net, c):
    at = net.head[c] + net.count[c]
    return net.base[c] + (at if at < net.depth[c] else at - net.depth[c])


@njit
def room(net, u, c, t):
    """Whether channel c can be filled at t; if not, the unit is woken then."""
    if net.count[c] < net.depth[c]:
        freed = net.free[_tail(net, c)]
        if freed <= t:
            return True
        wake(net, u, freed)
    else:
        net.wants[c] |= 2
    net.why[u] = BLOCKED
    net.on[u] = c
    return False


@njit
def send(net, c, t, stamp, stop, word, word2):
    """Put a token into c, which has room."""
    s = _tail(net, c)
    seen = max(stamp, t + 1)
    net.visible[s], net.sent[s], net.stop[s], net.word[s], net.word2[s] = seen, t, stop, word, word2
    net.count[c] += 1
    if net.wants[c] & 1:
        net.wants[c] &= 2
        wake(net, net.dst[c], seen)


@njit
def finish(net, u, t):
    """The unit ends at t: its outputs close."""
    net.finish[u] = t
    for i in range(net.out_at[u], net.out_at[u + 1]):
        c = net.outs[i]
        net.closed[c] = t
        if net.count[c] == 0 and net.wants[c] & 1:
            net.wants[c] = 0
            wake(net, net.dst[c], t + 1)
