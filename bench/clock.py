"""Processor and wall-clock seconds of a block of work."""

from __future__ import annotations

import resource
import time


def now() -> tuple[float, float]:
    """Wall clock, and CPU time of this process and of its children that have ended, in seconds;
    differences count.
    """
    return time.perf_counter(), sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
