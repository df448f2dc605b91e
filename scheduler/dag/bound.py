"""A proven lower bound on the latency of any schedule.

Operations that can never share a subgraph fall into components.  A subgraph lies in one component,
so the components' bounds add up; each is the larger of

- what is forced in the component (`forced`), under the case that allows the least, and
- the cheapest cover of the component by subgraphs, each at least as fast as it could be
  (`relaxed`), for components of few operations.
"""

from __future__ import annotations

import math
import time

from . import relaxed
from .floor import ROUNDING
from .forced import forced
from .problem import Problem
from .readings import DEFAULT, Readings
from .solve.groups import fusible_neighbours


def lower_bound(problem: Problem, readings: Readings = DEFAULT, seconds: float = 1.0) -> float:
    """No schedule is faster (units of time).

    `seconds` limits the search for cheapest covers, those of the heaviest components first; without
    it, the bound is of what is forced alone (under a second for 3,000 operations).
    """
    until = time.monotonic() + seconds
    cases = forced(problem, readings)
    components = cases[0].components
    covers = [0.0] * len(components)
    if relaxed.applies(readings):
        weight = cases[0].latencies(problem.bandwidth)
        near = fusible_neighbours(problem, readings)
        known = {}
        for index in sorted(range(len(components)), key=lambda i: -weight[i]):
            if time.monotonic() >= until:
                break
            covers[index] = relaxed.cheapest_cover(
                problem, readings, components[index], near, until, known
            )
    totals = []
    for case in cases:
        parts = zip(case.latencies(problem.bandwidth), covers, strict=True)
        totals.append(max(case.single, math.fsum(max(pair) for pair in parts)))
    return min(totals) * (1 - ROUNDING)
