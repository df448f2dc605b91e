"""Deliberately wrong fabrics, to see the check fail: units a cycle slower, a cycle faster, or wrong
in a bit, kind by kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..machine.errors import RunError
from ..machine.unitgraph import UnitGraph

SLOW = ("latency", "interval", "value")
"""Switches 0 to 2 of a unit's first penstock_mutation.

``latency``: every stream that such a unit delivers (takes, if it delivers none) passes one more
FIFO of full rate. ``interval``: each of these streams carries a beat at most every II + 1 cycles.
``value``: the lowest payload bit of every data beat of these streams is flipped (a scratchpad's own
references, and what is no tile of a source, excepted: those are what other units act by).
"""
SWIFT = {"latency-1": ("map", "matmul"), "interval-1": ("accum", "map", "matmul")}
"""Switches 0 and 1 of a second one, and the kinds whose parameters give room for it.

``latency-1``: the result leaves a cycle early (L - 1 with the datapath as it is). ``interval-1``: a
unit of II = 2 gets twice its lanes or rows and II = 1, with the same L (the latency of an
accumulator is its interval).
"""
MUTATIONS = (*SLOW, *SWIFT)


def kinds_of(graph: UnitGraph) -> list[str]:
    return sorted({u.kind for u in graph.units})


def mutation_bits(graph: UnitGraph, mutate: Mapping[str, str]) -> list[int]:
    """Per kind of the graph, in alphabetical order, which slow ones are on; then, likewise, which
    swift ones.
    """
    kinds = kinds_of(graph)
    where = f"mutation of {graph.name}"
    if unknown := [k for k in mutate if k not in kinds]:
        raise RunError(
            f"no unit of kind {', '.join(unknown)}", where, remedy=f"kinds: {', '.join(kinds)}"
        )
    if unknown := [m for m in mutate.values() if m not in MUTATIONS]:
        raise RunError(
            f"unknown mutation {', '.join(unknown)}",
            where,
            remedy=f"mutations: {', '.join(MUTATIONS)}",
        )
    for kind, what in mutate.items():
        if what in SWIFT and kind not in SWIFT[what]:
            raise RunError(
                f"no unit of kind {kind} can have {what}",
                where,
                remedy=f"kinds: {', '.join(SWIFT[what])}",
            )
    return [
        1 << switches.index(mutate[k]) if mutate.get(k) in switches else 0
        for switches in (SLOW, tuple(SWIFT))
        for k in kinds
    ]
