"""Simulated annealing of a placement: cells move to slots that they fit,
or swap; slots of two sites of one kind change places.

The cost of a net is 0 on a wire, else 1 and the length of its tree in
links (Steiner's for up to three ends, an estimate between box and
spanning tree beyond), times its weight.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numba

from .problem import Problem

FAR = 40.0
"""Cost of a net that no switch carries and no wire joins."""
TEMPERATURES = 90
COOLING = 0.92

jit = numba.njit(cache=True, error_model="numpy", nogil=True)


@jit
def below(state, n):
    """A number from 0 to n - 1 (xorshift)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64((x >> np.uint64(11)) % np.uint64(n))


@jit
def is_wired(a, net, source, end, n_slots):
    key = source * n_slots + end
    lo = a.wired_first[net]
    hi = a.wired_first[net + 1]
    while lo < hi:
        mid = (lo + hi) // 2
        if a.wired[mid] < key:
            lo = mid + 1
        else:
            hi = mid
    return lo < a.wired_first[net + 1] and a.wired[lo] == key


@jit
def tree_length(a, slot_of, first, last):
    """Links of the tree that joins the ends first..last - 1, about."""
    top = bottom = a.row[a.site[slot_of[a.ends[first]]]]
    left = right = a.col[a.site[slot_of[a.ends[first]]]]
    for i in range(first + 1, last):
        s = a.site[slot_of[a.ends[i]]]
        top = min(top, a.row[s])
        bottom = max(bottom, a.row[s])
        left = min(left, a.col[s])
        right = max(right, a.col[s])
    box = float(bottom - top + right - left)
    n = last - first
    if n <= 3:
        return box
    near = np.full(n, 1 << 30, np.int64)
    total = 0
    at = 0
    for _ in range(n - 1):
        near[at] = -1
        s = a.site[slot_of[a.ends[first + at]]]
        best = -1
        for j in range(n):
            if near[j] >= 0:
                x = a.site[slot_of[a.ends[first + j]]]
                near[j] = min(near[j], abs(a.row[s] - a.row[x]) + abs(a.col[s] - a.col[x]))
                if best < 0 or near[j] < near[best]:
                    best = j
        total += near[best]
        at = best
    return 0.5 * (box + total)


@jit
def net_cost(a, slot_of, net):
    first = a.ends_first[net]
    last = a.ends_first[net + 1]
    source = slot_of[a.ends[first]]
    if last - first == 2 and is_wired(a, net, source, slot_of[a.ends[first + 1]], len(a.site)):
        return 0.0
    cost = 1.0 + tree_length(a, slot_of, first, last)
    if not a.leaves[net, source]:
        cost += FAR
    for i in range(first + 1, last):
        if not a.enters[net, slot_of[a.ends[i]]]:
            cost += FAR
    return cost * a.weight[net]


@jit
def changed(a, slot_of, moved, n_moved, costs, seen, stamp, touched):
    """The change of cost where these cells have moved; the nets of it in
    ``touched``.
    """
    n = 0
    delta = 0.0
    for i in range(n_moved):
        c = moved[i]
        for k in range(a.nets_first[c], a.nets_first[c + 1]):
            net = a.nets_of[k]
            if seen[net] != stamp:
                seen[net] = stamp
                touched[n] = net
                n += 1
                delta += net_cost(a, slot_of, net) - costs[net]
    return delta, n


@jit
def propose_cell(a, slot_of, cell_at, random, reach, moved, new):
    """A cell to another slot, near one of its nets' ends; whoever is there
    takes its slot.
    """
    n_sites = len(a.row)
    c = below(random, len(slot_of))
    if a.nets_first[c] == a.nets_first[c + 1]:
        return 0
    net = a.nets_of[a.nets_first[c] + below(random, a.nets_first[c + 1] - a.nets_first[c])]
    first = a.ends_first[net]
    other = a.ends[first + below(random, a.ends_first[net + 1] - first)]
    at = a.site[slot_of[other]]
    rows = n_sites // a.cols
    row = a.row[at] + below(random, 2 * reach + 1) - reach
    col = a.col[at] + below(random, 2 * reach + 1) - reach
    row = min(max(row, 0), rows - 1)
    col = min(max(col, 0), a.cols - 1)
    key = c * n_sites + row * a.cols + col
    n = a.near_first[key + 1] - a.near_first[key]
    if n == 0:
        return 0
    slot = a.near[a.near_first[key] + below(random, n)]
    old = slot_of[c]
    if slot == old:
        return 0
    there = cell_at[slot]
    moved[0] = c
    new[0] = slot
    if there < 0:
        return 1
    if not a.fit[there, old]:
        return 0
    moved[1] = there
    new[1] = old
    return 2


