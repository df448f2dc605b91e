"""The calendar of wake-ups: at most one per unit, put in and found in constant time.

One bucket for each of the next BUCKETS cycles, a linked list of units, and one bucket for all later
times. The order within a cycle has no influence: what a unit does in a cycle is seen by others in
the next one at the earliest, but for its end, for which they are woken again in that cycle.
"""

from .state import G_FAR_MIN, G_NEAR, G_NOW, IDLE, U_AFTER, U_DUE, inner

BUCKETS = 1 << 13


@inner
def _insert(net, u, t):
    if t - net.g[G_NOW] < BUCKETS:
        b = t & (BUCKETS - 1)
        net.g[G_NEAR] += 1
    else:
        b = BUCKETS
        net.g[G_FAR_MIN] = min(net.g[G_FAR_MIN], t)
    net.unit[u, U_DUE] = t
    net.unit[u, U_AFTER] = net.bucket[b]
    net.bucket[b] = u


@inner
def _remove(net, u):
    near = net.unit[u, U_DUE] - net.g[G_NOW] < BUCKETS and net.unit[u, U_DUE] < net.g[G_FAR_MIN]
    b = net.unit[u, U_DUE] & (BUCKETS - 1) if near else BUCKETS
    net.g[G_NEAR] -= near
    v = net.bucket[b]
    if v == u:
        net.bucket[b] = net.unit[u, U_AFTER]
        return
    while net.unit[v, U_AFTER] != u:
        v = net.unit[v, U_AFTER]
    net.unit[v, U_AFTER] = net.unit[u, U_AFTER]


@inner
def wake(net, u, t):
    """Have unit u go on at t, or earlier if it wakes earlier anyway."""
    if t < net.unit[u, U_DUE]:
        if net.unit[u, U_DUE] != IDLE:
            _remove(net, u)
        _insert(net, u, t)


@inner
def pop(net):
    """A unit due now, or -1."""
    b = net.g[G_NOW] & (BUCKETS - 1)
    u = net.bucket[b]
    if u >= 0:
        net.bucket[b] = net.unit[u, U_AFTER]
        net.unit[u, U_DUE] = IDLE
        net.g[G_NEAR] -= 1
    return u


@inner
def _fetch_far(net):
    u = net.bucket[BUCKETS]
    net.bucket[BUCKETS] = -1
    net.g[G_FAR_MIN] = IDLE
    while u >= 0:
        following = net.unit[u, U_AFTER]
        _insert(net, u, net.unit[u, U_DUE])
        u = following


@inner
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


@inner
def quiet(net, most):
    """Cycles from this one on, at most ``most``, in which no unit is due."""
    most = min(most, BUCKETS - 1)
    if net.g[G_NEAR] == 0:
        return min(most, net.g[G_FAR_MIN] - net.g[G_NOW])
    for cycles in range(most):
        if net.bucket[(net.g[G_NOW] + cycles) & (BUCKETS - 1)] >= 0:
            return cycles
    return most


@inner
def skip(net, cycles):
    """Move on by cycles that are quiet."""
    net.g[G_NOW] += cycles
    if net.g[G_FAR_MIN] - net.g[G_NOW] < BUCKETS:
        _fetch_far(net)
