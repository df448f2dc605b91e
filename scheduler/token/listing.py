"""Placement and static schedule together: list scheduling (docs/overlay.md section 8).

Operations are taken longest path first. Each goes to the PE where the cycle of its issue and the
price of the copies it needs there cost least; then its operands are sent there, each in the first
free cycle, and it issues. A source goes where its first consumer goes. Compiled; a node whose PE is
given stays there, so the same code schedules a placement, or completes one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numba

from .slots import (
    SEND,
    WRITE,
    distance,
    first_free,
    first_issue,
    first_send,
    route_free,
    shared_hops,
    slots,
    take,
    take_route,
    taken,
)

THERE, JOINED, NEW, NONE = range(4)
"""How a value gets to a PE: it is there, with a send that goes elsewhere, with a send of its own,
not at all.
"""

NODE = np.dtype(
    [
        ("left", np.int32),
        ("right", np.int32),
        ("left_edge", np.int32),
        ("right_edge", np.int32),
        ("source", np.int32),
        ("latency", np.int32),
        ("tail", np.int32),
        ("kind", np.int32),
        ("there", np.int32),
        ("fixed", np.int32),
        ("pe", np.int32),
        ("issue", np.int32),
        ("ready", np.int32),
        ("head", np.int32),
    ]
)
"""A node: its operands and their edges (-1: none), latency, the longest path after it, the kinds of
PE that do it (bits); whether its value is there from the start, whether its PE was given; then its
PE, its issue, the first cycle in which its value may be used there, and its first copy (-1: not
yet).
"""
COPY = np.dtype([("pe", np.int32), ("send", np.int32), ("cycle", np.int32), ("after", np.int32)])
"""A copy of a value: its PE, the send that made it, when it is written, the value's next copy."""
SENT = np.dtype([("node", np.int32), ("cycle", np.int32)])


class Machine(NamedTuple):
    """The overlay as the list scheduler needs it."""

    cols: int
    pes: int


class Plan(NamedTuple):
    """The schedule so far: what is taken (:mod:`.slots`), nodes, copies, sends, each edge's copy,
    nodes by PE, and the numbers of sends and copies.
    """

    slots: np.ndarray
    nodes: np.ndarray
    copies: np.ndarray
    sends: np.ndarray
    edge_copy: np.ndarray
    load: np.ndarray
    counts: np.ndarray


def plan(nodes: np.ndarray, edges: int, pes: int, cycles: int) -> Plan:
    """Room for schedules of a graph of up to ``cycles`` cycles."""
    return Plan(
        slots(pes, cycles),
        nodes.copy(),
        np.zeros(edges, COPY),
        np.zeros(edges, SENT),
        np.full(edges, -1, np.int32),
        np.zeros(pes, np.int64),
        np.zeros(2, np.int64),
    )


@numba.njit(cache=True)
def _way(u, p, m, s, nodes, copies, sends, limit):
    """Soonest way of value u to another PE p: how, cycle of arrival, copy or send."""
    home = nodes[u]["pe"]
    hops = distance(m.cols, home, p)
    copy = nodes[u]["head"]
    while copy >= 0:
        if copies[copy]["pe"] == p:
            return THERE, copies[copy]["cycle"], copy
        copy = copies[copy]["after"]
    best = limit
    how = NONE
    which = -1
    copy = nodes[u]["head"]
    while copy >= 0:
        send = copies[copy]["send"]
        start = sends[send]["cycle"]
        if start < best and not taken(s, WRITE * m.pes + p, start + hops):
            common = 0
            other = nodes[u]["head"]
            while other >= 0:
                if copies[other]["send"] == send:
                    common = max(common, shared_hops(m.cols, home, copies[other]["pe"], p))
                other = copies[other]["after"]
            if route_free(m.cols, m.pes, home, p, s, start, common):
                best = start
                how = JOINED
                which = send
        copy = copies[copy]["after"]
    ready = nodes[u]["ready"]
    if best > ready:
        start = first_send(m.cols, m.pes, home, p, s, ready, best)
        if start < best:
            best = start
            how = NEW
    return how, best + hops, which


@numba.njit(cache=True)
def _fetch(u, p, m, s, nodes, copies, sends, counts, limit):
    """Bring value u to another PE p; returns its copy there, -1 where there is no room."""
    how, arrival, which = _way(u, p, m, s, nodes, copies, sends, limit)
    if how == NONE:
        return -1
    if how == THERE:
        return which
    home = nodes[u]["pe"]
    start = arrival - distance(m.cols, home, p)
    if how == NEW:
        which = counts[0]
        sends[which]["node"] = u
        sends[which]["cycle"] = start
        counts[0] += 1
        take(s, SEND * m.pes + home, start)
    take_route(m.cols, m.pes, home, p, s, start)
    copy = counts[1]
    copies[copy]["pe"] = p
    copies[copy]["send"] = which
    copies[copy]["cycle"] = arrival
    copies[copy]["after"] = nodes[u]["head"]
    nodes[u]["head"] = copy
    counts[1] += 1
    return copy


@numba.njit(cache=True)
def _cost(v, p, m, s, nodes, copies, sends, price, limit):
    """Cost of an operation at p: the cycle of its issue, and the price of each copy made."""
    t = 0
    made = 0
    source = 0
    for i in range(2):
        u = nodes[v]["left"] if i == 0 else nodes[v]["right"]
        if u < 0 or (i == 1 and u == nodes[v]["left"]):
            continue
        home = nodes[u]["pe"]
        if home < 0:
            source = first_free(s, p, source, limit) + 1
            t = max(t, source)
        elif home == p:
            t = max(t, nodes[u]["ready"])
        else:
            how, arrival, _ = _way(u, p, m, s, nodes, copies, sends, limit)
            t = max(t, arrival + 1)
            made += 1 if how != THERE else 0
    return first_issue(m.pes, s, p, t, nodes[v]["latency"], limit) + price * made


