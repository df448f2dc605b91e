"""Synthesis, and place and route: cells of units and fabrics, clock rates of units, overlay parts
and bitstreams, cells of the overlay's parts.
"""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from amaranth.lib import wiring
from measurements import Bench, Row
from penstock.board import run as board
from penstock.board.platforms import BOARDS
from penstock.board.run import Place
from penstock.frontend import build, lower
from penstock.hw.fabric import Fabric
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.memory.ring import Ring
from penstock.hw.nextpnr import SPEEDS, rates
from penstock.hw.parts import parts
from penstock.hw.synthesis import Cells, cost, look_at_parts, synthesise
from penstock.machine.config import PIPELINES, Config, Dram, load
from penstock.overlay.core.config import Overlay
from penstock.overlay.runs import board as overlay_board
from penstock.overlay.studies import resources
from penstock.overlay.studies.parts import pieces
from penstock.runs import regress
from penstock.system.cache import digest
from units import ALONE, part_of

FAMILY = "ecp5"
EDGES = (2, 4)
SIDES = ((1, 1), (2, 1), (2, 2), (2, 4), (2, 8), (4, 8))
"""Lanes of a port, and lines that come in a cycle, of the interconnects; the last is that of
`paper_hdl` and `dag`.
"""
GROUPS = 64
"""Groups of their rings."""
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
"""Design of `penstock regress` -> units that it has at each t; those of none are made by
themselves.
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
    """A part of the smallest design's program on `lean_fpga`, with tiles of t x t; none: its
    fabric.
    """
    config = load(LEAN)
    config = replace(config, machine=replace(config.machine, t=t))
    made = Fabric(lower(build(DESIGNS[SMALLEST].program, {}, config).graph, config), config)
    return part_of(made, name) if name else made


def interconnect(lanes: int, n: int) -> Interconnect:
    """Interconnect of a load and a store."""
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
    """Cells of all units, channels and the memory side of a fabric, each synthesised alone."""
    cells: Counter[str] = Counter()
    digests = []
    for part in parts(made):
        done = synthesise(part.make(), FAMILY)
        digests.append(done.digest)
        for name, n in done.cells.items():
            cells[name] += n * len(part.units)
    return Cells(dict(cells), digest(*digests))


def synthesis(case: str) -> list[Row]:
    """Cells of one part, or of a fabric; of a ring its memories alone are mapped."""
    look_at_parts()
    make, about = MADE[case]
    group = about["group"]
    component = make()
    if group == BY_PARTS:
        done = by_parts(component)
    else:
        done = synthesise(component, FAMILY, memories=group == "ring")
    return [about | cells_row(group, done)]


def cells_row(group: str, done: Cells) -> Row:
    if group != "ring":
        return vars(done.cost(FAMILY))
    return {
        "lut_ram": 4 * done.cells.get("TRELLIS_DPR16X4", 0),
        "bram": done.cells.get("DP16KD", 0),
    }


MACHINE = "small_board"
UNIT_SEEDS = (1,)
FABRIC_SEEDS = (1, 2)
"""Seeds of a fabric, whose fastest placement counts: a bitstream has one. That of a unit is one
of many, and the slowest counts.
"""
SLOW, FAST = SPEEDS[0], SPEEDS[-1]
ARITHMETIC = ("map mul", "accum add", "matmul", "map silu")
OTHERS = ("channel of 2", "broadcast", "scratchpad", "store", "load")
"""Units without arithmetic: they have one form."""
FABRIC = "fabric"
PROGRAM = "swiglu"
ROUTED = ("store", "load", FABRIC)
"""Parts of `PROGRAM` on `LEAN` that are routed, at `SLOW` and at `FAST`."""


@dataclass(frozen=True)
class Placed:
    """The design that is placed and routed: a unit of a program, or its fabric."""

    # of the unit as :func:`~penstock.hw.parts.parts` has it, with the name of one behind it where
    # it is not the first; or `FABRIC`
    name: str
    # machine, pipelines: a preset, and the pipelines that it has in place of its own
    machine: str = MACHINE
    pipelines: str = PIPELINES[0]
    speed: str = SLOW  # grade of the part
    bare: bool = False  # whether the machine has no counters and no run-time registers

    @property
    def config(self) -> Config:
        """The machine."""
        config = load(self.machine)
        machine = replace(config.machine, pipelines=self.pipelines)
        if self.bare:
            machine = replace(machine, counters=False, registers=False)
        return replace(config, machine=machine)


def _placed_cases() -> dict[str, Placed]:
    deep = PIPELINES[1]
    found = {
        f"{name}, {how}": Placed(name, MACHINE, how) for name in ARITHMETIC for how in PIPELINES
    }
    found |= {name: Placed(name) for name in OTHERS}
    found |= {f"{name}, lean": Placed(name, LEAN, deep) for name in ROUTED}
    found |= {
        f"{title}, grade {FAST}": replace(case, speed=FAST)
        for title, case in found.items()
        if case.pipelines == deep
    }
    bare = {
        f"{FABRIC}, lean, bare{suffix}": Placed(FABRIC, LEAN, deep, speed=speed, bare=True)
        for suffix, speed in (("", SLOW), (f", grade {FAST}", FAST))
    }
    return found | bare


PLACED = _placed_cases()


def clock_of_unit(asked: Placed) -> Row:
    """One unit of the program, or its whole fabric, placed and routed; of a fabric the fastest
    placement counts.
    """
    if asked.name != FABRIC:
        return rates(lambda: made(asked), seeds=UNIT_SEEDS, speed=asked.speed)
    apart = [rates(lambda: made(asked), seeds=(k,), speed=asked.speed) for k in FABRIC_SEEDS]
    return max(apart, key=lambda row: row["mhz"])


def made(asked: Placed) -> wiring.Component:
    """A unit, or the fabric of a program."""
    config = asked.config
    graph = lower(build(PROGRAM, {}, config).graph, config)
    fabric = Fabric(graph, config)
    return fabric if asked.name == FABRIC else part_of(fabric, asked.name)


OVERLAY_AIMS = {
    ("dynamic switch", "mesh"): 110,
    ("ALU, deep", "every operation"): 90,
    ("static tile", "no ALU"): 115,
    ("dynamic tile", "no ALU"): 85,
    ("static tile", "every operation, deep"): 80,
    ("dynamic tile", "every operation, deep"): 80,
    ("dynamic tile", "every operation, registered"): 80,
}
"""At the slowest grade."""


def overlay_cases() -> dict[str, tuple[str, str, str]]:
    """Part, variant and speed grade of the overlay's parts by case."""
    slow = {f"overlay {p}, {v}": (p, v, SLOW) for p, v, _ in pieces()}
    return slow | {f"overlay {p}, {v}, grade {FAST}": (p, v, FAST) for p, v in OVERLAY_AIMS}


