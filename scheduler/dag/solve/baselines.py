"""Simple schedules: the first valid one, and the yardsticks the solver must not fall behind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from ....machine.errors import PenstockError
from ..demand import Plan, make_plan
from ..evaluate import check_granularity
from ..meter import Meter
from ..problem import Problem
from ..readings import Readings
from ..solution import Granularity, Schedule, Subgraph

LONGEST_CHAIN = 32
"""Operations fused into one chain."""


def native_granularity(problem: Problem, plan: Plan, readings: Readings, where: str) -> Granularity:
    """The native size, halved (depth first, then the longer side) until it is allowed and fits."""
    length = [plan.width, plan.height, plan.limit]
    native = (*problem.native, problem.native_depth)
    least = [1, 1, 1]
    for cover in plan.covers:
        axis = "wh".index(cover.axis)
        least[axis] = max(least[axis], cover.least)
    size = [max(least[i], min(length[i], native[i])) for i in range(3)]
    if readings.tiling != "any":
        size = [_regular(size[i], length[i], readings) for i in range(3)]
    while True:
        granularity: Granularity = (size[0], size[1], size[2])
        if _fits(problem, plan, readings, granularity):
            check_granularity(problem, plan, granularity, readings, where)
            return granularity
        shrinkable = [i for i in range(3) if size[i] > least[i]]
        if not shrinkable:
            held = Meter(problem, plan, readings, granularity).step(0, 0, 0, {})[0].working_set
            raise PenstockError(
                f"the smallest working set is {held:,.0f} elements, the capacity "
                f"{problem.capacity:,.0f}",
                where=where,
                rule="the working set fits in fast memory",
                remedy="no schedule exists",
            )
        axis = max(shrinkable, key=lambda i: (size[i] > 16, i == 2, size[i]))
        half = max(least[axis], size[axis] // 2)
        size[axis] = half if readings.tiling == "any" else _regular(half, length[axis], readings)


def _regular(size: int, length: int, readings: Readings) -> int:
    if readings.tiling == "powers-of-two":
        return 1 << (size.bit_length() - 1)
    return next(s for s in range(size, 0, -1) if length % s == 0)


def _fits(problem: Problem, plan: Plan, readings: Readings, granularity: Granularity) -> bool:
    meter = Meter(problem, plan, readings, granularity)
    last = meter.steps_per_tile - 1
    return all(
        meter.step(0, 0, s, {})[0].working_set <= problem.capacity
        for s in {0, min(1, last), max(0, last - 1), last}
    )


def one_op_per_subgraph(
    problem: Problem, readings: Readings, on_walk: Callable[[int], None] = lambda steps: None
) -> Schedule:
    """Every operation alone, at the native size where it fits, in raster order, nothing retained.

    `on_walk` is called with the steps that are costed one by one, before they are.
    """
    known: dict[tuple, Meter] = {}
    meters = []
    for index in problem.topological:
        op = problem.ops[index]
        key = (
            op.kind,
            op.cost,
            tuple(problem.tensors[t] for t in op.inputs),
            tuple(op.inputs.index(t) for t in op.inputs),
        )
        if key not in known:
            plan = make_plan(problem, (index,), readings, f"op {index}")
            granularity = native_granularity(problem, plan, readings, f"op {index}")
            known[key] = Meter(problem, plan, readings, granularity)
        meters.append(known[key])
    on_walk(sum(meter.walked for meter in meters))
    latencies = {meter: meter.measure().latency for meter in known.values()}
    entries = (
        Subgraph((index,), meter.granularity, latency=latencies[meter])
        for index, meter in zip(problem.topological, meters, strict=True)
    )
    return Schedule(tuple(entries))


def chain_fusion(
    problem: Problem,
    readings: Readings,
    alone: Schedule | None = None,
    late: Callable[[], bool] = lambda: False,
    most_walked: float = math.inf,
) -> Schedule:
    """Fuse an operation into its only producer's subgraph while that is legal and not slower, at
    native sizes.

    `alone` is `one_op_per_subgraph`, if it is known.  Once it is `late`, what is left is not fused,
    nor is a chain of which more than `most_walked` steps would be costed one by one.
    """
    alone = alone or one_op_per_subgraph(problem, readings)
    entries: list[Subgraph] = []
    home: dict[int, int] = {}
    for entry in alone.subgraphs:
        index = entry.ops[0]
        makers = {
            maker for t in problem.ops[index].inputs if (maker := problem.producer[t]) is not None
        }
        at = home[next(iter(makers))] if len(makers) == 1 else None
        if at is not None and len(entries[at].ops) < LONGEST_CHAIN and not late():
            before = entries[at]
            if problem.consumers[problem.ops[before.ops[-1]].output] == (index,):
                fused = _native_cost(problem, (*before.ops, index), readings, most_walked)
                if fused is not None and fused.latency <= before.latency + entry.latency:
                    entries[at] = fused
                    home[index] = at
                    continue
        home[index] = len(entries)
        entries.append(entry)
    return Schedule(tuple(entries))


def _native_cost(
    problem: Problem, ops: tuple[int, ...], readings: Readings, most_walked: float
) -> Subgraph | None:
    """The subgraph at native sizes, in raster order; None if it is illegal or does not fit."""
    try:
        plan = make_plan(problem, ops, readings)
        granularity = native_granularity(problem, plan, readings, f"ops {list(ops)}")
    except PenstockError:
        return None
    meter = Meter(problem, plan, readings, granularity)
    if meter.walked > most_walked:
        return None
    return Subgraph(ops, granularity, latency=meter.measure().latency)


def power_of_two_latency(problem: Problem, schedule: Schedule, readings: Readings) -> float:
    """Latency of the same subgraphs and retention with power-of-two tiles; infinite if one has none
    that fits.
    """
    from .tiles import TileSearch

    coarse = dataclasses.replace(readings, tiling="powers-of-two")
    tiles = TileSearch(problem, coarse)
    total = 0.0
    kept = ()
    for entry in schedule.subgraphs:
        tiling = tiles.best(make_plan(problem, entry.ops, coarse), kept, entry.retain)
        total += math.inf if tiling is None else tiling.latency
        kept = entry.retain
    return total
