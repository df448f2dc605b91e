"""Banks of nodes, for PEs that serve two consumers at a time (docs/overlay.md section 3.1).

A node's bank is the lowest bit of its address. Every node is consumer of at most two values, so the
wanted pairs are paths and cycles, and nearly all can have both colours.
"""

from __future__ import annotations

import numpy as np
import numba


@numba.njit(cache=True)
def pair_colours(pe, pes, one, two):
    """int8 [nodes]: 0 or 1 so that the nodes of (nearly) every pair differ; -1 for nodes in no
    pair.
    """
    n = len(pe)
    near = np.full((n, 2), -1, np.int64)
    degree = np.zeros(n, np.int64)
    for k in range(len(one)):
        u = one[k]
        v = two[k]
        if u != v and degree[u] < 2 and degree[v] < 2:
            near[u, degree[u]] = v
            near[v, degree[v]] = u
            degree[u] += 1
            degree[v] += 1
    colour = np.full(n, -1, np.int8)
    stack = np.empty(n + 1, np.int64)
    start = np.zeros(pes, np.int8)
    for root in range(n):
        if degree[root] == 0 or colour[root] >= 0:
            continue
        # a PE's components begin with either colour in turn, so that its banks fill alike
        colour[root] = start[pe[root]]
        start[pe[root]] = 1 - start[pe[root]]
        stack[0] = root
        depth = 1
        while depth:
            depth -= 1
            u = stack[depth]
            for i in range(degree[u]):
                v = near[u, i]
                if colour[v] < 0:
                    colour[v] = 1 - colour[u]
                    stack[depth] = v
                    depth += 1
    return colour


@numba.njit(cache=True)
def banked(order, base, region, colour):
    """The nodes by address anew: within each region (equal numbers are contiguous) the order stays,
    but even addresses go to colour 0 and odd ones to colour 1 as far as they last.

    ``base``: first position of each PE, whose addresses begin at 0. Nodes of colour -1 go where
    they come.
    """
    out = np.empty_like(order)
    n = len(order)
    queues = np.empty((3, n), np.int64)
    first = 0
    pe = 0
    while first < n:
        end = first
        count = np.zeros(3, np.int64)
        while end < n and region[end] == region[first]:
            c = colour[order[end]]
            c = 2 if c < 0 else c
            queues[c, count[c]] = end
            count[c] += 1
            end += 1
        while base[pe + 1] <= first:
            pe += 1
        head = np.zeros(3, np.int64)
        for at in range(first, end):
            bank = (at - base[pe]) % 2
            best = -1
            for c in (bank, 2):
                if head[c] < count[c] and (
                    best < 0 or queues[c, head[c]] < queues[best, head[best]]
                ):
                    best = c
            if best < 0:
                best = 1 - bank
            out[at] = order[queues[best, head[best]]]
            head[best] += 1
        first = end
    return out
