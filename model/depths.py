"""The smallest channel depths that let a blocked run finish, found by running it; the search of
both timings.

A deeper channel is taken to free what a less deep one frees (bisection). Arrivals decide where
units merge, so this can fail: then the depth named still frees the run, as it was tried, but a
smaller one may too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..machine.deadlock import Relief
from ..machine.unitgraph import Channel, UnitGraph

DEEPEST = 1 << 14
CANDIDATES = 12  # names of full channels that are tried alone

Finishes = Callable[[dict[int, int]], bool]
"""Predicate: the run finishes with these depths, by channel id; other channels keep theirs."""


def smallest(channels: Sequence[Channel], finishes: Finishes, most: int = DEEPEST) -> int | None:
    """The smallest depth which, given to those of ``channels`` that are less deep, lets a run
    finish that does not finish as it is; None if there is none.

    Parameters
    ----------
    channels
        Those to be made deeper, with the depths that they have.
    finishes
        Whether a run with other depths does.
    most
        The deepest that is tried.
    """

    def enough(depth: int) -> bool:
        return finishes({c.id: max(c.depth, depth) for c in channels})

    return least(min(c.depth for c in channels), enough, most)


def least(low: int, enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest number of at most ``most`` that is enough, above ``low``, which is not; None if
    there is none.
    """
    high = 2 * low
    while not enough(high):
        low = high
        high = 2 * high
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def alike(graph: UnitGraph, channels: Sequence[Channel], one: Channel) -> list[Channel]:
    """Channels between units whose names differ from those of ``one`` in numbers only: its copies
    in a program of many like parts.
    """

    def ends(c: Channel) -> tuple[str, ...]:
        return tuple(re.sub(r"\d+", "#", graph.units[u].name) for u in (c.src[0], c.dst[0]))

    return [c for c in channels if ends(c) == ends(one)]


def reliefs(
    graph: UnitGraph,
    channels: Sequence[Channel],
    finishes: Finishes,
    full: Sequence[Channel],
    progress: Callable[[str], None] | None = None,
) -> tuple[Relief, ...]:
    """Smallest depth of each full channel of a circle, with those like it, that alone frees the
    run; the fewest slots first.
    """
    found = []
    seen = set()
    for c in full:
        group = alike(graph, channels, c)
        if group[0].id in seen or len(seen) == CANDIDATES:
            continue
        seen.add(group[0].id)
        if progress:
            progress(
                f"deepening {c.name}" + (f" and {len(group) - 1} like it" if len(group) > 1 else "")
            )
        if not finishes({x.id: max(x.depth, DEEPEST) for x in group}):
            continue
        depth = smallest(group, finishes)
        if depth is not None:
            found.append(Relief(c.name, len(group), depth))
    return tuple(sorted(found, key=lambda r: (r.slots, r.channel)))