def clock_of_part(part: str, variant: str, speed: str) -> Row:
    """One part of the overlay, placed and routed from each seed."""
    (make,) = (m for p, v, m in pieces() if (p, v) == (part, variant))
    seeds = (1,) if "every operation" in variant else (1, 2, 3)
    return rates(make, seeds=seeds, speed=speed)


LEAN_PROGRAMS = ("swiglu", "simple_moe")
GRAPH = "device:mos"
MESHES = (2, 4)
BITSTREAMS = {
    f"bitstream {what}, {on}": (what, on)
    for on in BOARDS
    for what in (*(f"overlay {n}x{n}" for n in reversed(MESHES)), *reversed(LEAN_PROGRAMS))
}
"""Design and board."""


def mesh(n: int) -> Overlay:
    """The overlay of n x n static PEs, each with one kind of operation."""
    return Overlay(rows=n, cols=n, pe="static", alu="deep", kinds="specialised")


def bitstream(what: str, on: str) -> Row:
    """Clock rate, cells in use and CPU seconds of a bitstream."""
    with tempfile.TemporaryDirectory() as out:
        given = {"place": Place(on), "out": out, "seed": 1}
        if what in LEAN_PROGRAMS:
            done = board.build(what, LEAN, {}, **given)
        else:
            done = overlay_board.build(GRAPH, mesh(int(what.partition("x")[2])), **given)
    row: Row = {"name": what, "board": on, "mhz": done.fmax_mhz, "aim": BOARDS[on].clock_mhz}
    row |= {"synthesis_s": done.synthesis_s, "routing_s": done.routing_s}
    return row | cells_in_use(done.used)


def cells_in_use(used: Mapping[str, tuple[int, int]]) -> Row:
    names = {"LUT": "lut", "flip-flops": "ff", "block RAMs": "bram", "multipliers": "dsp"}
    row: Row = {short: used[name][0] for name, short in names.items()}
    return row | {"lut_share": round(used["LUT"][0] / used["LUT"][1], 3)}


UNIT_AIM = 80
FABRIC_AIM = 60
"""MHz of a deep pipeline at the slowest grade."""


def clocks(case: str) -> list[Row]:
    """One part, unit or bitstream, placed and routed."""
    look_at_parts()
    if case in BITSTREAMS:
        return [{"group": "bitstream"} | bitstream(*BITSTREAMS[case])]
    if case in (parts_of := overlay_cases()):
        part, variant, speed = parts_of[case]
        aim = OVERLAY_AIMS.get((part, variant)) if speed == SLOW else None
        about = {"group": "overlay", "name": part, "variant": variant, "speed": speed, "aim": aim}
        return [about | clock_row(clock_of_part(part, variant, speed))]
    asked = PLACED[case]
    return [about_unit(asdict(asked)) | clock_row(clock_of_unit(asked))]


def about_unit(asked: Row) -> Row:
    deep = asked["pipelines"] == PIPELINES[1] and asked["speed"] == SLOW
    aim = FABRIC_AIM if asked["name"] == FABRIC else UNIT_AIM
    keys = ("name", "machine", "pipelines", "speed", "bare")
    row = {"group": "unit"} | {k: asked[k] for k in keys if asked[k] is not False}
    return row | ({"aim": aim} if deep else {})


def clock_row(found: Row) -> Row:
    return {k: found[k] for k in ("mhz", "lut", "ff", "bram", "dsp", "path")}


def clock_cases() -> list[str]:
    return [*PLACED, *overlay_cases(), *BITSTREAMS]


OVERLAY_PARTS: dict[str, list[tuple]] = {}
"""Part of the overlay by family -> part, payload and contexts of its rows."""
for _family in ("xc7", "ecp5"):
    for _part, _bits, _contexts in resources.points((32, 64), (16, 256)):
        _name = f"{_family} {_part.pe} {_part.part}, {_part.variant}"
        OVERLAY_PARTS.setdefault(_name, []).append((_part, _bits, _contexts))


def overlay_resources(case: str) -> list[Row]:
    """Cells of one part of the overlay, at some payloads and numbers of contexts."""
    family = case.split()[0]
    return [
        part_row(family, part, bits, n) | vars(cost(part.make(bits, n), family))
        for part, bits, n in OVERLAY_PARTS[case]
    ]


def part_row(family: str, part: Any, bits: int, n: int) -> Row:
    about = {"family": family, "pe": part.pe, "part": part.part, "variant": part.variant}
    return about | {"payload": bits, "contexts": n}


SYNTHESIS = Bench(lambda: MADE, synthesis)
CLOCKS = Bench(clock_cases, clocks)
OVERLAY_RESOURCES = Bench(lambda: OVERLAY_PARTS, overlay_resources)
