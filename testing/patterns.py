"""Times at which a stream moves: seeded patterns of release cycles."""

from __future__ import annotations

import numpy as np

PATTERNS = ("always", "random", "bursty", "late")
SINK_PATTERNS = ("always", "random", "late")
PAIRS = [(source, sink) for source in PATTERNS[:3] for sink in SINK_PATTERNS]
"""Stall patterns of a unit's tests: (pattern of its sources, pattern of its sinks)."""


def releases(n: int, pattern: str, seed: int = 0) -> np.ndarray:
    """Release cycles of ``n`` beats: the first cycle in which each may move; int64 [n].

    ``always``: 0. ``random``: a gap of 0 to 3 cycles before each beat. ``bursty``: runs of 1 to 8
    beats, then 5 to 40 cycles of nothing. ``late``: nothing for 50 to 150 cycles, then full rate.
    """
    rng = np.random.default_rng([seed, PATTERNS.index(pattern)])
    if pattern == "random":
        return np.cumsum(rng.integers(0, 4, n) + 1) - 1
    if pattern == "bursty":
        gaps = np.ones(n, np.int64)
        i = 0
        while i < n:
            gaps[i] += rng.integers(5, 41)
            i += rng.integers(1, 9)
        return np.cumsum(gaps) - 1
    if pattern == "late":
        return np.full(n, rng.integers(50, 151))
    return np.zeros(n, np.int64)
