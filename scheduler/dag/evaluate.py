"""Legality and cost of a schedule: the evaluator of the statement's rules."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .demand import Plan, ScheduleError, make_plan
from .meter import Meter, SubgraphCost
from .problem import Problem
from .readings import DEFAULT, Readings
from .solution import Granularity, Schedule

LATENCY_TOLERANCE = 1e-6
"""Relative difference allowed between a stated latency and the evaluator's."""


@dataclass(frozen=True)
class Evaluation:
    """A legal schedule's cost, per subgraph."""

    subgraphs: tuple[SubgraphCost, ...]

    @property
    def latency(self) -> float:
        """Total latency, units of time."""
        return math.fsum(s.latency for s in self.subgraphs)


def evaluate(
    problem: Problem,
    schedule: Schedule,
    readings: Readings = DEFAULT,
    *,
    check_latencies: bool = True,
    broken: list[ScheduleError] | None = None,
) -> Evaluation:
    """Cost of a schedule; raises `ScheduleError` for the first rule it breaks, or adds the rules
    that it breaks to ``broken``, whose subgraphs then have no cost.
    """
    in_slow = {t for t, op in enumerate(problem.producer) if op is None}
    kept: frozenset[int] = frozenset()
    costs = []
    rules = _Rules(broken)
    for index, entry in enumerate(schedule.subgraphs):
        where = f"subgraph {index}"
        plan = None
        with rules:
            _check_ops(problem, entry.ops, where)
            plan = make_plan(problem, entry.ops, readings, where)
        if plan is None:
            in_slow.update(problem.ops[op].output for op in entry.ops if op < len(problem.ops))
            continue
        for tensor in plan.inputs:
            with rules:
                _check_input(problem, tensor, tensor in in_slow or tensor in kept, where)
        with rules:
            _check_retained(plan, entry.retain, problem, readings, where)
        with rules:
            check_granularity(problem, plan, entry.granularity, readings, where)
            meter = Meter(problem, plan, readings, entry.granularity, kept, entry.retain)
            _check_order(entry.order, meter, where)
            costs.append(meter.measure(entry.order))
            with rules:
                _check_capacity(problem, costs[-1], where)
            if check_latencies and not math.isnan(entry.latency):
                _check_latency(entry.latency, costs[-1], where)
        in_slow.update(t for t in plan.outputs if t not in entry.retain)
        kept = frozenset(entry.retain)
    with rules:
        _check_complete(problem, schedule, in_slow)
    return Evaluation(tuple(costs))


class _Rules:
    """A block whose broken rule goes to a list, if there is one."""

    def __init__(self, broken: list[ScheduleError] | None):
        self.broken = broken

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if self.broken is None or not isinstance(error, ScheduleError):
            return False
        self.broken.append(error)
        return True


def _check_input(problem: Problem, tensor: int, there: bool, where: str) -> None:
    if not there:
        raise ScheduleError(
            f"tensor {tensor} is needed but is in neither memory",
            where=where,
            rule="an input was written by an earlier subgraph or retained by the one just before",
            remedy=f"run op {problem.producer[tensor]} in it, or write tensor {tensor} before it",
        )


def _check_capacity(problem: Problem, cost: SubgraphCost, where: str) -> None:
    if cost.working_set > problem.capacity:
        raise ScheduleError(
            f"out of memory: the working set is {cost.working_set:,.0f} elements, the capacity "
            f"{problem.capacity:,.0f}",
            where=where,
            rule="the working set fits in fast memory",
        )


def _check_latency(stated: float, cost: SubgraphCost, where: str) -> None:
    if abs(stated - cost.latency) > LATENCY_TOLERANCE * max(1.0, cost.latency):
        raise ScheduleError(
            f"the stated latency is {stated:,.6g}, the evaluated one {cost.latency:,.6g}",
            where=where,
            rule="subgraph_latencies are exact",
        )


def check_granularity(
    problem: Problem, plan: Plan, granularity: Granularity, readings: Readings, where: str
) -> None:
    """Refuse a [w, h, k] the readings do not allow for this subgraph."""
    natives = (*problem.native, problem.native_depth)
    lengths = (
        plan.width,
        plan.height,
        *([max(plan.depths)] if plan.depths else []),
    )  # no MatMul: k means nothing
    for name, value, native, length in zip("whk", granularity, natives, lengths, strict=False):
        if readings.above_native == "refused" and value > native:
            raise ScheduleError(
                f"{name} = {value} is above the native {native}",
                where=where,
                rule="w, h and k are at most native",
            )
        if readings.tiling == "powers-of-two" and value & (value - 1):
            raise ScheduleError(
                f"{name} = {value} is not a power of two",
                where=where,
                rule="reading tiling=powers-of-two",
            )
        if readings.tiling == "divisors" and length % value:
            raise ScheduleError(
                f"{name} = {value} does not divide {length}",
                where=where,
                rule="reading tiling=divisors",
            )
    if plan.depths and granularity[2] > plan.limit:
        raise ScheduleError(
            f"k = {granularity[2]} is above the reduction depth {plan.limit}",
            where=where,
            rule="k is at most K",
        )
    for cover in plan.covers:
        have = granularity["wh".index(cover.axis)]
        if have < cover.least:
            raise ScheduleError(
                f"op {cover.op} (pointwise) feeds a MatMul over K = {cover.least}, but "
                f"{cover.axis} = {have}",
                where=where,
                rule=f"pointwise into MatMul needs {cover.axis} >= K",
            )
    if (
        readings.several_split_k == "forbidden"
        and len(plan.depths) > 1
        and granularity[2] < max(plan.depths)
    ):
        raise ScheduleError(
            f"{len(plan.depths)} MatMuls are split over k",
            where=where,
            rule="reading several_split_k=forbidden",
        )


