"""A lower bound at once: what is said before there is time for `bound`, and in no time at all.

The larger of the compute that every operation needs once and the traffic that every graph input and
output needs once.  It holds under all readings; time and memory are linear in the operations.
"""

from __future__ import annotations

import math

from .problem import Problem
from .readings import DEFAULT, Readings

ROUNDING = 1e-12
"""Relative; what is added up in another order than in a schedule may come out larger by that."""


def floor(problem: Problem, readings: Readings = DEFAULT) -> float:
    """No schedule is faster (units of time)."""
    compute = math.fsum(
        least_compute(problem, readings, op, inner=True) for op in range(len(problem.ops))
    )
    moved = set(problem.graph_outputs)
    if readings.sharing != "once-per-tensor":  # else the larger slice of two uses may be all
        moved |= {t for op in problem.ops for t in op.inputs if problem.producer[t] is None}
    traffic = sum(problem.tensors[t].size for t in moved)
    return max(compute, traffic / problem.bandwidth) * (1 - ROUNDING)


def least_compute(problem: Problem, readings: Readings, index: int, inner: bool) -> float:
    """Compute of one execution of an operation; `inner`: it may be asked for in parts of tiles."""
    op = problem.ops[index]
    shape = problem.tensors[op.output]
    across = shape.width / problem.native[0]
    down = shape.height / problem.native[1]
    tiles = across * down if inner else math.ceil(across) * math.ceil(down)
    per_tile = op.cost
    if op.is_matmul and readings.matmul_cost == "native-k":
        per_tile *= problem.reduction(index) / problem.native_depth
    return per_tile * tiles
