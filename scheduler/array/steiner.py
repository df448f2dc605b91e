"""Least trees on the grid of sites: Dreyfus and Wagner's for few ends, grown path by path for many.

Nodes are sites in row-major order; the link from a node to its neighbour on side k costs ``cost[4 *
node + k]``, infinite where there is none.
"""

from __future__ import annotations

import numpy as np
import numba

EXACT = 8
"""Ends of a tree up to which it is the least one."""

jit = numba.njit(cache=True, error_model="numpy", nogil=True)


@jit
def neighbour(node, side, cols):
    """The node on a side: north, east, south, west."""
    if side == 0:
        return node - cols
    if side == 1:
        return node + 1
    if side == 2:
        return node + cols
    return node - 1


@jit
def relax(dist, via, cost, cols):
    """Extend least distances, of going from a node, over all links (a queue of nodes)."""
    n = len(dist)
    queue = np.empty(4 * n + 8, np.int64)
    inside = np.zeros(n, np.bool_)
    head = 0
    count = 0
    for v in range(n):
        if dist[v] < np.inf:
            queue[(head + count) % len(queue)] = v
            inside[v] = True
            count += 1
    while count:
        v = queue[head]
        head = (head + 1) % len(queue)
        count -= 1
        inside[v] = False
        for side in range(4):
            u = neighbour(v, side, cols)
            if u < 0 or u >= n:
                continue
            back = (side + 2) % 4  # the link from u to v
            d = dist[v] + cost[4 * u + back]
            if d < dist[u] - 1e-9:
                dist[u] = d
                via[u] = back
                if not inside[u]:
                    inside[u] = True
                    queue[(head + count) % len(queue)] = u
                    count += 1


@jit
def least_tree(root, ends, cost, cols, used):
    """Marks in ``used`` the links of a least tree from the root to all ends; returns its cost."""
    n = len(cost) // 4
    k = len(ends)
    full = (1 << k) - 1
    dist = np.full((full + 1, n), np.inf)
    via = np.full((full + 1, n), -1, np.int64)
    split = np.zeros((full + 1, n), np.int64)
    for i in range(k):
        dist[1 << i, ends[i]] = 0.0
    for mask in range(1, full + 1):
        sub = (mask - 1) & mask
        while sub > mask ^ sub:
            rest = mask ^ sub
            for v in range(n):
                d = dist[sub, v] + dist[rest, v]
                if d < dist[mask, v] - 1e-9:
                    dist[mask, v] = d
                    split[mask, v] = sub
                    via[mask, v] = -1
            sub = (sub - 1) & mask
        relax(dist[mask], via[mask], cost, cols)
    masks = np.empty(2 * k + 2, np.int64)
    nodes = np.empty(2 * k + 2, np.int64)
    masks[0] = full
    nodes[0] = root
    top = 1
    while top:
        top -= 1
        mask = masks[top]
        v = nodes[top]
        while via[mask, v] >= 0:
            side = via[mask, v]
            used[4 * v + side] = True
            v = neighbour(v, side, cols)
        if split[mask, v]:
            masks[top] = split[mask, v]
            nodes[top] = v
            masks[top + 1] = mask ^ split[mask, v]
            nodes[top + 1] = v
            top += 2
    return dist[full, root]


@jit
def grown_tree(root, ends, cost, cols, used):
    """The same for many ends: the nearest end not reached yet is joined to the tree, and so on."""
    n = len(cost) // 4
    inside = np.zeros(n, np.bool_)
    inside[root] = True
    left = np.ones(len(ends), np.bool_)
    total = 0.0
    for _ in range(len(ends)):
        best = -1
        entry = -1
        least = np.inf
        ways = np.full((len(ends), n), -1, np.int64)
        for i in range(len(ends)):
            if not left[i]:
                continue
            dist = np.full(n, np.inf)
            dist[ends[i]] = 0.0
            relax(dist, ways[i], cost, cols)
            for v in range(n):
                if inside[v] and dist[v] < least:
                    least = dist[v]
                    best = i
                    entry = v
        if best < 0:
            return np.inf
        total += least
        left[best] = False
        v = entry
        while v != ends[best]:
            side = ways[best, v]
            used[4 * v + side] = True
            v = neighbour(v, side, cols)
            inside[v] = True
    return total


@jit
def tree(root, ends, cost, cols, used):
    """A tree from the root to all ends, as marks of links; returns its cost."""
    if len(ends) <= EXACT:
        return least_tree(root, ends, cost, cols, used)
    return grown_tree(root, ends, cost, cols, used)


@jit
def pruned(root, ends, cols, used):
    """The links of ``used`` that lead from the root to an end, each node entered once."""
    n = len(used) // 4
    parent = np.full(n, -1, np.int64)
    seen = np.zeros(n, np.bool_)
    seen[root] = True
    queue = np.empty(n, np.int64)
    queue[0] = root
    count = 1
    at = 0
    while at < count:
        v = queue[at]
        at += 1
        for side in range(4):
            if used[4 * v + side]:
                u = neighbour(v, side, cols)
                if not seen[u]:
                    seen[u] = True
                    parent[u] = 4 * v + side
                    queue[count] = u
                    count += 1
    kept = np.zeros(len(used), np.bool_)
    for end in ends:
        v = end
        while v != root and parent[v] >= 0 and not kept[parent[v]]:
            kept[parent[v]] = True
            v = parent[v] // 4
    return kept
