"""The HBM node: a banked pipe, chosen by order of arrival.

A transfer of n lines asked for at t is sent in chunks of `par` lines, one a cycle; the node takes
the j-th at h = t + 1 + j, at most one of each port a cycle, ports in order. The i-th line of a
cycle moves the channel offset on by i and goes to the channel there; after a cycle with K lines the
offset moves on by K more. A channel serves a line at s = max(last s + interval, h + 1); the
response is seen at s + start_up + latency + 1. (Address bits play no part.)
"""

from .calendar import quiet, skip, wake
from .state import (
    G_ACTIVE,
    G_FIRST,
    G_INTERVAL,
    G_LATENCY,
    G_NOW,
    G_OFFSET,
    IDLE,
    P_LINES_LEFT,
    P_PAR,
    P_READY,
    P_UNIT,
    inner,
)


@inner
def transfer(net, port, lines):
    """Ask for lines in this cycle; the port's unit is woken when the last response is seen."""
    net.port[port, P_LINES_LEFT] = lines
    net.port[port, P_READY] = 0
    i = net.g[G_ACTIVE]
    while i > 0 and net.active[i - 1] > port:
        net.active[i] = net.active[i - 1]
        i -= 1
    net.active[i] = port
    net.g[G_ACTIVE] += 1
    if net.g[G_FIRST] < 0:
        net.g[G_FIRST] = net.g[G_NOW]


@inner
def tick(net):
    """Take this cycle's chunks; only transfers asked for in earlier cycles are active."""
    now = net.g[G_NOW]
    interval = net.g[G_INTERVAL]
    latency = net.g[G_LATENCY]
    channels = len(net.served)
    offset = net.g[G_OFFSET]
    taken = 0
    kept = 0
    for i in range(net.g[G_ACTIVE]):
        port = net.active[i]
        ready = net.port[port, P_READY]
        n = min(net.port[port, P_PAR], net.port[port, P_LINES_LEFT])
        for _ in range(n):
            offset = (offset + taken) & (channels - 1)
            served = max(net.served[offset] + interval, now + 1)
            net.served[offset] = served
            ready = max(ready, served + latency + 1)
            taken += 1
        net.port[port, P_READY] = ready
        net.port[port, P_LINES_LEFT] -= n
        if net.port[port, P_LINES_LEFT] > 0:
            net.active[kept] = port
            kept += 1
        else:
            wake(net, net.port[port, P_UNIT], ready)
    net.g[G_ACTIVE] = kept
    net.g[G_OFFSET] = (offset + taken) & (channels - 1)


@inner
def rush(net):
    """Take the chunks of all cycles in which nothing else happens: no unit is due, and no transfer
    gives its last line. Moves the clock to the first cycle in which something does.
    """
    active = net.g[G_ACTIVE]
    most = IDLE
    single = True
    for i in range(active):
        port = net.active[i]
        par = net.port[port, P_PAR]
        single = single and par == 1
        most = min(most, (net.port[port, P_LINES_LEFT] - 1) // par)
    cycles = quiet(net, most)
    if cycles <= 0:
        return
    if single:
        _lines(net, cycles)
    else:
        _chunks(net, cycles)
    for i in range(active):
        port = net.active[i]
        net.port[port, P_LINES_LEFT] -= cycles * net.port[port, P_PAR]
    skip(net, cycles)


@inner
def _lines(net, cycles):
    """Cycles in which each active port gives a line."""
    interval = net.g[G_INTERVAL]
    after = net.g[G_LATENCY] + 1
    channels = len(net.served)
    offset = net.g[G_OFFSET]
    active = net.g[G_ACTIVE]
    for now in range(net.g[G_NOW], net.g[G_NOW] + cycles):
        for i in range(active):
            offset = (offset + i) & (channels - 1)
            served = max(net.served[offset] + interval, now + 1)
            net.served[offset] = served
            port = net.active[i]
            net.port[port, P_READY] = max(net.port[port, P_READY], served + after)
        offset = (offset + active) & (channels - 1)
    net.g[G_OFFSET] = offset


@inner
def _chunks(net, cycles):
    """Cycles in which each active port gives a whole chunk."""
    interval = net.g[G_INTERVAL]
    after = net.g[G_LATENCY] + 1
    channels = len(net.served)
    offset = net.g[G_OFFSET]
    for now in range(net.g[G_NOW], net.g[G_NOW] + cycles):
        taken = 0
        for i in range(net.g[G_ACTIVE]):
            port = net.active[i]
            ready = net.port[port, P_READY]
            for _ in range(net.port[port, P_PAR]):
                offset = (offset + taken) & (channels - 1)
                served = max(net.served[offset] + interval, now + 1)
                net.served[offset] = served
                ready = max(ready, served + after)
                taken += 1
            net.port[port, P_READY] = ready
        offset = (offset + taken) & (channels - 1)
    net.g[G_OFFSET] = offset
