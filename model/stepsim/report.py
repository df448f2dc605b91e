"""Why a run stopped short, in the names of its units and channels."""

from __future__ import annotations

from ...machine.deadlock import Deadlock, DeadlockError, Stall
from ...machine.errors import RunError
from ...machine.unitgraph import UnitGraph
from .state import (
    BLOCKED,
    C_COUNT,
    C_DEPTH,
    EMPTY_DIMENSION,
    ENDS_EARLY,
    G_FAULT,
    G_FAULT_UNIT,
    G_NOW,
    NO_UNIT,
    PARTIAL_CHUNK,
    SHAPES_DIFFER,
    STOPS_DIFFER,
    U_CLOCK,
    U_FINISH,
    U_ON,
    U_WHY,
    Net,
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


def fault(graph: UnitGraph, net: Net) -> RunError:
    """The error of a unit that could not go on."""
    what, rule, remedy = _FAULTS[int(net.g[G_FAULT])]
    unit = graph.units[int(net.g[G_FAULT_UNIT])]
    return RunError(
        f"{what} in cycle {net.g[G_NOW]}", f"unit {unit.name} ({unit.kind.name})", rule, remedy
    )


def stalled(graph: UnitGraph, net: Net) -> Deadlock:
    """The circle of waits of a run in which nothing moves; where a stream's reader has ended before
    it, the waits that lead there.
    """

    def waits(u: int) -> tuple[Stall, int]:
        unit = graph.units[u]
        c = graph.channels[int(net.unit[u, U_ON])]
        room = net.unit[u, U_WHY] == BLOCKED
        on = c.dst[0] if room else c.src[0]
        return Stall(
            unit.name,
            unit.kind.name,
            "room" if room else "beat",
            c.name,
            int(net.chan[c.id, C_COUNT]),
            int(net.chan[c.id, C_DEPTH]),
            graph.units[on].name,
        ), on

    u = next(i for i in range(len(graph.units)) if net.unit[i, U_FINISH] < 0)
    chain: dict[int, Stall] = {}
    while u not in chain and net.unit[u, U_FINISH] < 0:
        chain[u], u = waits(u)
    units = list(chain)
    around = units[units.index(u) :] if u in chain else units
    return Deadlock(int(net.unit[:, U_CLOCK].max()), tuple(chain[v] for v in around))


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
