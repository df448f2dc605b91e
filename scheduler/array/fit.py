"""Which slots of an array each unit fits, and what is missing where none
is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from ...machine.array.description import Slot, plane_of
from ...machine.array.netlist import absorbs
from ...machine.array.network import Network
from ...machine.errors import LoweringError
from ...machine.kinds import KINDS, REQUIRED, Fixed
from ...machine.unitgraph import Unit, UnitGraph, ends_of_all


def lacks(slot: Slot, unit: Unit, planes: tuple[Sequence[str], Sequence[str]]) -> list[str]:
    """What a slot lacks to be a unit whose inputs and outputs have these
    planes, as parts of a message; empty: it can be it.
    """
    if unit.kind not in slot.kinds:
        return [f"it is no {unit.kind}"]
    bounds = slot.bounds(unit.kind)
    found = []
    for key, x in KINDS[unit.kind].params.items():
        value = unit.params.get(key, x.default)
        bound = bounds.get(key, x.default if x.setting.most is REQUIRED else x.setting.most)
        if bound is REQUIRED:
            continue  # the machine's
        if isinstance(x.setting, Fixed):
            lack = "" if _within(value, bound) else f"not {bound!r}"
        else:
            lack = x.setting.misses(value, bound)
        if lack:
            found.append(f"{key} is {value!r}, {lack}")
    return found or _planes_missed(slot, unit, planes)


def _within(value: Any, bound: Any) -> bool:
    """Whether a value is a bound's, or one of its list, or part by part at
    most it.
    """
    if value is None or value is False:
        return True
    if isinstance(bound, list):
        if not isinstance(value, (list, tuple)):
            return value in bound
        return len(value) <= len(bound) and all(map(_within, value, bound))
    if isinstance(bound, Mapping):
        return all(k in bound and _within(v, bound[k]) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return len(value) <= bound
    return value == bound if isinstance(value, str) else value <= bound


def _planes_missed(
    slot: Slot, unit: Unit, planes: tuple[Sequence[str], Sequence[str]]
) -> list[str]:
    made = KINDS[unit.kind].of(unit.params)
    for outputs, ports in ((False, made.inputs()), (True, made.outputs())):
        pins = slot.pins_of(unit.kind, outputs)
        own = slot.outputs if outputs else slot.inputs
        for port, plane in zip(ports, planes[outputs], strict=True):
            if port.member not in pins:
                return [f"it has no port {port}"]
            if own[pins[port.member]].plane != plane:
                return [f"{port} carries {plane} payloads"]
    return []


def planes_of(graph: UnitGraph) -> list[tuple[list[str], list[str]]]:
    """Planes of the inputs and outputs of every unit."""
    ins, outs = ends_of_all(graph)
    return [
        (
            [plane_of(c.payload) or "none" for c in ins[u.id]],
            [plane_of(c.payload) or "none" for c in outs[u.id]],
        )
        for u in graph.units
    ]


def fits(graph: UnitGraph, network: Network) -> np.ndarray:
    """Whether each slot can be each unit: bool [units, slots]; no slot can
    be an absorbed one.
    """
    table = np.zeros((len(graph.units), len(network.slots)), bool)
    planes = planes_of(graph)
    known: dict[str, list[bool]] = {}
    for unit in graph.units:
        if absorbs(unit):
            continue
        key = repr((unit.kind, sorted(unit.params.items()), planes[unit.id]))
        if key not in known:
            of_slot: dict[int, bool] = {}
            for s in network.slots:
                if id(s.slot) not in of_slot:
                    of_slot[id(s.slot)] = not lacks(s.slot, unit, planes[unit.id])
            known[key] = [of_slot[id(s.slot)] for s in network.slots]
        table[unit.id] = known[key]
    return table


def assigned(table: np.ndarray) -> np.ndarray:
    """A slot for each row of a table of what fits, no slot twice; -1 where
    none is left.
    """
    return maximum_bipartite_matching(csr_matrix(table), perm_type="column")


def missing(graph: UnitGraph, network: Network, left: Sequence[int]) -> LoweringError:
    """What an array lacks for a program, given the units that found no
    slot.
    """
    planes = planes_of(graph)
    parts = []
    for kind, count in sorted(Counter(graph.units[u].kind for u in left).items()):
        wanted = sum(u.kind == kind for u in graph.units)
        there = sum(kind in s.slot.kinds for s in network.slots)
        first = next(graph.units[u] for u in left if graph.units[u].kind == kind)
        reasons = [
            lacks(s.slot, first, planes[first.id]) for s in network.slots if kind in s.slot.kinds
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
        "use an array that has more of these slots, or other bounds",
    )
