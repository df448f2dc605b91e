"""Known results on the public benchmarks of the MLSys 2026 contest, total latency in units of time.

`winner` is the contest winner's published schedule costed under each reading of a MatMul's cost;
`best` the best known value before this solver; `seconds` the contest's time limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from .problem import Problem
from .readings import Readings


@dataclass(frozen=True, slots=True)
class Anchor:
    """Reference values of one benchmark under one reading of a MatMul's cost."""

    seconds: float
    winner: float
    best: float


_ANCHORS: dict[str, dict[str, Anchor]] = {
    "mlsys-2026-1": {
        "full-k": Anchor(2, 419_430.4, 367_001.6),
        "native-k": Anchor(2, 471_500.8, 421_016.0),
    },
    "mlsys-2026-5": {
        "full-k": Anchor(5, 961_194.7, 613_894.9),
        "native-k": Anchor(5, 961_194.7, 613_894.9),
    },
    "mlsys-2026-9": {
        "full-k": Anchor(15, 48_318_382, 44_962_938.9),
        "native-k": Anchor(15, 167_530_987.5, 164_505_600),
    },
    "mlsys-2026-13": {
        "full-k": Anchor(30, 22_160_015, 16_284_057.6),
        "native-k": Anchor(30, 166_408_847, 166_401_500),
    },
    "mlsys-2026-17": {
        "full-k": Anchor(60, 5_026_493, 4_966_400),
        "native-k": Anchor(60, 46_386_493, 46_326_400),
    },
}


def anchor_of(problem: Problem, readings: Readings) -> Anchor | None:
    """The anchor of a public benchmark (by file name); None for other problems or other disputed
    readings.
    """
    if set(readings.differing()) - {"matmul_cost"}:
        return None
    return _ANCHORS.get(problem.name, {}).get(readings.matmul_cost)
