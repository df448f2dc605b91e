"""Bits of a fabric's memories by purpose.

Units and channels state them here, before any hardware is made: each kind says its own
(:meth:`~penstock.machine.kinds.kind.Kind.memories`). What exported Verilog has is counted from its
text and held against this (hw/export/memories.py). Registers and tables of functions are not among
them.
"""

from __future__ import annotations

from collections import Counter

from .beat import beat_bits
from .config import Machine
from .kinds.uses import RINGS, USES
from .unitgraph import UnitGraph


def memory_bits(graph: UnitGraph, machine: Machine) -> dict[str, int]:
    """Bits by use, of :data:`~penstock.machine.kinds.uses.USES`."""
    found: Counter[str] = Counter(dict.fromkeys(USES, 0))
    found["channels"] = sum(c.depth * beat_bits(c.payload) for c in graph.channels)
    for unit in graph.units:
        kind = unit.kind
        payloads = (
            tuple(c.payload for c in graph.inputs(unit.id)),
            tuple(c.payload for c in graph.outputs(unit.id)),
        )
        posts = len(graph.posters(unit.id)) if kind.memory else 0
        found.update(kind.memories(graph.t, *payloads, posts, machine.widths))
        if kind.offchip == "read":
            found[RINGS] += machine.load_lines * machine.widths.line * machine.response_lanes
    return dict(found)
