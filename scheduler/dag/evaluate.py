"""Legality and cost of a schedule: the evaluator of the statement's rules."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from .demand import Plan, ScheduleError, make_plan
from .meter import Meter, SubgraphCost
from .problem import Problem
from .readings import DEFAULT, Readings
from .solution import Granularity, Schedule

Faults = Iterator[tuple[str, ...]]
"""(what, rule, and a remedy where there is one) of the rules that are broken in one respect."""
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

    def breaks(faults: Faults) -> bool:
        found = [_error(fault, where) for fault in faults]
        if broken is not None:
            broken.extend(found)
        elif found:
            raise found[0]
        return bool(found)

    in_slow = {t for t, op in enumerate(problem.producer) if op is None}
    kept: frozenset[int] = frozenset()
    costs = []
    for index, entry in enumerate(schedule.subgraphs):
        where = f"subgraph {index}"
        retain = tuple(t for t in entry.retain if t < len(problem.tensors))
        there, before, kept = in_slow | kept, kept, frozenset(retain)
        try:
            if breaks(_faulty_ops(problem, entry.ops)):
                in_slow.update(problem.ops[op].output for op in entry.ops if op < len(problem.ops))
                continue
            plan = make_plan(problem, entry.ops, readings, where)
            in_slow.update(t for t in plan.outputs if t not in retain)
            breaks(_missing_inputs(problem, plan, there))
            breaks(_faulty_retained(plan, entry.retain, problem, readings))
            if breaks(_faulty_granularity(problem, plan, entry.granularity, readings)):
                continue
            meter = Meter(problem, plan, readings, entry.granularity, before, retain)
            if breaks(_faulty_order(entry.order, meter)):
                continue
            costs.append(meter.measure(entry.order))
            breaks(_too_much(problem, costs[-1]))
            if check_latencies and entry.latency is not None:
                breaks(_wrong_latency(entry.latency, costs[-1]))
        except ScheduleError as error:
            if broken is None:
                raise
            broken.append(error)
    where = "schedule"
    breaks(_incomplete(problem, schedule, in_slow))
    return Evaluation(tuple(costs))


def _error(fault: tuple[str, ...], where: str) -> ScheduleError:
    what, rule, *remedy = fault
    return ScheduleError(what, where, rule, *remedy)


def _missing_inputs(problem: Problem, plan: Plan, there: set[int]) -> Faults:
    for t in plan.inputs:
        if t not in there:
            yield (
                f"tensor {t} is needed but is in neither memory",
                "an input was written by an earlier subgraph or retained by the one just before",
                f"run op {problem.producer[t]} in it, or write tensor {t} before it",
            )


def _too_much(problem: Problem, cost: SubgraphCost) -> Faults:
    if cost.working_set > problem.capacity:
        held = f"{cost.working_set:,.0f} elements, the capacity {problem.capacity:,.0f}"
        yield f"out of memory: the working set is {held}", "the working set fits in fast memory"


def _wrong_latency(stated: float, cost: SubgraphCost) -> Faults:
    if abs(stated - cost.latency) > LATENCY_TOLERANCE * max(1.0, cost.latency):
        what = f"the stated latency is {stated:,.6g}, the evaluated one {cost.latency:,.6g}"
        yield what, "subgraph_latencies are exact"


def check_granularity(
    problem: Problem, plan: Plan, granularity: Granularity, readings: Readings, where: str
) -> None:
    """Refuse a [w, h, k] the readings do not allow for this subgraph."""
    for fault in _faulty_granularity(problem, plan, granularity, readings):
        raise _error(fault, where)


def _faulty_granularity(
    problem: Problem, plan: Plan, granularity: Granularity, readings: Readings
) -> Faults:
    natives = (*problem.native, problem.native_depth)
    deepest = [max(plan.depths)] if plan.depths else []  # no MatMul: k means nothing
    lengths = (plan.width, plan.height, *deepest)
    for name, value, native, length in zip("whk", granularity, natives, lengths, strict=False):
        if readings.above_native == "refused" and value > native:
            yield f"{name} = {value} is above the native {native}", "w, h and k are at most native"
        if readings.tiling == "powers-of-two" and value & (value - 1):
            yield f"{name} = {value} is not a power of two", "reading tiling=powers-of-two"
        if readings.tiling == "divisors" and length % value:
            yield f"{name} = {value} does not divide {length}", "reading tiling=divisors"
    if plan.depths and granularity[2] > plan.limit:
        yield f"k = {granularity[2]} is above the reduction depth {plan.limit}", "k is at most K"
    for cover in plan.covers:
        have = granularity["wh".index(cover.axis)]
        if have < cover.least:
            yield (
                f"op {cover.op} (pointwise) feeds a MatMul over K = {cover.least}, but "
                f"{cover.axis} = {have}",
                f"pointwise into MatMul needs {cover.axis} >= K",
            )
    several = readings.several_split_k == "forbidden" and len(plan.depths) > 1
    if several and granularity[2] < max(plan.depths):
        yield f"{len(plan.depths)} MatMuls are split over k", "reading several_split_k=forbidden"


def _faulty_ops(problem: Problem, ops: tuple[int, ...]) -> Faults:
    if not ops:
        yield "no operation", "a subgraph has at least one operation"
    for position, op in enumerate(ops):
        if op >= len(problem.ops):
            yield f"op {op} does not exist", f"the problem has ops 0..{len(problem.ops) - 1}"
        elif op in ops[:position]:
            yield f"op {op} is listed twice", "an operation appears once per subgraph"
    ops = tuple(op for op in dict.fromkeys(ops) if op < len(problem.ops))
    if not ops:
        return
    made = {problem.ops[op].output: position for position, op in enumerate(ops)}
    for position, op in enumerate(ops):
        for t in problem.ops[op].inputs:
            if made.get(t, -1) > position:
                what = f"op {op} comes before op {ops[made[t]]}, whose product it consumes"
                yield what, "operations are in topological order"
    reached = {ops[0]}
    frontier = [ops[0]]
    while frontier:
        op = frontier.pop()
        makers = (problem.producer[t] for t in problem.ops[op].inputs)
        near = {*makers, *problem.consumers[problem.ops[op].output]} & set(ops) - reached
        reached |= near
        frontier += near
    for op in sorted(set(ops) - reached):
        what = f"op {op} is not connected to op {ops[0]}"
        yield what, "a subgraph is connected through tensors produced in it"


def _faulty_retained(
    plan: Plan, retain: tuple[int, ...], problem: Problem, readings: Readings
) -> Faults:
    for position, t in enumerate(retain):
        if t >= len(problem.tensors):
            what = f"retained tensor {t} does not exist"
            yield what, f"tensors are 0..{len(problem.tensors) - 1}"
            continue
        if t in retain[:position]:
            yield f"tensor {t} is retained twice", "tensors_to_retain has no duplicates"
        produced = problem.producer[t] in plan.ops
        if not produced and not (readings.retainable == "loaded-too" and t in plan.inputs):
            what = f"tensor {t} is retained but not produced here"
            yield what, "only tensors produced in the subgraph can be retained"
        if produced and readings.inner_retention == "refused" and t not in plan.formed:
            yield (
                f"tensor {t} is retained but only made in slices of a reduction",
                "a retained tensor is made tile by tile",
                "reading inner_retention=allowed",
            )


def _faulty_order(order: tuple[int, ...] | None, meter: Meter) -> Faults:
    tiles = meter.rows * meter.columns
    if order is not None and not _is_permutation(order, tiles):
        yield (
            f"the traversal order is not a permutation of 0..{tiles - 1}",
            f"the grid has {meter.columns} x {meter.rows} tiles, each executed once",
        )


def _is_permutation(order: tuple[int, ...], tiles: int) -> bool:
    if len(order) != tiles or min(order) < 0 or max(order) >= tiles:
        return False
    return len(set(order)) == tiles


def _incomplete(problem: Problem, schedule: Schedule, in_slow: set[int]) -> Faults:
    covered = {op for entry in schedule.subgraphs for op in entry.ops}
    for op in sorted(set(range(len(problem.ops))) - covered):
        yield f"op {op} is in no subgraph", "every operation is executed at least once"
    for t in problem.graph_outputs:
        if t not in in_slow:
            what = f"graph output tensor {t} never reaches slow memory"
            yield what, "graph outputs end in slow memory", "do not retain it"
