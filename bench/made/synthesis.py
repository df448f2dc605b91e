"""What units, memory sides and fabrics cost on Lattice ECP5: synthesis,
no place and route.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from amaranth.lib import wiring
from penstock.frontend import build, lower
from penstock.hw.fabric import Fabric
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.memory.ring import Ring
from penstock.hw.parts import parts
from penstock.hw.synthesis import Cells, look_at_parts, synthesise
from penstock.machine.config import Config, Dram, load
from penstock.runs import regress
from penstock.system.cache import digest
from records import UNITS as COMPONENTS
from records import Record, Sources, preset
from units import ALONE, part_of

FAMILY = "ecp5"
EDGES = (2, 4)
SIDES = ((1, 1), (2, 1), (2, 2), (2, 4), (2, 8), (4, 8))
"""Lanes of a port, and lines that come in a cycle, of the interconnects;
the last is that of `paper_hdl` and `dag`.
"""
GROUPS = 64
"""Of their rings."""
RINGS = ((64, 1, 1), (64, 4, 8), (512, 4, 1))
"""Groups, lanes and lines that come in a cycle: `small_fpga`, `paper_hdl`, and block RAMs filled to
their depth.
"""
SMALLEST = "swiglu small_fpga"
UNITS = {
    SMALLEST: (
        *("broadcast", "repeat", "reshape", "map cast_bf16", "map silu", "map mul", "accum add"),
        *("scratchpad", "load", "store", "matmul"),
    ),
    f"{SMALLEST} x2": ("split", "merge"),
    "operators routing": (
        *("flatten", "partition", "reassemble", "promote", "eager_merge", "row_pack", "zip"),
        *("row_reduce add", "map cast_fp32", "map exp"),
    ),
    "operators memory": (
        *("signal", "generate address", "row_offset", "row_append", "address", "random_store"),
        *("generate expert", "generate last", "load RandomOffChipLoad"),
    ),
    "moe static": ("row_unpack",),
    "attention coarse": ("map div",),
    "attention interleaved": ("map sub", "row_reduce max", "accum max"),
    "attention dynamic": ("map add", "source", "sink"),
    "": tuple(ALONE),
}
"""Design of `penstock regress` -> units that it has at each t; those of
none are made by themselves.
"""
LEAN = "lean_fpga"
LEAN_DESIGN = f"swiglu {LEAN}"
LEAN_PARTS = {
    2: ("load", "store", "interconnect"),
    4: ("load", "store", "interconnect", "matmul", "accum add", "scratchpad"),
}
"""Edge of a tile -> parts of the lean fabric."""
DESIGNS = {d.name: d for d in regress.DESIGNS}
BY_PARTS = "fabric by parts"
"""The group of fabrics that are the sum of their parts."""


def machine(t: int) -> Config:
    """`small_fpga` with tiles of t x t."""
    config = load("small_fpga")
    lanes = {name: min(n, t * t) for name, n in config.machine.lanes.items()}
    return replace(config, machine=replace(config.machine, t=t, rows_per_cycle=t, lanes=lanes))


def fabric(design: str, t: int) -> Fabric:
    """The fabric of a design of `penstock regress`."""
    found = DESIGNS[design]
    config = machine(t)
    config = replace(config, machine=replace(config.machine, **found.fields))
    return Fabric(lower(build(found.program, found.points[0], config).graph, config), config)


def unit(name: str, design: str, t: int):
    """The first unit of a design that is called so."""
    if not design:
        return ALONE[name](machine(t).machine)
    return part_of(fabric(design, t), name)


def lean(t: int, name: str = ""):
    """A part of the smallest design's program on `lean_fpga`, with tiles
    of t x t; none: its fabric.
    """
    config = load(LEAN)
    config = replace(config, machine=replace(config.machine, t=t))
    made = Fabric(lower(build(DESIGNS[SMALLEST].program, {}, config).graph, config), config)
    return part_of(made, name) if name else made


def interconnect(lanes: int, n: int) -> Interconnect:
    """Of a load and a store."""
    small = load("small_fpga").machine
    dram = Dram(kind="pipe", channels=n)
    config = replace(small, port_lanes=lanes, load_lines=GROUPS * lanes, dram=dram)
    return Interconnect(ports=["read", "write"], config=config)


def _made() -> dict[str, tuple[Callable, dict]]:
    """Case -> what makes its component, and what its row begins with."""
    found: dict[str, tuple[Callable, dict]] = {}
    for groups, lanes, n in RINGS:
        sizes = f"{lanes} lanes, {groups} groups, {n} channels"
        about = {"group": "ring", "name": "ring of a load", "sizes": sizes}
        make = functools.partial(Ring, groups=groups, lanes=lanes, responses=n, line=512)
        found[f"ring, {sizes}"] = make, about
    for lanes, n in SIDES:
        sizes = f"{lanes} lanes, {GROUPS} groups, {n} channels"
        about = {"group": "interconnect", "name": "load and store", "sizes": sizes}
        found[f"interconnect, {sizes}"] = functools.partial(interconnect, lanes, n), about
    for t in EDGES:
        for design, names in UNITS.items():
            for name in names:
                about = {"group": "unit", "name": name, "t": t, "design": design}
                found[f"unit {name}, t={t}"] = functools.partial(unit, name, design, t), about
    for t in EDGES:
        about = {"group": "fabric", "name": SMALLEST, "t": t}
        make = functools.partial(fabric, SMALLEST, t)
        found[f"fabric {SMALLEST}, t={t}"] = make, about
        found[f"fabric {SMALLEST} by parts, t={t}"] = make, about | {"group": BY_PARTS}
    for t, names in LEAN_PARTS.items():
        for name in names:
            about = {"group": "lean", "name": name, "t": t, "design": LEAN_DESIGN}
            found[f"lean {name}, t={t}"] = functools.partial(lean, t, name), about
    t = min(LEAN_PARTS)
    about = {"group": "lean", "name": "fabric of swiglu", "t": t, "design": LEAN_DESIGN}
    found[f"lean fabric, t={t}"] = functools.partial(lean, t), about
    return found


MADE = _made()


def by_parts(made: Fabric) -> Cells:
    """Cells of all units, channels and the memory side of a fabric, each
    synthesised by itself.
    """
    cells: Counter[str] = Counter()
    digests = []
    for part in parts(made):
        done = synthesise(part.make(), FAMILY)
        digests.append(done.digest)
        for name, n in done.cells.items():
            cells[name] += n * len(part.units)
    return Cells(dict(cells), digest(*digests))


def cells_of(component: wiring.Component, group: str) -> Cells:
    """What synthesis makes of it; of a ring its memories alone are
    mapped.
    """
    if group == BY_PARTS and isinstance(component, Fabric):
        return by_parts(component)
    return synthesise(component, FAMILY, memories=group == "ring")


def run(case: str) -> dict:
    """Synthesis of one part, or of a fabric."""
    look_at_parts()
    make, about = MADE[case]
    memories = about["group"] == "ring"
    done = cells_of(make(), about["group"])
    cells = {name: done.cells.get(name, 0) for name in ("LUT4", "CCU2C", "TRELLIS_DPR16X4")}
    if memories:
        cost = {"lut_ram": 4 * cells["TRELLIS_DPR16X4"], "bram": done.cells.get("DP16KD", 0)}
    else:
        cost = {**vars(done.cost(FAMILY)), "cells": cells}
    return {"rows": [about | cost | {"verilog": done.digest}]}


def sources(case: str) -> Sources:
    """Of one part: hardware, and the program it is taken from."""
    about = MADE[case][1]
    roots = ("bench/made/synthesis.py", *COMPONENTS)
    if "design" not in about and "t" not in about:
        return Sources(roots, ("tb", "cli", "runs", "model", "frontend", "workloads"))
    lean = about["group"] == "lean"
    machines = preset(LEAN if lean else "small_fpga")
    without = ("tb", "cli", "runs/api.py", "model")
    if not (design := SMALLEST if lean else about.get("design", SMALLEST)):
        return Sources((*roots, machines), (*without, "runs", "frontend", "workloads"))
    program = f"workloads/{DESIGNS[design].program}.py"
    return Sources((*roots, "runs/regress.py", program, machines), without)


RECORD = Record("synthesis", cases=lambda: MADE, run=run, sources=sources)
