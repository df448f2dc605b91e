"""Legality and cost of a schedule: the evaluator of the statement's rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .demand import Plan, ScheduleError, make_plan
from .meter import Meter, SubgraphCost
from .problem import Problem
from .readings import DEFAULT, Readings
from .solution import Granularity, Schedule

Faults = Iterator[ScheduleError]
"""The rules that are broken in one respect, one after the other."""
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
    """Cost of a schedule; raises `ScheduleError` for the first rule it breaks, or adds all that
    it breaks to ``broken``, whose subgraphs may then have no cost; with wrong ops, only those.
    """

    def breaks(faults: Iterable[ScheduleError]) -> bool:
        found = False
        for error in faults:
            if broken is None:
                raise error
            broken.append(error)
            found = True
        return found

    in_slow = {t for t, op in enumerate(problem.producer) if op is None}
    kept: frozenset[int] = frozenset()
    costs = []
    for index, entry in enumerate(schedule.subgraphs):
        where = f"subgraph {index}"
        retain = tuple(t for t in entry.retain if t < len(problem.tensors))
        there, before, kept = in_slow | kept, kept, frozenset(retain)
        try:
            if breaks(_faulty_ops(problem, entry.ops, where)):
                in_slow.update(problem.ops[op].output for op in entry.ops if op < len(problem.ops))
                continue
            plan = make_plan(problem, entry.ops, readings, where)
            in_slow.update(t for t in plan.outputs if t not in retain)
            breaks(_missing_inputs(problem, plan, there, where))
            breaks(_faulty_retained(plan, entry.retain, problem, readings, where))
            if breaks(_faulty_granularity(problem, plan, entry.granularity, readings, where)):
                continue
            meter = Meter(problem, plan, readings, entry.granularity, before, retain)
            if breaks(_faulty_order(entry.order, meter, where)):
                continue
            costs.append(meter.measure(entry.order))
            breaks(_too_much(problem, costs[-1], where))
            if check_latencies and entry.latency is not None:
                breaks(_wrong_latency(entry.latency, costs[-1], where))
        except ScheduleError as error:
            breaks([error])
    breaks(_incomplete(problem, schedule, in_slow))
    return Evaluation(tuple(costs))


def _missing_inputs(problem: Problem, plan: Plan, there: set[int], where: str) -> Faults:
    for tensor in plan.inputs:
        if tensor not in there:
            yield ScheduleError(
                f"tensor {tensor} is needed but is in neither memory",
                where=where,
                rule="an input was written by an earlier subgraph or retained by the one just "
                "before",
                remedy=f"run op {problem.producer[tensor]} in it, or write tensor {tensor} before "
                "it",
            )


def _too_much(problem: Problem, cost: SubgraphCost, where: str) -> Faults:
    if cost.working_set > problem.capacity:
        yield ScheduleError(
            f"out of memory: the working set is {cost.working_set:,.0f} elements, the capacity "
            f"{problem.capacity:,.0f}",
            where=where,
            rule="the working set fits in fast memory",
        )


def _wrong_latency(stated: float, cost: SubgraphCost, where: str) -> Faults:
    if abs(stated - cost.latency) > LATENCY_TOLERANCE * max(1.0, cost.latency):
        yield ScheduleError(
            f"the stated latency is {stated:,.6g}, the evaluated one {cost.latency:,.6g}",
            where=where,
            rule="subgraph_latencies are exact",
        )


def check_granularity(
    problem: Problem, plan: Plan, granularity: Granularity, readings: Readings, where: str
) -> None:
    """Refuse a [w, h, k] the readings do not allow for this subgraph."""
    for error in _faulty_granularity(problem, plan, granularity, readings, where):
        raise error


def _faulty_granularity(
    problem: Problem, plan: Plan, granularity: Granularity, readings: Readings, where: str
) -> Faults:
    natives = (*problem.native, problem.native_depth)
    lengths = (
        plan.width,
        plan.height,
        *([max(plan.depths)] if plan.depths else []),
    )  # no MatMul: k means nothing
    for name, value, native, length in zip("whk", granularity, natives, lengths, strict=False):
        if readings.above_native == "refused" and value > native:
            yield ScheduleError(
                f"{name} = {value} is above the native {native}",
                where=where,
                rule="w, h and k are at most native",
            )
        if readings.tiling == "powers-of-two" and value & (value - 1):
            yield ScheduleError(
                f"{name} = {value} is not a power of two",
                where=where,
                rule="reading tiling=powers-of-two",
            )
        if readings.tiling == "divisors" and length % value:
            yield ScheduleError(
                f"{name} = {value} does not divide {length}",
                where=where,
                rule="reading tiling=divisors",
            )
    if plan.depths and granularity[2] > plan.limit:
        yield ScheduleError(
            f"k = {granularity[2]} is above the reduction depth {plan.limit}",
            where=where,
            rule="k is at most K",
        )
    for cover in plan.covers:
        have = granularity["wh".index(cover.axis)]
        if have < cover.least:
            yield ScheduleError(
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
        yield ScheduleError(
            f"{len(plan.depths)} MatMuls are split over k",
            where=where,
            rule="reading several_split_k=forbidden",
        )


def _faulty_ops(problem: Problem, ops: tuple[int, ...], where: str) -> Faults:
    if not ops:
        yield ScheduleError(
            "no operation", where=where, rule="a subgraph has at least one operation"
        )
    for position, op in enumerate(ops):
        if op >= len(problem.ops):
            yield ScheduleError(
                f"op {op} does not exist",
                where=where,
                rule=f"the problem has ops 0..{len(problem.ops) - 1}",
            )
            continue
        if op in ops[:position]:
            yield ScheduleError(
                f"op {op} is listed twice",
                where=where,
                rule="an operation appears once per subgraph",
            )
    ops = tuple(op for op in dict.fromkeys(ops) if op < len(problem.ops))
    if not ops:
        return
    made = {problem.ops[op].output: position for position, op in enumerate(ops)}
    for position, op in enumerate(ops):
        for tensor in problem.ops[op].inputs:
            if made.get(tensor, -1) > position:
                yield ScheduleError(
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
    for op in sorted(members - reached):
        yield ScheduleError(
            f"op {op} is not connected to op {ops[0]}",
            where=where,
            rule="a subgraph is connected through tensors produced in it",
        )


def _faulty_retained(
    plan: Plan, retain: tuple[int, ...], problem: Problem, readings: Readings, where: str
) -> Faults:
    for position, tensor in enumerate(retain):
        if tensor >= len(problem.tensors):
            yield ScheduleError(
                f"retained tensor {tensor} does not exist",
                where=where,
                rule=f"tensors are 0..{len(problem.tensors) - 1}",
            )
            continue
        if tensor in retain[:position]:
            yield ScheduleError(
                f"tensor {tensor} is retained twice",
                where=where,
                rule="tensors_to_retain has no duplicates",
            )
        produced = problem.producer[tensor] in plan.ops
        if not produced and not (readings.retainable == "loaded-too" and tensor in plan.inputs):
            yield ScheduleError(
                f"tensor {tensor} is retained but not produced here",
                where=where,
                rule="only tensors produced in the subgraph can be retained",
            )
        if produced and readings.inner_retention == "refused" and tensor not in plan.formed:
            yield ScheduleError(
                f"tensor {tensor} is retained but only made in slices of a reduction",
                where=where,
                rule="a retained tensor is made tile by tile",
                remedy="reading inner_retention=allowed",
            )


def _faulty_order(order: tuple[int, ...] | None, meter: Meter, where: str) -> Faults:
    tiles = meter.rows * meter.columns
    if order is not None and not _is_permutation(order, tiles):
        yield ScheduleError(
            f"the traversal order is not a permutation of 0..{tiles - 1}",
            where=where,
            rule=f"the grid has {meter.columns} x {meter.rows} tiles, each executed once",
        )


def _is_permutation(order: tuple[int, ...], tiles: int) -> bool:
    if len(order) != tiles or min(order) < 0 or max(order) >= tiles:
        return False
    return len(set(order)) == tiles


def _incomplete(problem: Problem, schedule: Schedule, in_slow: set[int]) -> Faults:
    covered = {op for entry in schedule.subgraphs for op in entry.ops}
    for op in range(len(problem.ops)):
        if op not in covered:
            yield ScheduleError(
                f"op {op} is in no subgraph",
                where="schedule",
                rule="every operation is executed at least once",
            )
    for tensor in problem.graph_outputs:
        if tensor not in in_slow:
            yield ScheduleError(
                f"graph output tensor {tensor} never reaches slow memory",
                where="schedule",
                rule="graph outputs end in slow memory",
                remedy="do not retain it",
            )
