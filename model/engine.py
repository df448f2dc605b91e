"""The event-driven engine of the `machine` timing: a calendar of units to evaluate, the memory
interconnect, and the off-chip memory.
"""

from __future__ import annotations

import numpy as np
from numba import types

from . import dram
from .acts import sources_digest
from .compiling import jit, stamp
from .dram_words import EARLIEST, NEVER, TAKEN
from .records import at_address, call_act, fast, table, trailing_zeros, words
from .units.load import Load, delivered_load, grant_load
from .units.offchip import TAG_BITS, Port
from .units.state import ACTIVE, BLOCKED, BUSY, DELIVERED, Net, Unit, note, wake
from .units.store import Store, delivered_store, grant_store

# why `advance` returned; FULL: there is no room to keep another cycle
RUNNING, DONE, QUIET, LIMIT, FULL, FAILED = range(6)


@fast
def account(u, c, flags):
    """Busy and blocked cycles: those since the last evaluation were as that one left the unit."""
    if u.waits:
        u.blocked += c - u.evaluated - 1
    u.evaluated = c
    u.waits = 0
    if flags & BUSY:
        u.busy += 1
        u.busy_at = c
    elif flags & BLOCKED:
        u.blocked += 1
        u.waits = 1


@fast
def port_at(net, p):
    return table(net, net.ports)[p]


@fast
def interconnect(net, c):
    """Grant one chunk (docs/timing.md section 5, rule 2)."""
    memory = words(net.dram)
    if c < memory[TAKEN]:
        return
    p = net.grant if net.round_robin else 0
    while not Port(net, port_at(net, p), 0).presents:
        p = p + 1 if p + 1 < net.n_ports else 0
    at = port_at(net, p)
    u = Port(net, at, 0)
    net.grant = p + 1 if p + 1 < net.n_ports else 0
    u.presents = 0
    net.presented -= 1
    if u.busy_at != c:
        u.busy_at = c
        u.busy += 1
        u.blocked -= 1  # presented, so counted (now or at the next evaluation) as blocked
    if u.loads:
        grant_load(net, Load(net, at, 0), c)
    else:
        grant_store(net, Store(net, at, 0), c)
    if net.first_request < 0:
        net.first_request = max(c, memory[TAKEN] - 1)
    wake(net, u.id, c + 1)


@fast
def responses(net, c):
    """Lines delivered in `c`: visible to their unit from the next cycle (rule 3)."""
    memory = words(net.dram)
    lines = table(net, net.delivered)
    n = dram.deliver(memory, c, lines)
    net.events += n
    if memory[EARLIEST] < NEVER:
        wake(net, net.dram_unit, memory[EARLIEST])
    for i in range(n):
        p = lines[i] >> TAG_BITS
        tag = lines[i] & ((np.int64(1) << TAG_BITS) - 1)
        at = port_at(net, p)
        if Port(net, at, 0).loads:
            number = delivered_load(net, Load(net, at, 0), tag, c)
        else:
            number = delivered_store(net, Store(net, at, 0), tag, c)
        if net.traced:
            note(net, DELIVERED, p, c, number)


@fast
def next_cycle(net, c):
    """The first cycle from `c` on in which something happens; -1: there is none."""
    if net.presented:
        return c
    for cycle in range(c, c + net.wheel_mask + 1):
        due = table(net, net.wheel + (cycle & net.wheel_mask) * net.wheel_words)
        for i in range(net.wheel_words):
            if due[i]:
                return cycle
    return np.int64(-1)


@fast
def has_room(net):
    """True if there is room for the events of a cycle."""
    return (
        net.logged <= net.log_room
        and net.sunk_count <= net.sunk_room
        and net.recorded < net.record_room
    )


@fast
def evaluate(net, c):
    """All units that are due in `c`; returns whether the off-chip memory is."""
    memory = False
    due = table(net, net.wheel + (c & net.wheel_mask) * net.wheel_words)
    for i in range(net.wheel_words):
        bits = due[i]
        due[i] = 0
        while bits:
            unit = (i << 6) + trailing_zeros(bits)
            bits &= bits - 1
            if unit == net.dram_unit:
                memory = True
                continue
            at = net.units + unit * net.unit_words
            u = Unit(net, at, 0)
            flags = call_act(u.act, net, at, c)
            net.evaluations += 1
            account(u, c, flags)
            if flags & (BUSY | ACTIVE):
                wake(net, unit, c + 1)
    return memory


net_at = at_address(Net)


def _advance(address, limit):
    """Run from the cycle at hand until the run is over, stuck or failed, there is no room, or
    `limit` cycles are over.
    """
    net = net_at(address)
    status = RUNNING
    while status == RUNNING:
        c = next_cycle(net, net.now)
        if c < 0:
            net.now += net.wheel_mask + 1
            status = QUIET
        elif c >= limit:
            net.now = c
            status = LIMIT
        elif not has_room(net):
            net.now = c
            status = FULL
        else:
            net.now = c
            if evaluate(net, c):
                responses(net, c)
            if net.presented:
                interconnect(net, c)
            net.now = c + 1
            if net.fault:
                status = FAILED
            elif net.open == 0 and net.had_open:
                status = DONE
    return status


advance = jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)(_advance)


def compile_all() -> None:
    """Compile the functions of a run into numba's cache, unless they are there."""
    advance.compile((types.int64, types.int64))


stamp(advance, sources_digest())