@numba.njit(cache=True)
def _soonest(u, p, m, nodes, copies_cost):
    """A lower bound of the cycle in which value u may be used at p, and of the price of that."""
    home = nodes[u]["pe"] if u >= 0 else -1
    if home < 0:
        return 0, 0.0
    if home == p:
        return nodes[u]["ready"], 0.0
    price = copies_cost if nodes[u]["head"] < 0 else 0.0
    return nodes[u]["ready"] + distance(m.cols, home, p) + 1, price


@numba.njit(cache=True)
def _choose(v, m, plan, kinds, price, noise, limit):
    """The PE where operation v costs least; the PEs of its operands are looked at first."""
    s = plan.slots
    nodes = plan.nodes
    copies = plan.copies
    sends = plan.sends
    load = plan.load
    node = nodes[v]
    left = node["left"]
    right = node["right"] if node["right"] != left else -1
    best = -1
    least = np.inf
    for at in range(-2, m.pes):
        p = at
        if at < 0:
            u = left if at == -2 else right
            p = nodes[u]["pe"] if u >= 0 else -1
        if p < 0 or (kinds[p] & node["kind"]) == 0:
            continue
        t, paid = _soonest(left, p, m, nodes, price)
        t2, paid2 = _soonest(right, p, m, nodes, price)
        t = max(t, t2)
        paid += paid2
        if t + paid >= least:
            continue
        if first_issue(m.pes, s, p, t, node["latency"], limit) + paid >= least:
            continue
        cost = _cost(v, p, m, s, nodes, copies, sends, price, limit)
        cost += 1e-4 * load[p]
        if noise > 0:
            cost += noise * np.random.random()
        if cost < least:
            least = cost
            best = p
    return best


@numba.njit(cache=True)
def _begin(v, placed, m, s, nodes, load, limit):
    """Begin the sources that operation v is the first to read: those that have a PE, or the others
    at v's; returns whether there was room.
    """
    for i in range(2):
        u = nodes[v]["left"] if i == 0 else nodes[v]["right"]
        if u < 0 or not nodes[u]["source"] or nodes[u]["ready"] >= 0:
            continue
        if (nodes[u]["pe"] >= 0) != placed:
            continue
        home = nodes[u]["pe"] if placed else nodes[v]["pe"]
        t = first_free(s, home, 0, limit)
        if t >= limit:
            return False
        take(s, home, t)
        nodes[u]["issue"] = t
        nodes[u]["pe"] = home
        nodes[u]["ready"] = t + 1
        load[home] += 1
    return True


@numba.njit(cache=True)
def _issue(v, m, plan, limit):
    """Bring the operands of operation v to its PE and issue it; returns whether there was room."""
    s = plan.slots
    nodes = plan.nodes
    p = nodes[v]["pe"]
    t = 0
    for i in range(2):
        u = nodes[v]["left"] if i == 0 else nodes[v]["right"]
        if u < 0:
            continue
        if nodes[u]["pe"] == p:
            t = max(t, nodes[u]["ready"])
            continue
        copy = _fetch(u, p, m, s, nodes, plan.copies, plan.sends, plan.counts, limit)
        if copy < 0:
            return False
        plan.edge_copy[nodes[v]["left_edge"] if i == 0 else nodes[v]["right_edge"]] = copy
        t = max(t, plan.copies[copy]["cycle"] + 1)
    t = first_issue(m.pes, s, p, t, nodes[v]["latency"], limit)
    done = t + nodes[v]["latency"]
    if done + nodes[v]["tail"] >= limit:
        return False
    take(s, p, t)
    take(s, WRITE * m.pes + p, done - 1)
    nodes[v]["issue"] = t
    nodes[v]["ready"] = done
    plan.load[p] += 1
    return True


@numba.njit(cache=True)
def seed(number):
    """Begin the random numbers of compiled code anew."""
    np.random.seed(number)


@numba.njit(cache=True)
def _clear(pe, plan):
    plan.slots[:] = 0
    for n in range(len(pe)):
        plan.nodes[n]["pe"] = pe[n]
        plan.nodes[n]["issue"] = -1
        plan.nodes[n]["ready"] = 0 if plan.nodes[n]["there"] else -1
        plan.nodes[n]["head"] = -1
    plan.edge_copy[:] = -1
    plan.load[:] = 0
    plan.counts[:] = 0


@numba.njit(cache=True)
def run(order, pe, m, kinds, plan, price, noise, limit):
    """Place what has no PE (-1 in ``pe``), and schedule all, from nothing; returns the length, or
    -1: it would not be below ``limit``.

    ``order``: the operations, each behind its operands; ``price``: of a copy, in cycles; ``noise``:
    largest random addition to a cost.
    """
    _clear(pe, plan)
    s = plan.slots
    nodes = plan.nodes
    load = plan.load
    length = 0
    for v in order:
        if not _begin(v, True, m, s, nodes, load, limit):
            return -1
        if nodes[v]["pe"] < 0:
            nodes[v]["pe"] = _choose(v, m, plan, kinds, price, noise, limit)
        if not _begin(v, False, m, s, nodes, load, limit) or not _issue(v, m, plan, limit):
            return -1
        length = max(length, nodes[v]["ready"])
    return length
