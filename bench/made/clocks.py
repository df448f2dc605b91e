"""Clock rates of units on Lattice ECP5, placed and routed between
registers: with short pipelines and with deep ones.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from penstock.frontend import build, lower
from penstock.hw.fabric import Fabric
from penstock.hw.nextpnr import SPEEDS, rates
from penstock.hw.parts import parts
from penstock.hw.synthesis import look_at_parts
from penstock.machine.config import PIPELINES, load
from records import UNITS as COMPONENTS
from records import Record, Sources, preset

MACHINE = "small_board"
LEAN = "lean_fpga"
SEEDS = (1,)
SLOW, FAST = SPEEDS[0], SPEEDS[-1]
ARITHMETIC = ("map mul", "accum add", "matmul", "map silu")
OTHERS = ("channel of 2", "broadcast", "scratchpad", "store", "load")
"""Units without arithmetic: they have one form."""
FABRIC = "fabric"
PROGRAM = "swiglu"


@dataclass(frozen=True)
class Case:
    """What is placed and routed: a unit of a program, or its fabric.

    Attributes
    ----------
    name
        Of the unit as :func:`~penstock.hw.parts.parts` has it, or `FABRIC`.
    machine, pipelines
        A preset, and the pipelines that it has in place of its own.
    program
        Whose unit it is.
    speed
        Grade of the part.

    """

    name: str
    machine: str = MACHINE
    pipelines: str = PIPELINES[0]
    program: str = PROGRAM
    speed: str = SLOW


def _cases() -> dict[str, Case]:
    deep = PIPELINES[1]
    found = {f"{name}, {how}": Case(name, MACHINE, how) for name in ARITHMETIC for how in PIPELINES}
    found |= {name: Case(name) for name in OTHERS}
    found |= {f"{name}, lean": Case(name, LEAN, deep) for name in ("store", "load", FABRIC)}
    fast = {
        f"{title}, grade {FAST}": replace(case, speed=FAST)
        for title, case in found.items()
        if case.pipelines == deep
    }
    moe = Case(FABRIC, LEAN, deep, "simple_moe")
    return found | fast | {"fabric of simple_moe, lean": moe}


CASES = _cases()


def run(case: str) -> dict:
    """One unit of the program, or its whole fabric, placed and routed."""
    look_at_parts()
    asked = CASES[case]
    config = load(asked.machine)
    config = replace(config, machine=replace(config.machine, pipelines=asked.pipelines))
    graph = lower(build(asked.program, {}, config).graph, config)

    def make():
        fabric = Fabric(graph, config)
        if asked.name == FABRIC:
            return fabric
        return next(part for part in parts(fabric) if part.name == asked.name).make()

    return {"rows": [asdict(asked) | rates(make, seeds=SEEDS, speed=asked.speed)]}


def sources(case: str) -> Sources:
    """The units, and the program that they are of."""
    roots = ("bench/made/clocks.py", "hw/nextpnr.py", *COMPONENTS)
    more = (f"workloads/{CASES[case].program}.py", preset(CASES[case].machine))
    return Sources((*roots, *more), ("tb", "cli", "runs", "model"))


RECORD = Record("clocks", cases=lambda: CASES, run=run, sources=sources)
