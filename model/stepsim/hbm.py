"""The HBM node: a banked pipe, chosen by order of arrival.

A transfer of n lines asked for at t is sent in chunks of `par` lines, one a cycle; the node takes
the j-th at h = t + 1 + j, at most one of each port a cycle, ports in order. The i-th line of a
cycle moves the channel offset on by i and goes to the channel there; after a cycle with K lines the
offset moves on by K more. A channel serves a line at s = max(last s + interval, h + 1); the
response is seen at s + start_up + latency + 1. (Address bits play no part.)
"""

from ..records import fast, table
from .calendar import quiet, skip, wake
from .state import IDLE, Port


@fast
def _active(net, i):
    return Port(net, table(net, net.active)[i], 0)


@fast
def transfer(net, u, lines):
    """Ask for lines in this cycle; the unit is woken when the last response is seen."""
    u.lines = lines
    u.ready = 0
    active = table(net, net.active)
    i = net.n_active
    while i > 0 and _active(net, i - 1).port > u.port:
        active[i] = active[i - 1]
        i -= 1
    active[i] = u.at
    net.n_active += 1
    if net.first < 0:
        net.first = net.now


@fast
def _give(net, port, lines, taken, now):
    """A port gives the node lines of the chunks of cycle `now`, after `taken` others."""
    served = table(net, net.served)
    after = net.latency + 1
    offset = net.offset
    ready = port.ready
    for i in range(taken, taken + lines):
        offset = (offset + i) & (net.n_served - 1)
        start = max(served[offset] + net.interval, now + 1)
        served[offset] = start
        ready = max(ready, start + after)
    port.ready = ready
    net.offset = offset


@fast
def tick(net):
    """Take this cycle's chunks; only transfers asked for in earlier cycles are active."""
    active = table(net, net.active)
    taken = 0
    kept = 0
    for i in range(net.n_active):
        port = _active(net, i)
        n = min(port.par, port.lines)
        _give(net, port, n, taken, net.now)
        taken += n
        port.lines -= n
        if port.lines > 0:
            active[kept] = port.at
            kept += 1
        else:
            wake(net, port, port.ready)
    net.n_active = kept
    net.offset = (net.offset + taken) & (net.n_served - 1)


@fast
def rush(net):
    """Take the chunks of all cycles in which nothing else happens: no unit is due, and no transfer
    gives its last line. Moves the clock to the first cycle in which something does.
    """
    most = IDLE
    for i in range(net.n_active):
        port = _active(net, i)
        most = min(most, (port.lines - 1) // port.par)
    cycles = quiet(net, most)
    if cycles <= 0:
        return
    for now in range(net.now, net.now + cycles):
        taken = 0
        for i in range(net.n_active):
            port = _active(net, i)
            _give(net, port, port.par, taken, now)
            taken += port.par
        net.offset = (net.offset + taken) & (net.n_served - 1)
    for i in range(net.n_active):
        port = _active(net, i)
        port.lines -= cycles * port.par
    skip(net, cycles)
