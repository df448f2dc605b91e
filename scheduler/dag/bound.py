"""A proven lower bound on the latency of any schedule.

The sum over components (sets of operations that may share subgraphs) of what is forced in each
(`forced`), under the case that allows the least.
"""

from __future__ import annotations

import math

from .forced import forced
from .problem import Problem
from .readings import Readings

__all__ = ["lower_bound"]

ROUNDING = 1e-12
"""Relative; what is added up in another order than in a schedule may come out larger by that."""


def lower_bound(problem: Problem, readings: Readings = Readings()) -> float:
    """No schedule is faster (units of time)."""
    cases = forced(problem, readings)
    least = min(max(case.single, math.fsum(case.latencies(problem.bandwidth))) for case in cases)
    return least * (1 - ROUNDING)
