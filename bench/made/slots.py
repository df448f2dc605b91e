"""What configurability costs: a slot of an array beside the dedicated
unit of the same size, on Lattice ECP5.
"""

from __future__ import annotations

from typing import Any

from penstock.hw.synthesis import FAMILIES, synthesise
from penstock.machine.array.capability import Capability
from penstock.machine.kinds import kind_of
from penstock.testing.slots import EDGE, slot_of, unit_of
from records import UNITS as COMPONENTS
from records import Record, Sources

FAMILY = FAMILIES[-1]
LEVELS = 4
PORTS = 4
BOTH = ["add", "max"]
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "flatten": ({"lo": LEVELS, "hi": LEVELS}, {"lo": 0, "hi": 1}),
    "promote": ({"level": LEVELS}, {"level": 1, "outermost": False}),
    "signal": ({"level": LEVELS}, {"level": 1}),
    "reshape": ({"dim": LEVELS}, {"dim": 0, "pad": True}),
    "hop": ({"n": PORTS}, {}),
    "split": ({"n": PORTS}, {}),
    "merge": ({"n": PORTS}, {}),
    "expand": ({"level": LEVELS}, {"level": 1}),
    "partition": ({"n": PORTS, "rank": LEVELS}, {"rank": 1}),
    "reassemble": ({"n": PORTS, "rank": LEVELS}, {"rank": 1}),
    "eager_merge": ({"n": PORTS, "rank": LEVELS}, {"rank": 1}),
    "row_pack": ({"depth": 8, "level": LEVELS}, {"level": 2, "along": "rows"}),
    "row_unpack": ({"depth": 8}, {"mask": True, "along": "rows"}),
    "row_reduce": ({"fn": BOTH}, {"fn": "add"}),
    "map mul": (
        {"fn": "mul", "arity": 2, "lanes": 1, "tuple_in": False, "constant": 2**32 - 1},
        {"spread": None},
    ),
    "matmul": ({"rows_per_cycle": 1}, {"transposed": False}),
    "accum": (
        {"fn": BOTH, "reduce": 0b11111, "depth": 16, "lanes": 1},
        {"fn": "add", "reduce": 0b10, "scan": False},
    ),
}
"""Name -> bounds of the slot, and what of a unit's parameters is not the bound."""


def run(case: str) -> dict:
    """Synthesis of a slot, and of the unit."""
    bounds, params = CASES[case]
    slot = Capability(case.split()[0], bounds)
    registers = sum(
        bits for name, bits in slot.registers().items() if name not in kind_of(slot.kind).runtime
    )
    row: dict[str, Any] = {"name": case, "t": EDGE, "registers": registers}
    for what, made in (("unit", unit_of(slot, slot.widest() | params)), ("slot", slot_of(slot))):
        cost = synthesise(made, FAMILY).cost(FAMILY)
        row |= {f"{what}_lut": cost.lut, f"{what}_ff": cost.ff}
    return {"rows": [row]}


def sources(_case: str) -> Sources:
    """Of all: the units, and what builds them."""
    roots = ("bench/made/slots.py", "testing/slots.py", *COMPONENTS)
    return Sources(roots, ("tb", "cli", "runs", "model", "frontend", "workloads"))


RECORD = Record("slots", cases=lambda: CASES, run=run, sources=sources)
