"""Clock rates of units on Lattice ECP5, placed and routed between
registers: with short pipelines and with deep ones.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.frontend import build, lower
from penstock.hw.fabric import Fabric
from penstock.hw.nextpnr import SPEEDS, rates
from penstock.hw.parts import parts
from penstock.hw.synthesis import look_at_parts
from penstock.machine.config import PIPELINES, load
from records import UNITS as COMPONENTS
from records import Record, Sources, preset

PROGRAM = "swiglu"
MACHINE = "small_board"
SEEDS = (1,)
SPEED = SPEEDS[0]
ARITHMETIC = ("map mul", "accum add", "matmul", "map silu")
OTHERS = ("channel of 2", "broadcast", "scratchpad", "store", "load")
"""Units without arithmetic: they have one form."""
LEAN = "lean_fpga"
FABRIC = "fabric"
CASES = {
    **{f"{name}, {how}": (name, how, MACHINE) for name in ARITHMETIC for how in PIPELINES},
    **{name: (name, PIPELINES[0], MACHINE) for name in OTHERS},
    **{f"{name}, lean": (name, PIPELINES[1], LEAN) for name in ("store", "load", FABRIC)},
}
"""Unit, pipelines, machine."""


def run(case: str) -> dict:
    """One unit of the program, or its whole fabric, placed and routed."""
    look_at_parts()
    name, pipelines, machine = CASES[case]
    config = load(machine)
    config = replace(config, machine=replace(config.machine, pipelines=pipelines))
    graph = lower(build(PROGRAM, {}, config).graph, config)

    def make():
        fabric = Fabric(graph, config)
        if name == FABRIC:
            return fabric
        return next(part for part in parts(fabric) if part.name == name).make()

    about = {"name": name, "machine": machine, "pipelines": pipelines, "speed": SPEED}
    return {"rows": [about | rates(make, seeds=SEEDS, speed=SPEED)]}


def sources(case: str) -> Sources:
    """The units, and the program that they are of."""
    roots = ("bench/made/clocks.py", "hw/nextpnr.py", *COMPONENTS)
    more = (f"workloads/{PROGRAM}.py", preset(CASES[case][2]))
    return Sources((*roots, *more), ("tb", "cli", "runs", "model"))


RECORD = Record("clocks", cases=lambda: CASES, run=run, sources=sources)
