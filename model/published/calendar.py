"""The calendar of wake-ups: at most one per unit, put in and found in constant time.

One bucket for each of the next BUCKETS cycles, a linked list of units, and one bucket for all later times. The order
within a cycle has no influence: what a unit does in a cycle is seen by others in the next one at the earliest.
"""

from numba import njit

from .state import G_FAR_MIN, G_NEAR, G_NOW, IDLE

BUCKETS = 1 << 13


@njit
def _insert(net, u, t):
    if t - net.g[G_NOW] < BUCKETS:
        b = t & (BUCKETS - 1)
        net.g[G_NEAR] += 1
    else:
        b = BUCKETS
        net.g[G_FAR_MIN] = min(net.g[G_FAR_MIN], t)
    net.due[u] = t
    net.after[u] = net.bucket[b]
    net.bucket[b] = u


@njit
def _remove(net, u):
    near = net.due[u] - net.g[G_NOW] < BUCKETS and net.due[u] < net.g[G_FAR_MIN]
    b = net.due[u] & (BUCKETS - 1) if near else BUCKETS
    net.g[G_NEAR] -= near
    v = net.bucket[b]
    if v == u:
        net.bucket[b] = net.after[u]
        return
    while net.after[v] != u:
        v = net.after[v]
    net.after[v] = net.after[u]


@njit
def wake(net, u, t):
    """Have unit u go on at t, or earlier if it wakes earlier anyway."""
    if t < net.due[u]:
        if net.due[u] != IDLE:
            _remove(net, u)
        _insert(net, u, t)


@njit
def pop(net):
    """A unit due now, or -1."""
    b = net.g[G_NOW] & (BUCKETS - 1)
    u = net.bucket[b]
    if u >= 0:
        net.bucket[b] = net.after[u]
        net.due[u] = IDLE
        net.g[G_NEAR] -= 1
    return u


@njit
def _fetch_far(net):
    u = net.bucket[BUCKETS]
    net.bucket[BUCKETS] = -1
    net.g[G_FAR_MIN] = IDLE
    while u >= 0:
        following = net.after[u]
        _insert(net, u, net.due[u])
        u = following


@njit
def advance(net, one):
    """Move to the next cycle (`one`) or to that of the next wake-up; False if there is none."""
    net.g[G_NOW] += 1
    while True:
        if not one and net.g[G_NEAR] == 0:
            if net.g[G_FAR_MIN] == IDLE:
                return False
            net.g[G_NOW] = max(net.g[G_NOW], net.g[G_FAR_MIN])
        if net.g[G_FAR_MIN] - net.g[G_NOW] < BUCKETS:
            _fetch_far(net)
        if one or net.bucket[net.g[G_NOW] & (BUCKETS - 1)] >= 0:
            return True
        if net.g[G_NEAR] > 0:
            net.g[G_NOW] += 1