def _check_ops(problem: Problem, ops: tuple[int, ...], where: str) -> None:
    if not ops:
        raise ScheduleError(
            "no operation", where=where, rule="a subgraph has at least one operation"
        )
    for position, op in enumerate(ops):
        if op >= len(problem.ops):
            raise ScheduleError(
                f"op {op} does not exist",
                where=where,
                rule=f"the problem has ops 0..{len(problem.ops) - 1}",
            )
        if op in ops[:position]:
            raise ScheduleError(
                f"op {op} is listed twice",
                where=where,
                rule="an operation appears once per subgraph",
            )
    made = {problem.ops[op].output: position for position, op in enumerate(ops)}
    for position, op in enumerate(ops):
        for tensor in problem.ops[op].inputs:
            if made.get(tensor, -1) > position:
                raise ScheduleError(
                    f"op {op} comes before op {ops[made[tensor]]}, whose product it consumes",
                    where=where,
                    rule="operations are in topological order",
                )
    reached = {ops[0]}
    frontier = [ops[0]]
    members = set(ops)
    while frontier:
        op = frontier.pop()
        near = {
            made_by for t in problem.ops[op].inputs if (made_by := problem.producer[t]) is not None
        }
        near.update(problem.consumers[problem.ops[op].output])
        for other in near & members - reached:
            reached.add(other)
            frontier.append(other)
    if members - reached:
        raise ScheduleError(
            f"op {min(members - reached)} is not connected to op {ops[0]}",
            where=where,
            rule="a subgraph is connected through tensors produced in it",
        )


def _check_retained(
    plan: Plan, retain: tuple[int, ...], problem: Problem, readings: Readings, where: str
) -> None:
    for position, tensor in enumerate(retain):
        if tensor >= len(problem.tensors):
            raise ScheduleError(
                f"retained tensor {tensor} does not exist",
                where=where,
                rule=f"tensors are 0..{len(problem.tensors) - 1}",
            )
        if tensor in retain[:position]:
            raise ScheduleError(
                f"tensor {tensor} is retained twice",
                where=where,
                rule="tensors_to_retain has no duplicates",
            )
        produced = problem.producer[tensor] in plan.ops
        if not produced and not (readings.retainable == "loaded-too" and tensor in plan.inputs):
            raise ScheduleError(
                f"tensor {tensor} is retained but not produced here",
                where=where,
                rule="only tensors produced in the subgraph can be retained",
            )
        if produced and readings.inner_retention == "refused" and tensor not in plan.formed:
            raise ScheduleError(
                f"tensor {tensor} is retained but only made in slices of a reduction",
                where=where,
                rule="a retained tensor is made tile by tile",
                remedy="reading inner_retention=allowed",
            )


def _check_order(order: tuple[int, ...] | None, meter: Meter, where: str) -> None:
    tiles = meter.rows * meter.columns
    if order is not None and not _is_permutation(order, tiles):
        raise ScheduleError(
            f"the traversal order is not a permutation of 0..{tiles - 1}",
            where=where,
            rule=f"the grid has {meter.columns} x {meter.rows} tiles, each executed once",
        )


def _is_permutation(order: tuple[int, ...], tiles: int) -> bool:
    if len(order) != tiles or min(order) < 0 or max(order) >= tiles:
        return False
    return len(set(order)) == tiles


def _check_complete(problem: Problem, schedule: Schedule, in_slow: set[int]) -> None:
    covered = {op for entry in schedule.subgraphs for op in entry.ops}
    missing = [op for op in range(len(problem.ops)) if op not in covered]
    if missing:
        raise ScheduleError(
            f"op {missing[0]} is in no subgraph",
            where="schedule",
            rule="every operation is executed at least once",
        )
    for tensor in problem.graph_outputs:
        if tensor not in in_slow:
            raise ScheduleError(
                f"graph output tensor {tensor} never reaches slow memory",
                where="schedule",
                rule="graph outputs end in slow memory",
                remedy="do not retain it",
            )
