"""Asserted shapes, checked on the stops that a run has sent (the paper's listing 1, line 27)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .beat import STOP_DONE
from .errors import RunError
from .trace import Run
from .unitgraph import UnitGraph


def sizes(stops: Sequence[int], data: Sequence[int], inner: int, dims: int) -> list[set[int]]:
    """The sizes that each dimension of a stream has had, outermost first.

    Parameters
    ----------
    stops, data
        Of the beats of a channel, to Done (docs/timing.md sections 3.3 and 3.4).
    inner
        Dimensions of physical tiles inside an element.
    dims
        Logical dimensions; the outermost is ended by Done.
    """
    count = [0] * dims
    seen: list[set[int]] = [set() for _ in range(dims)]
    last = STOP_DONE
    for stop, full in zip(stops, data, strict=True):
        if stop == STOP_DONE and not full:
            seen[-1].add(count[-1])
            count = [0] * dims
        elif stop >= inner:
            level = int(stop) - inner
            before = max(int(last) - inner, 0)
            first = 0  # dimension that gets one more element
            if not full and level and (last >= stop or before):
                first = level if last >= stop else before
                seen[first - 1].add(0)
                count[first - 1] = 0
            if full or first or level == 0:
                count[first] += 1
            for d in range(first, level):
                seen[d].add(count[d])
                count[d] = 0
                count[d + 1] += 1
        last = stop
    return seen[::-1]


def check_asserted(graph: UnitGraph, run: Run) -> None:
    """Raise RunError if a stream whose shape the program asserts has had another one; sizes
    asserted by a symbol may be any.
    """
    asserted: list[dict[str, Any]] = graph.meta.get("asserted", [])
    for a in asserted:
        if a["channel"] is None or not run.channels:
            continue
        channel: int = a["channel"]
        trace = run.channels[channel]
        seen = sizes(list(trace.stop), list(trace.data), a["inner"], len(a["shape"]))
        for i, (want, had) in enumerate(zip(a["shape"], seen, strict=True)):
            if isinstance(want, int) and had - {want}:
                raise RunError(
                    f"dimension {len(seen) - 1 - i} of stream {a['stream']} has had "
                    f"{', '.join(map(str, sorted(had)))} elements",
                    f"the assertion at {a['line']}"
                    if a["line"]
                    else f"channel {graph.channels[channel].name}",
                    f"the program asserts [{', '.join(map(str, a['shape']))}]",
                    "correct the assertion, or the program before it",
                )
