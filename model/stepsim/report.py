"""Why a run stopped short, in the names of its units and channels."""

from __future__ import annotations

import numpy as np

from ...machine.deadlock import Deadlock, DeadlockError, Stall
from ...machine.errors import RunError
from ...machine.unitgraph import UnitGraph
from .build import Layout
from .state import (
    BLOCKED,
    EMPTY_DIMENSION,
    ENDS_EARLY,
    NO_UNIT,
    PARTIAL_CHUNK,
    SHAPES_DIFFER,
    STOPS_DIFFER,
    Channel,
)

_FAULTS = {
    STOPS_DIFFER: (
        "the stops of its two inputs differ",
        "both inputs of an operator have one stream shape",
        None,
    ),
    ENDS_EARLY: (
        "one input ends before the other",
        "both inputs of an operator have one stream shape",
        None,
    ),
    SHAPES_DIFFER: (
        "the tiles of its two inputs do not fit together",
        "matmul: inner dimensions are equal; elementwise: equal, or 1",
        None,
    ),
    NO_UNIT: (
        "a selector names a stream that has no further unit",
        "a selector per unit, a unit per target",
        None,
    ),
    EMPTY_DIMENSION: (
        "a dimension without an element",
        "a stream has no empty dimension in the published simulator",
        "run it in the timing `machine`",
    ),
    PARTIAL_CHUNK: (
        "the stream ends inside a chunk",
        "without padding a chunk divides its dimension",
        "pad, or choose a chunk that divides",
    ),
}


def fault(graph: UnitGraph, state: Layout) -> RunError:
    """The error of a unit that could not go on."""
    what, rule, remedy = _FAULTS[int(state.net["fault"])]
    unit = graph.units[int(state.net["fault_unit"] - state.units) // state.unit_words]
    return RunError(
        f"{what} in cycle {state.net['now']}", f"unit {unit.name} ({unit.kind.name})", rule, remedy
    )


def stalled(graph: UnitGraph, state: Layout) -> Deadlock:
    """The circle of waits of a run in which nothing moves; where a stream's reader has ended before
    it, the waits that lead there.
    """
    units = state.all_units()
    channels = state.all_channels()

    def waits(u: int) -> tuple[Stall, int]:
        unit = graph.units[u]
        c = graph.channels[int(units["on"][u] - state.channels) // Channel.words]
        room = units["why"][u] == BLOCKED
        on = c.dst[0] if room else c.src[0]
        return Stall(
            unit.name,
            unit.kind.name,
            "room" if room else "beat",
            c.name,
            int(channels["count"][c.id]),
            int(channels["depth"][c.id]),
            graph.units[on].name,
        ), on

    running = units["finish"] < 0
    u = int(np.argmax(running))
    chain: dict[int, Stall] = {}
    while u not in chain and running[u]:
        chain[u], u = waits(u)
    order = list(chain)
    around = order[order.index(u) :] if u in chain else order
    return Deadlock(int(units["clock"].max()), tuple(chain[v] for v in around))


def error(graph: UnitGraph, found: Deadlock) -> DeadlockError:
    """The error of a deadlock."""
    waits = [
        f"{s.unit} waits for room in {s.channel} (full, depth {s.depth})"
        if s.why == "room"
        else f"{s.unit} waits for a token on {s.channel} (empty)"
        for s in found.circle
    ]
    full = [s.channel for s in found.circle if s.why == "room"]
    remedy = (
        f"make one of the full channels deeper: {', '.join(full)}"
        if full
        else "no channel is full: no depth can free it"
    )
    if found.uniform is not None:
        remedy = f"channels of depth {found.uniform} free it; or {remedy}"
    return DeadlockError(found, "units wait for each other", f"graph {graph.name}", remedy, waits)
