"""The least latency of a tiny problem over every schedule: subgraphs, granularities, traversals,
what stays.

On the arithmetic of `dag_checker.py` alone.  Every connected set of operations, with every set of
tensors received and retained, at every granularity and in the best order of its tiles, is a move;
Dijkstra's algorithm goes over (operations run, tensors in slow memory, tensors kept).
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

from dag_checker import IllegalError, Walk

MOST_TILES = 8
"""Tiles of which every order is tried (by dynamic programming); of more, only what cannot be better
is decided.
"""


@dataclass(frozen=True)
class Least:
    """The least latency (units of time; infinite if there is no schedule); `exact` unless some
    order was left open.
    """

    latency: float
    exact: bool


def least_latency(problem, readings) -> Least:
    """Over all schedules in which a subgraph receives nothing that it does not use.

    Not for `reuse=lru`, where a step depends on more than the one before it.
    """
    if readings.reuse == "lru":
        raise ValueError("not for reuse=lru")
    moves = []
    exact = True
    for count in range(1, len(problem.ops) + 1):
        for ops in itertools.combinations(problem.topological, count):
            if _connected(problem, ops):
                found, sure = _moves(problem, readings, ops)
                moves += found
                exact = exact and sure
    return Least(_cheapest(problem, moves), exact)


def _connected(problem, ops) -> bool:
    made = {problem.ops[o].output: o for o in ops}
    links = [{made[t], o} for o in ops for t in problem.ops[o].inputs if t in made]
    reached = {ops[0]}
    for _ in ops:
        reached = reached.union(*(link for link in links if link & reached))
    return len(reached) == len(ops)


def _moves(problem, readings, ops):
    """(latency, operations, received, retained, needed, written) for each set received and
    retained.
    """
    made = {problem.ops[o].output for o in ops}
    loaded = sorted({t for o in ops for t in problem.ops[o].inputs if t not in made})
    taken = [t for t in loaded if problem.producer[t] is not None]
    may_stay = sorted(t for t in made if problem.consumers[t])
    may_come = taken
    if readings.retainable == "loaded-too":
        may_stay += loaded
        may_come = loaded
    found = []
    exact = True
    for received, retained in itertools.product(
        _subsets(problem, may_come), _subsets(problem, may_stay)
    ):
        latency, written, sure = _best(problem, readings, ops, received, retained)
        exact = exact and sure
        if latency < math.inf:
            needed = set(taken) - set(received)
            found.append((latency, *map(frozenset, (ops, received, retained, needed, written))))
    return found, exact


def _subsets(problem, tensors):
    return [
        s
        for n in range(len(tensors) + 1)
        for s in itertools.combinations(tensors, n)
        if sum(problem.tensors[t].size for t in s) < problem.capacity
    ]


def _best(problem, readings, ops, received, retained):
    """(least latency over granularities and orders, tensors written, whether that is sure)."""
    best = math.inf
    open_below = math.inf
    written = ()
    wide = max(t.width for t in problem.tensors)
    high = max(t.height for t in problem.tensors)
    if readings.above_native == "refused":
        most = (*problem.native, problem.native[0])
    else:
        most = (2 * wide, 2 * high, wide)
    for w, h, k in itertools.product(*(range(n, 0, -1) for n in most)):
        try:
            walk = Walk(problem, readings, ops, (w, h, k), received, retained)
        except IllegalError:
            continue
        if readings.inner_retention == "refused" and any(
            t in walk.made and t not in walk.formed for t in retained
        ):
            return math.inf, (), True
        written = [t for t in walk.outs if t not in retained]
        places = [(r, c) for r in range(walk.rows) for c in range(walk.columns)]
        stages = (stage for place in places for stage in walk.stages(*place))
        if any(stage.working_set > problem.capacity for stage in stages):
            continue
        latency, floor = _best_order(walk, places, best)
        best = min(best, latency)
        open_below = min(open_below, floor)
    return best, written, open_below >= best * (1 - 1e-12)


def _best_order(walk, places, best):
    """(latency of an order of the tiles, infinite if none is below `best`; a bound on all)."""
    tiles = [walk.stages(*place) for place in places]
    later = sum(walk.takes(b, a.buffers) for stages in tiles for a, b in itertools.pairwise(stages))
    begin = [walk.takes(stages[0], {}) for stages in tiles]
    after = [[walk.takes(stages[0], before[-1].buffers) for before in tiles] for stages in tiles]
    n = len(tiles)
    if n == 1:
        return later + begin[0], later + begin[0]
    floor = later + sum(
        min(min(after[i][j] for j in range(n) if j != i), begin[i]) for i in range(n)
    )
    if floor >= best:
        return math.inf, math.inf
    if n > MOST_TILES:
        snake = sorted(range(n), key=lambda i: (places[i][0], (-1) ** places[i][0] * places[i][1]))
        other = sorted(range(n), key=lambda i: (places[i][1], (-1) ** places[i][1] * places[i][0]))
        costs = (
            begin[o[0]] + sum(after[b][a] for a, b in itertools.pairwise(o)) for o in (snake, other)
        )
        return later + min(costs), floor
    least = {(1 << i, i): begin[i] for i in range(n)}
    for mask in range(1, 1 << n):
        for at in range(n):
            if (mask, at) in least:
                for to in range(n):
                    if not mask >> to & 1:
                        cost = least[mask, at] + after[to][at]
                        key = mask | 1 << to, to
                        if cost < least.get(key, math.inf):
                            least[key] = cost
    found = later + min(least[(1 << n) - 1, i] for i in range(n))
    return found, found


def _cheapest(problem, moves) -> float:
    goal = frozenset(range(len(problem.ops)))
    outputs = {op.output for op in problem.ops if not problem.consumers[op.output]}
    nothing: frozenset[int] = frozenset()
    queue = [(0.0, 0, nothing, nothing, nothing)]
    count = 0
    done = set()
    while queue:
        spent, _, run, slow, kept = heapq.heappop(queue)
        if run == goal and outputs <= slow:
            return spent
        if (run, slow, kept) in done:
            continue
        done.add((run, slow, kept))
        for latency, ops, received, retained, needed, written in moves:
            if received == kept and needed <= slow:
                count += 1
                heapq.heappush(queue, (spent + latency, count, run | ops, slow | written, retained))
    return math.inf
