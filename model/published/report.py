"""Why a run stopped short, in the names of its units and channels."""

from __future__ import annotations

from penstock.machine.errors import RunError
from penstock.machine.unitgraph import UnitGraph

from .state import (
    BLOCKED, C_DEPTH, EMPTY_DIMENSION, ENDS_EARLY, G_FAULT, G_FAULT_UNIT, G_NOW, NO_UNIT, PARTIAL_CHUNK, SHAPES_DIFFER, STOPS_DIFFER,
    U_CLOCK, U_FINISH, U_ON, U_WHY, Net,
)

_FAULTS = {
    STOPS_DIFFER: ("the stops of its two inputs differ", "both inputs of an operator have one stream shape", None),
    ENDS_EARLY: ("one input ends before the other", "both inputs of an operator have one stream shape", None),
    SHAPES_DIFFER: ("the tiles of its two inputs do not fit together", "matmul: inner dimensions are equal; elementwise: equal, or 1", None),
    NO_UNIT: ("a selector names a stream that has no further unit", "a selector per unit, a unit per target", None),
    EMPTY_DIMENSION: ("a dimension without an element", "a stream has no empty dimension in the published simulator", "run it in the timing `machine`"),
    PARTIAL_CHUNK: ("the stream ends inside a chunk", "without padding a chunk divides its dimension", "pad, or choose a chunk that divides"),
}


def fault(graph: UnitGraph, net: Net) -> RunError:
    """The error of a unit that could not go on."""
    what, rule, remedy = _FAULTS[int(net.g[G_FAULT])]
    unit = graph.units[int(net.g[G_FAULT_UNIT])]
    return RunError(f"{what} in cycle {net.g[G_NOW]}", f"unit {unit.name} ({unit.kind})", rule, remedy)


def deadlock(graph: UnitGraph, net: Net) -> RunError:
    """The error of a run in which units wait for each other, with the cycle of waits."""
    u = next(i for i in range(len(graph.units)) if net.unit[i, U_FINISH] < 0)
    chain: list[int] = []
    while u not in chain:
        chain.append(u)
        c = graph.channels[int(net.unit[u, U_ON])]
        u = c.dst[0] if net.unit[u, U_WHY] == BLOCKED else c.src[0]
    waits, full = [], []
    for v in chain[chain.index(u):]:
        c = graph.channels[int(net.unit[v, U_ON])]
        name = graph.units[v].name
        if net.unit[v, U_WHY] == BLOCKED:
            full.append(c.name)
            waits.append(f"{name} waits for room in {c.name} (full, depth {net.chan[c.id, C_DEPTH]})")
        else:
            waits.append(f"{name} waits for a token on {c.name} (empty)")
    remedy = f"make one of the full channels deeper: {', '.join(full)}" if full else "no channel is full: no depth can free it"
    return RunError(f"deadlock after cycle {net.unit[:, U_CLOCK].max()}: {'; '.join(waits)}", f"graph {graph.name}", remedy=remedy)
