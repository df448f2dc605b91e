"""The least latency of a small problem over every sequence of
subgraphs: what the solver's choice of subgraphs is judged by.

Every connected set of operations, with every set of tensors received
and retained, is a move, at the latency of the tiling search (which the
tests hold against all granularities); Dijkstra's algorithm goes over
(operations run, tensors in slow memory, tensors kept).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

from penstock.scheduler.dag import Problem, Readings, ScheduleError
from penstock.scheduler.dag.demand import make_plan
from penstock.scheduler.dag.solve.groups import Pool
from penstock.scheduler.dag.solve.tiles import TileSearch

Move = tuple[float, int, frozenset[int], frozenset[int], frozenset[int], frozenset[int]]
"""Latency, operations (mask), received, retained, needed from slow memory, written to it."""


def least_latency(problem: Problem, most_moves: int = 5000) -> float | None:
    """The least latency (units of time); None if there are more than
    `most_moves` moves.
    """
    moves = list(itertools.islice(_moves(problem), most_moves + 1))
    if len(moves) > most_moves:
        return None
    goal = (1 << len(problem.ops)) - 1
    outputs = frozenset(problem.graph_outputs)
    nothing: frozenset[int] = frozenset()
    queue = [(0.0, 0, 0, nothing, nothing)]
    count = 0
    done = set()
    while queue:
        spent, _, covered, slow, kept = heapq.heappop(queue)
        if covered == goal and outputs <= slow and not kept:
            return spent
        if (covered, slow, kept) in done:
            continue
        done.add((covered, slow, kept))
        for latency, mask, received, retained, needed, written in moves:
            if received == kept and needed <= slow:
                count += 1
                heapq.heappush(
                    queue, (spent + latency, count, covered | mask, slow | written, retained)
                )
    return None


def _moves(problem: Problem) -> Iterator[Move]:
    readings = Readings()
    tiles = TileSearch(problem, readings)
    pool = Pool(problem, readings, tiles)
    for mask in range(1, 1 << len(problem.ops)):
        if len(list(pool.components(mask))) != 1:
            continue
        try:
            plan = make_plan(problem, pool.members(mask), readings)
        except ScheduleError:
            continue
        made = [t for o in plan.ops if problem.consumers[t := problem.ops[o].output]]
        taken = [t for t in plan.inputs if problem.producer[t] is not None]
        for received, retained in itertools.product(
            _subsets(problem, taken), _subsets(problem, made)
        ):
            tiling = tiles.best(plan, received, retained)
            if tiling is not None:
                yield (
                    tiling.latency,
                    mask,
                    frozenset(received),
                    frozenset(retained),
                    frozenset(t for t in taken if t not in received),
                    frozenset(t for t in plan.outputs if t not in retained),
                )


def _subsets(problem: Problem, tensors: list[int]) -> list[tuple[int, ...]]:
    return [
        s
        for n in range(len(tensors) + 1)
        for s in itertools.combinations(tensors, n)
        if sum(problem.tensors[t].size for t in s) < problem.capacity
    ]
