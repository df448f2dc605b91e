"""Simulated annealing of a placement: cells move to slots that they fit, or swap; slots of two
sites of one kind change places.

The cost of a net is 0 on a wire, else 1 and the length of its tree in links (Steiner's for up to
three ends, an estimate between box and spanning tree beyond).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numba

from .problem import Problem

FAR = 40.0
"""Cost of a net that no switch carries and no wire joins."""
TEMPERATURES = 60
HOT = 3.0
COLD = 0.12
"""First and last temperature, in links."""
COOLING = (COLD / HOT) ** (1 / TEMPERATURES)
WARM = 45
"""The step at which a kept placement begins."""
LEAST_RUNS = 4
ALL_CELLS = 120
"""Runs: as many as have so many cells together, and no fewer."""

jit = numba.njit(cache=True, error_model="numpy", nogil=True)


@jit
def below(state, n):
    """A number from 0 to n - 1 (xorshift)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@jit
def is_wired(wired, lo, hi, key):
    """True if ``wired[lo:hi]``, in order, holds a key."""
    while lo < hi:
        mid = (lo + hi) // 2
        if wired[mid] == key:
            return True
        if wired[mid] < key:
            lo = mid + 1
        else:
            hi = mid
    return False


@jit
def tree_length(at, slot_of, ends, first, last, near):
    """Links of the tree that joins the ends first..last - 1, about; ``near`` has a place for
    each.
    """
    s = slot_of[ends[first]]
    top = bottom = at[s, 0]
    left = right = at[s, 1]
    for i in range(first + 1, last):
        s = slot_of[ends[i]]
        top = min(top, at[s, 0])
        bottom = max(bottom, at[s, 0])
        left = min(left, at[s, 1])
        right = max(right, at[s, 1])
    box = float(bottom - top + right - left)
    n = last - first
    if n <= 3:
        return box
    for j in range(n):
        near[j] = 1 << 30
    total = 0
    now = 0
    for _ in range(n - 1):
        near[now] = -1
        s = slot_of[ends[first + now]]
        best = -1
        for j in range(n):
            if near[j] >= 0:
                x = slot_of[ends[first + j]]
                near[j] = min(near[j], abs(at[s, 0] - at[x, 0]) + abs(at[s, 1] - at[x, 1]))
                if best < 0 or near[j] < near[best]:
                    best = j
        total += near[best]
        now = best
    return 0.5 * (box + total)


@jit
def net_cost(at, ends_first, ends, wired_first, wired, reached, slot_of, near, net):
    """The cost of a net; see the module's text."""
    first = ends_first[net]
    last = ends_first[net + 1]
    source = slot_of[ends[first]]
    if last - first == 2:
        key = source * len(at) + slot_of[ends[first + 1]]
        if is_wired(wired, wired_first[net], wired_first[net + 1], key):
            return 0.0
    cost = 1.0 + tree_length(at, slot_of, ends, first, last, near)
    if not reached[0, net, source]:
        cost += FAR
    for i in range(first + 1, last):
        if not reached[1, net, slot_of[ends[i]]]:
            cost += FAR
    return cost


@jit
def slot_in(a, cell, site, random):
    """One of a site's slots that a cell fits; -1: it has none."""
    key = cell * len(a.letter) + site
    first = a.near_first[key]
    n = a.near_first[key + 1] - first
    return a.near[first + below(random, n)] if n else -1


