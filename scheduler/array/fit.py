"""Fit of units and slots of an array, and what is missing where no slot is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from ...machine.array.netlist import absorbs
from ...machine.array.network import Network
from ...machine.array.variants import Variant
from ...machine.beat import Payload
from ...machine.errors import LoweringError
from ...machine.unitgraph import Unit, UnitGraph, ends_of_all


class Payloads(NamedTuple):
    """Payloads of the inputs and outputs of a unit."""

    inputs: tuple[Payload, ...]
    outputs: tuple[Payload, ...]


def lacks(built: Sequence[Variant], unit: Unit, given: Payloads) -> list[str]:
    """Features that a slot built of these units lacks, as parts of a message; empty: the slot
    suffices.
    """
    own = [v for v in built if v.kind == unit.kind.name]
    found = [v.misses(unit.kind, given.inputs, given.outputs) for v in own]
    return min(found, key=len, default=[f"it is no {unit.kind.name}"])


def payloads_of(graph: UnitGraph) -> list[Payloads]:
    """Payloads of every unit's streams."""
    ins, outs = ends_of_all(graph)
    return [
        Payloads(tuple(c.payload for c in ins[u.id]), tuple(c.payload for c in outs[u.id]))
        for u in graph.units
    ]


def fits(graph: UnitGraph, network: Network) -> np.ndarray:
    """Slots that can be each unit: bool [units, slots]; no slot can be an absorbed one."""
    table = np.zeros((len(graph.units), len(network.slots)), bool)
    given = payloads_of(graph)
    known: dict[str, list[bool]] = {}
    for unit in graph.units:
        if absorbs(unit):
            continue
        key = repr((unit.kind, given[unit.id]))
        if key not in known:
            of_slot: dict[int, bool] = {}
            for s in network.slots:
                if id(s.slot) not in of_slot:
                    built = network.variants(s.slot)
                    of_slot[id(s.slot)] = not lacks(built, unit, given[unit.id])
            known[key] = [of_slot[id(s.slot)] for s in network.slots]
        table[unit.id] = known[key]
    return table


def assigned(table: np.ndarray) -> np.ndarray:
    """A slot for each row of a table of what fits, no slot twice; -1 where none is left."""
    return maximum_bipartite_matching(csr_matrix(table), perm_type="column")


def missing(graph: UnitGraph, network: Network, left: Sequence[int]) -> LoweringError:
    """Features that an array lacks for a program, given the units that found no slot."""
    given = payloads_of(graph)
    parts = []
    for kind, count in sorted(Counter(graph.units[u].kind.name for u in left).items()):
        wanted = sum(u.kind.name == kind for u in graph.units)
        there = sum(kind in s.slot.kinds for s in network.slots)
        first = next(graph.units[u] for u in left if graph.units[u].kind.name == kind)
        reasons = [
            lacks(network.variants(s.slot), first, given[first.id])
            for s in network.slots
            if kind in s.slot.kinds
        ]
        said = min(reasons, key=len)[0] if reasons and all(reasons) else ""
        parts.append(
            f"{count} of {wanted} {kind} (it has {there} slots for {kind}"
            + (f"; {first.name}: {said})" if said else ")")
        )
    return LoweringError(
        f"has no slot for {', '.join(parts)}",
        f"array {network.array.name}",
        "every unit lies in a slot of its own",
        f"`penstock array size PROGRAM --like {network.array.name}` makes an array of these sites "
        "that does, or tells what no site can be",
    )
