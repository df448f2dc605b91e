"""What arrays cost on Lattice ECP5, by their parts, beside the fabrics
of programs of their own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from amaranth.lib import wiring
from penstock.frontend import build, lower
from penstock.hw.array.array import Array
from penstock.hw.array.parts import GROUPS
from penstock.hw.array.parts import parts as of_array
from penstock.hw.fabric import Fabric
from penstock.hw.parts import parts as of_fabric
from penstock.hw.synthesis import look_at_parts, synthesise
from penstock.machine.config import load
from records import UNITS as COMPONENTS
from records import Record, Sources, preset

FAMILY = "ecp5"
ARRAYS = ("array_tiny", "array_small")
PROGRAMS = {"array_tiny": ("swiglu",), "array_small": ("swiglu", "simple_moe", "attention")}
"""By array those whose own fabrics are beside it, with the array's
machine and its default parameters.
"""


@dataclass(frozen=True)
class Case:
    """Parts of an array, or all of the fabric of a program.

    Attributes
    ----------
    array
        A preset.
    what
        One of :data:`~penstock.hw.array.parts.GROUPS`, or a program.

    """

    array: str
    what: str


CASES = {
    f"{array}, {what}": Case(array, what)
    for array in ARRAYS
    for what in (*GROUPS, *PROGRAMS[array])
}


def _parts(case: Case) -> list[tuple[str, wiring.Component, int]]:
    """Name, component and number of each distinct part."""
    config = load(case.array)
    if case.what in GROUPS:
        return [
            (part.name, part.component, part.number)
            for part in of_array(Array(config))
            if part.group == case.what
        ]
    graph = lower(build(case.what, {}, config).graph, config)
    return [(part.name, part.make(), len(part.units)) for part in of_fabric(Fabric(graph, config))]


def run(name: str) -> dict:
    """Cells of one of each part, and how many there are."""
    look_at_parts()
    case = CASES[name]
    rows = []
    for part, component, number in _parts(case):
        cost = synthesise(component, FAMILY).cost(FAMILY)
        rows.append(asdict(case) | {"name": part, "number": number} | asdict(cost))
    return {"rows": rows}


def sources(name: str) -> Sources:
    """The parts, and the preset."""
    case = CASES[name]
    programs = () if case.what in GROUPS else (f"workloads/{case.what}.py",)
    roots = ("bench/made/price.py", "hw/array/parts.py", *COMPONENTS, *programs)
    return Sources((*roots, preset(case.array)), ("tb", "cli", "runs", "model"))


RECORD = Record("price", cases=lambda: CASES, run=run, sources=sources)