@jit
def site_near(a, slot, reach, random):
    """A site in reach of a slot."""
    row = a.at[slot, 0] + below(random, 2 * reach + 1) - reach
    col = a.at[slot, 1] + below(random, 2 * reach + 1) - reach
    row = min(max(row, 0), len(a.letter) // a.cols - 1)
    return row * a.cols + min(max(col, 0), a.cols - 1)


@jit
def propose_cell(a, slot_of, cell_at, random, reach, moved, new):
    """Move a cell to another slot, near one of its nets' ends. A cell that is there takes its old
    slot, or one near by, whose cell takes the old one.
    """
    c = below(random, len(slot_of))
    if a.nets_first[c] == a.nets_first[c + 1]:
        return 0
    net = a.nets_of[a.nets_first[c] + below(random, a.nets_first[c + 1] - a.nets_first[c])]
    first = a.ends_first[net]
    other = a.ends[first + below(random, a.ends_first[net + 1] - first)]
    slot = slot_in(a, c, site_near(a, slot_of[other], reach, random), random)
    old = slot_of[c]
    if slot < 0 or slot == old:
        return 0
    moved[0] = c
    new[0] = slot
    n = 1
    while cell_at[slot] >= 0 and slot != old:
        there = cell_at[slot]
        if n == 3:
            return 0
        if a.fit[there, old]:
            slot = old
        else:
            slot = slot_in(a, there, site_near(a, old, reach, random), random)
            if slot < 0:
                return 0
        for i in range(n):
            if new[i] == slot or moved[i] == there:
                return 0
        moved[n] = there
        new[n] = slot
        n += 1
    return n


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
    """Some moves at a temperature; returns how many were accepted."""
    moved = np.zeros(128, np.int64)
    new = np.zeros(128, np.int64)
    near = np.zeros(len(a.ends) + 1, np.int64)
    seen = np.zeros(len(costs), np.int64)
    touched = np.zeros(len(costs), np.int64)
    fresh = np.zeros(len(costs))
    # A field that is read in a loop counts references: each is read once.
    at = a.at
    nets_first = a.nets_first
    nets_of = a.nets_of
    ends_first = a.ends_first
    ends = a.ends
    wired_first = a.wired_first
    wired = a.wired
    reached = a.reached
    accepted = 0
    for stamp in range(1, moves + 1):
        if below(random, 5):
            n = propose_cell(a, slot_of, cell_at, random, reach, moved, new)
        else:
            n = propose_group(a, slot_of, cell_at, random, moved, new)
        if n == 0:
            continue
        put(slot_of, cell_at, moved, new, n)
        n_nets = 0
        delta = 0.0
        for i in range(n):
            for k in range(nets_first[moved[i]], nets_first[moved[i] + 1]):
                net = nets_of[k]
                if seen[net] != stamp:
                    seen[net] = stamp
                    touched[n_nets] = net
                    cost = net_cost(
                        at, ends_first, ends, wired_first, wired, reached, slot_of, near, net
                    )
                    fresh[n_nets] = cost
                    delta += cost - costs[net]
                    n_nets += 1
        chance = (below(random, 1 << 30) + 1.0) / (1 << 30)
        if delta <= 0 or (temperature > 0 and chance < np.exp(-delta / temperature)):
            accepted += 1
            for i in range(n_nets):
                costs[touched[i]] = fresh[i]
        else:
            put(slot_of, cell_at, moved, new, n)
    return accepted


@jit
def all_costs(a, slot_of):
    """The cost of every net."""
    costs = np.zeros(len(a.ends_first) - 1)
    near = np.zeros(len(a.ends) + 1, np.int64)
    for k in range(len(costs)):
        costs[k] = net_cost(
            a.at, a.ends_first, a.ends, a.wired_first, a.wired, a.reached, slot_of, near, k
        )
    return costs


def anneal(
    problem: Problem,
    seed: int,
    effort: float = 1.0,
    progress: Callable[[float], None] | None = None,
) -> list[np.ndarray]:
    """Placements, the one of least cost first: a slot for each cell, by each of some runs.

    Parameters
    ----------
    problem
        With a start. One that is kept is disturbed little: a single run begins cold.
    seed, effort
        Of the random numbers; 2 tries twice as many moves.
    progress
        Called with the least cost after every run.
    """
    n = max(len(problem.cells), 1)
    runs = 1 if problem.kept else max(LEAST_RUNS, ALL_CELLS // n)
    found = [(cost_of(problem, problem.start), problem.start)] if problem.kept else []
    for run in range(runs):
        number = (seed * runs + run) * 2654435761 + 88172645463325252
        random = np.array([number % (1 << 63)], np.uint64)
        slot_of = _run(problem, random, effort)
        found.append((cost_of(problem, slot_of), slot_of))
        if progress is not None:
            progress(min(cost for cost, _ in found))
    return [slot_of for _, slot_of in sorted(found, key=lambda x: x[0])]


def cost_of(problem: Problem, slot_of: np.ndarray) -> float:
    """The cost of a placement."""
    return float(all_costs(problem.arrays, slot_of).sum())


def _run(problem: Problem, random: np.ndarray, effort: float) -> np.ndarray:
    """One run from hot to cold, and downhill from the best that it met."""
    a = problem.arrays
    slot_of = problem.start.copy()
    cell_at = np.full(len(a.site), -1, np.int64)
    cell_at[slot_of] = np.arange(len(slot_of))
    costs = all_costs(a, slot_of)
    moves = int(effort * 12 * len(slot_of) ** (4 / 3)) + 200
    widest = max(a.cols, len(a.letter) // a.cols)
    best = slot_of.copy()
    least = costs.sum()
    first = WARM if problem.kept else 0
    for step in range(first, TEMPERATURES):
        reach = max(1, round(widest * (1 - 1.2 * step / TEMPERATURES)))
        temperature = HOT * COOLING**step
        sweep(a, slot_of, cell_at, costs, random, temperature, moves, reach)
        if costs.sum() < least:
            least = costs.sum()
            best = slot_of.copy()
    slot_of = best.copy()
    cell_at[:] = -1
    cell_at[slot_of] = np.arange(len(slot_of))
    costs = all_costs(a, slot_of)
    sweep(a, slot_of, cell_at, costs, random, 0.0, 4 * moves, 1)
    return slot_of
