"""The HBM node: a banked pipe, chosen by order of arrival.

A transfer of n lines asked for at t is sent in chunks of `par` lines, one a cycle; the node takes
the j-th at h = t + 1 + j, at most one of each port a cycle, ports in order. The i-th line of a
cycle moves the channel offset on by i and goes to the channel there; after a cycle with K lines the
offset moves on by K more. A channel serves a line at s = max(last s + interval, h + 1); the
response is seen at s + start_up + latency + 1. (Address bits play no part.)
"""

from ..records import fast, table
from .calendar import quiet, skip, wake
from .state import IDLE, Port, Unit


@fast
def transfer(net, u, lines):
    """Ask for lines in this cycle; the unit is woken when the last response is seen."""
    port = Port(net, u.port, 0)
    port.lines = lines
    port.ready = 0
    active = table(net, net.active)
    i = net.n_active
    while i > 0 and active[i - 1] > u.port:
        active[i] = active[i - 1]
        i -= 1
    active[i] = u.port
    net.n_active += 1
    if net.first < 0:
        net.first = net.now


@fast
def _pipe(net):
    """Last service starts, interval, cycles from a start to its response, mask of a channel."""
    return table(net, net.served), net.interval, net.latency + 1, net.n_served - 1


@fast
def _give(pipe, port, lines, taken, now, offset):
    """A port gives lines of the chunks of cycle `now`, after `taken` others; the next offset."""
    served, interval, after, mask = pipe
    ready = port.ready
    for i in range(taken, taken + lines):
        offset = (offset + i) & mask
        start = max(served[offset] + interval, now + 1)
        served[offset] = start
        ready = max(ready, start + after)
    port.ready = ready
    return offset


@fast
def tick(net):
    """Take this cycle's chunks; only transfers asked for in earlier cycles are active."""
    active = table(net, net.active)
    pipe = _pipe(net)
    offset = net.offset
    taken = 0
    kept = 0
    for i in range(net.n_active):
        port = Port(net, active[i], 0)
        n = min(port.par, port.lines)
        offset = _give(pipe, port, n, taken, net.now, offset)
        taken += n
        port.lines -= n
        if port.lines > 0:
            active[kept] = active[i]
            kept += 1
        else:
            wake(net, Unit(net, port.unit, 0), port.ready)
    net.n_active = kept
    net.offset = (offset + taken) & (net.n_served - 1)


@fast
def rush(net):
    """Take the chunks of all cycles in which nothing else happens: no unit is due, and no transfer
    gives its last line. Moves the clock to the first cycle in which something does.
    """
    active = table(net, net.active)
    n = net.n_active
    most = IDLE
    single = True
    for i in range(n):
        port = Port(net, active[i], 0)
        single = single and port.par == 1
        most = min(most, (port.lines - 1) // port.par)
    cycles = quiet(net, most)
    if cycles <= 0:
        return
    pipe = _pipe(net)
    offset = net.offset
    for now in range(net.now, net.now + cycles):
        taken = 0
        if single:
            for i in range(n):
                offset = _give(pipe, Port(net, active[i], 0), 1, i, now, offset)
            taken = n
        else:
            for i in range(n):
                port = Port(net, active[i], 0)
                par = port.par
                offset = _give(pipe, port, par, taken, now, offset)
                taken += par
        offset = (offset + taken) & pipe[3]
    net.offset = offset
    for i in range(n):
        port = Port(net, active[i], 0)
        port.lines -= cycles * port.par
    skip(net, cycles)