@jit
def propose_group(a, slot_of, cell_at, random, moved, new):
    """Some slots of two sites of one kind change what they hold."""
    c = below(random, len(slot_of))
    one = a.site[slot_of[c]]
    first = a.twin_first[one]
    two = a.twin[first + below(random, a.twin_first[one + 1] - first)]
    if one == two:
        return 0
    first = a.masks_first[a.letter[one]]
    mask = a.masks[first + below(random, a.masks_first[a.letter[one] + 1] - first)]
    n = 0
    i = 0
    while mask >> i:
        if mask >> i & 1:
            left = a.slot_first[one] + i
            right = a.slot_first[two] + i
            if cell_at[left] >= 0:
                moved[n] = cell_at[left]
                new[n] = right
                n += 1
            if cell_at[right] >= 0:
                moved[n] = cell_at[right]
                new[n] = left
                n += 1
        i += 1
    return n


@jit
def put(slot_of, cell_at, moved, new, n):
    """Move cells; the slots that they had are kept in ``new``."""
    for i in range(n):
        cell_at[slot_of[moved[i]]] = -1
    for i in range(n):
        old = slot_of[moved[i]]
        slot_of[moved[i]] = new[i]
        cell_at[new[i]] = moved[i]
        new[i] = old


@jit
def sweep(a, slot_of, cell_at, costs, random, temperature, moves, reach):
    """Some moves at a temperature; returns how many were accepted, and
    their sum of |change|.
    """
    moved = np.zeros(128, np.int64)
    new = np.zeros(128, np.int64)
    seen = np.zeros(len(costs), np.int64)
    touched = np.zeros(len(costs), np.int64)
    accepted = 0
    size = 0.0
    for stamp in range(1, moves + 1):
        if below(random, 5):
            n = propose_cell(a, slot_of, cell_at, random, reach, moved, new)
        else:
            n = propose_group(a, slot_of, cell_at, random, moved, new)
        if n == 0:
            continue
        put(slot_of, cell_at, moved, new, n)
        delta, n_nets = changed(a, slot_of, moved, n, costs, seen, stamp, touched)
        chance = (below(random, 1 << 30) + 1.0) / (1 << 30)
        if delta <= 0 or (temperature > 0 and chance < np.exp(-delta / temperature)):
            accepted += 1
            size += abs(delta)
            for i in range(n_nets):
                costs[touched[i]] = net_cost(a, slot_of, touched[i])
        else:
            put(slot_of, cell_at, moved, new, n)
    return accepted, size


@jit
def all_costs(a, slot_of):
    """The cost of every net."""
    costs = np.zeros(len(a.ends_first) - 1)
    for net in range(len(costs)):
        costs[net] = net_cost(a, slot_of, net)
    return costs


def anneal(
    problem: Problem,
    seed: int,
    effort: float = 1.0,
    progress: Callable[[float], None] | None = None,
) -> np.ndarray:
    """A slot for each cell, of least cost as far as found.

    Parameters
    ----------
    problem
        With a start.
    seed, effort
        Of the random numbers; 2 tries twice as many moves.
    progress
        Called with the cost after every temperature.

    """
    a = problem.arrays
    slot_of = problem.start.copy()
    cell_at = np.full(len(a.site), -1, np.int64)
    cell_at[slot_of] = np.arange(len(slot_of))
    costs = all_costs(a, slot_of)
    random = np.array([seed * 2654435761 + 88172645463325252], np.uint64)
    moves = int(effort * 12 * len(slot_of) ** (4 / 3)) + 200
    widest = max(a.cols, len(a.row) // a.cols)
    accepted, size = sweep(a, slot_of, cell_at, costs, random, 1e9, moves // 4 + 50, widest)
    temperature = 2 * size / max(accepted, 1)
    best = slot_of.copy()
    least = costs.sum()
    for step in range(TEMPERATURES):
        reach = max(1, round(widest * (1 - 1.5 * step / TEMPERATURES)))
        sweep(a, slot_of, cell_at, costs, random, temperature, moves, reach)
        temperature *= COOLING
        if costs.sum() < least:
            least = costs.sum()
            best = slot_of.copy()
        if progress is not None:
            progress(float(costs.sum()))
    slot_of = best.copy()
    cell_at[:] = -1
    cell_at[slot_of] = np.arange(len(slot_of))
    costs = all_costs(a, slot_of)
    sweep(a, slot_of, cell_at, costs, random, 0.0, 4 * moves, 1)
    return slot_of
