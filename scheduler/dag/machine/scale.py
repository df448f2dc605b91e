"""Smaller versions of a problem and its schedule, for runs that cost less."""

from __future__ import annotations

from dataclasses import replace

from ....frontend import ceil_div
from ....machine.errors import PenstockError
from ..evaluate import ScheduleError, evaluate
from ..problem import Op, Problem, Tensor
from ..solution import Schedule


def shrink(problem: Problem, schedule: Schedule, by: int) -> tuple[Problem, Schedule]:
    """Every length divided by `by` (rounded up), capacity and costs by its square; bandwidth stays,
    so compute and traffic keep their ratio.

    Where rounding makes the smaller schedule need more than the smaller capacity, the capacity is
    what it needs.

    The schedule's groups, orders and retained tensors stay, its tiles shrink likewise and its
    latencies are evaluated anew.  A `PenstockError` says where the smaller schedule is not one of
    the smaller problem.
    """
    if by == 1:
        return problem, schedule

    def less(n: int) -> int:
        return ceil_div(n, by)

    small = Problem(
        tuple(Tensor(less(t.width), less(t.height)) for t in problem.tensors),
        tuple(Op(op.kind, op.inputs, op.output, op.cost / by**2) for op in problem.ops),
        float(ceil_div(int(problem.capacity), by**2)),
        problem.bandwidth,
        (less(problem.native[0]), less(problem.native[1])),
        f"{problem.name} / {by}",
    )
    scaled = Schedule(
        tuple(
            replace(s, granularity=(less(w), less(h), less(k)))
            for s in schedule.subgraphs
            for w, h, k in [s.granularity]
        )
    )
    try:
        costs = evaluate(replace(small, capacity=problem.capacity), scaled, check_latencies=False)
    except ScheduleError as error:
        raise PenstockError(
            f"the schedule does not shrink by {by}: {error.what}",
            where=error.where,
            rule=error.rule,
            remedy="choose a divisor of the tile sizes, or solve the smaller problem",
        ) from None
    needed = max(c.working_set for c in costs.subgraphs)
    return replace(small, capacity=max(small.capacity, needed)), Schedule(
        tuple(
            replace(s, latency=c.latency)
            for s, c in zip(scaled.subgraphs, costs.subgraphs, strict=True)
        )
    )
