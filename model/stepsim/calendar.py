"""The calendar of wake-ups: at most one per unit, put in and found in constant time.

One bucket for each of the next BUCKETS cycles, a linked list of units, and one bucket for all later
times. The order within a cycle has no influence: what a unit does in a cycle is seen by others in
the next one at the earliest, but for its end, for which they are woken again in that cycle.
"""

from ..records import fast, table
from .state import IDLE, Unit

BUCKETS = 1 << 13


@fast
def _insert(net, u, t):
    if t - net.now < BUCKETS:
        b = t & (BUCKETS - 1)
        net.near += 1
    else:
        b = BUCKETS
        net.far_min = min(net.far_min, t)
    bucket = table(net, net.buckets)
    u.due = t
    u.after = bucket[b]
    bucket[b] = u.at


@fast
def _remove(net, u):
    near = u.due - net.now < BUCKETS and u.due < net.far_min
    b = u.due & (BUCKETS - 1) if near else BUCKETS
    net.near -= near
    bucket = table(net, net.buckets)
    if bucket[b] == u.at:
        bucket[b] = u.after
        return
    v = Unit(net, bucket[b], 0)
    while v.after != u.at:
        v = Unit(net, v.after, 0)
    v.after = u.after


@fast
def wake(net, u, t):
    """Have unit u go on at t, or earlier if it wakes earlier anyway."""
    if t < u.due:
        if u.due != IDLE:
            _remove(net, u)
        _insert(net, u, t)


@fast
def pop(net):
    """Offset of a unit due now, or 0."""
    bucket = table(net, net.buckets)
    b = net.now & (BUCKETS - 1)
    at = bucket[b]
    if at:
        u = Unit(net, at, 0)
        bucket[b] = u.after
        u.due = IDLE
        net.near -= 1
    return at


@fast
def _fetch_far(net):
    bucket = table(net, net.buckets)
    at = bucket[BUCKETS]
    bucket[BUCKETS] = 0
    net.far_min = IDLE
    while at:
        u = Unit(net, at, 0)
        at = u.after
        _insert(net, u, u.due)


@fast
def advance(net, one):
    """Move to the next cycle (`one`) or to that of the next wake-up; False if there is none."""
    bucket = table(net, net.buckets)
    net.now += 1
    while True:
        if not one and net.near == 0:
            if net.far_min == IDLE:
                return False
            net.now = max(net.now, net.far_min)
        if net.far_min - net.now < BUCKETS:
            _fetch_far(net)
        if one or bucket[net.now & (BUCKETS - 1)]:
            return True
        if net.near > 0:
            net.now += 1


@fast
def quiet(net, most):
    """Cycles from this one on, at most ``most``, in which no unit is due."""
    most = min(most, BUCKETS - 1)
    if net.near == 0:
        return min(most, net.far_min - net.now)
    bucket = table(net, net.buckets)
    for cycles in range(most):
        if bucket[(net.now + cycles) & (BUCKETS - 1)]:
            return cycles
    return most


@fast
def skip(net, cycles):
    """Move on by cycles that are quiet."""
    net.now += cycles
    if net.far_min - net.now < BUCKETS:
        _fetch_far(net)
