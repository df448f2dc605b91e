"""What numbers and widths of tracks do: which programs an array holds,
their cycles on the model, and what its switches cost.

A link of half a beat's width passes a beat every two cycles, and the two
places of its FIFO hold one. On the model that is a FIFO of one place
(docs/timing.md). The last cycle of a route's latency is left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from amaranth.hdl import Shape, unsigned
from penstock.hw.array.container import beat_shape
from penstock.hw.array.set_switch import SetSwitch
from penstock.hw.synthesis import look_at_parts, synthesise
from penstock.machine.array.network import Network
from penstock.machine.array.structure import Structure
from penstock.machine.config import Config, load
from penstock.machine.deadlock import DeadlockError
from penstock.machine.errors import LoweringError
from penstock.machine.trace import Run
from penstock.machine.unitgraph import UnitGraph
from penstock.runs import array as runs
from penstock.runs import simulation
from penstock.runs.links import link_of
from penstock.runs.point import Point
from records import Record, Sources, on_model, preset

from .array import CASES as LONG
from .array import SMALL

FAMILY = "ecp5"
TRACKS = range(1, 7)
"""Of a link, on the plane that is looked at; the other one has those of
the preset.
"""
PLANES = ("tile", "small")
HALF_PLACES = 1
"""Of the FIFO of a switch input that is half a beat wide."""
WIDTHS = (1, 2, 4)
"""Parts into which a beat of the tile plane is cut."""
PROGRAMS = (
    "swiglu",
    "simple_moe",
    "moe, dynamic",
    "moe, static",
    "moe, one region",
    "attention, dynamic",
)
PRICES = {f"price, {tracks} {plane}": (plane, tracks) for plane in PLANES for tracks in TRACKS}
NARROW = (8, 24)
"""Bits with which a switch is synthesised. Each bit of a beat takes the
same, so that a line leads to any other number of bits.
"""
CASES = (*PROGRAMS, *PRICES)


def machine(plane: str, tracks: int) -> Config:
    """The array with so many tracks on one plane."""
    config = load(SMALL)
    array = config.array
    assert array is not None
    return replace(config, array=replace(array, tracks={**array.tracks, plane: tracks}))


def halved(graph: UnitGraph, network: Network) -> UnitGraph:
    """A placed graph whose tile plane passes a beat every two cycles."""
    channels = [
        replace(c, depth=HALF_PLACES)
        if what == "switch" and network.inputs[at].plane == "tile"
        else c
        for c, (what, at, *_) in zip(graph.channels, graph.meta["array"]["channels"], strict=True)
    ]
    return replace(graph, channels=tuple(channels))


def _cycles(point: Point, graph: UnitGraph) -> tuple[int | None, Run | None]:
    """Cycles of a graph of a program, and the run; None: it does not end."""
    try:
        run = simulation.on_model(runs.with_graph(point, graph), values=False, trace=False)
    except DeadlockError:
        return None, None
    return int(run.cycles), run


def _row(name: str, plane: str, tracks: int) -> dict[str, Any]:
    """A program on an array with so many tracks."""
    case = LONG[name]
    row: dict[str, Any] = {"plane": plane, "tracks": tracks}
    try:
        placed = runs.placed(Point(case.program, machine(plane, tracks), case.params))
    except LoweringError as e:
        return row | {"lacks": e.what}
    mapping = placed.mapping
    point = placed.on_array()
    there, run = _cycles(point, point.graph)
    half, _ = _cycles(point, halved(point.graph, mapping.network))
    busiest = 0
    if run is not None:
        for c in point.graph.channels:
            unit = point.graph.units[c.dst[0]]
            link = link_of(unit.kind, unit.name)
            if link is not None and link.plane == "tile":
                busiest = max(busiest, run.shapes[c.id].count)
    return row | {
        "hops": mapping.hops,
        "detour": mapping.detour,
        "there": there,
        "half": half,
        "busiest": busiest,
    }


def _program(name: str) -> dict[str, Any]:
    case = LONG[name]
    own = simulation.on_model(Point(case.program, load(SMALL), case.params), False, False)
    rows = [_row(name, plane, tracks) for plane in PLANES for tracks in TRACKS]
    return {"own": int(own.cycles), "rows": rows}


def _price(plane: str, tracks: int) -> dict[str, Any]:
    """Cells of all switches of a plane, by width: each distinct one is
    synthesised once with each narrow beat.
    """
    look_at_parts()
    structure = Structure(machine(plane, tracks))
    whole = Shape.cast(beat_shape(plane, structure.machine.t)).width
    numbers = Counter((len(s.inputs), s.reach) for s in structure.switches if s.plane == plane)
    luts = []
    for bits in NARROW:
        made = [
            (SetSwitch(shape=unsigned(bits), inputs=inputs, reach=reach), number)
            for (inputs, reach), number in numbers.items()
        ]
        luts.append(sum(n * synthesise(switch, FAMILY).cost(FAMILY).lut for switch, n in made))
    each = (luts[1] - luts[0]) / (NARROW[1] - NARROW[0])
    rows = []
    for parts in WIDTHS if plane == "tile" else (1,):
        bits = -(-whole // parts)
        row = {"plane": plane, "tracks": tracks, "parts": parts, "bits": bits}
        rows.append(row | {"lut": round(luts[0] + each * (bits - NARROW[0]))})
    return {"narrow": luts, "rows": rows}


def run(case: str) -> dict:
    """A program on all these arrays, or the switches of one of them."""
    return _program(case) if case in PROGRAMS else _price(*PRICES[case])


def sources(case: str) -> Sources:
    """What a case depends on."""
    if case in PROGRAMS:
        program = f"workloads/{LONG[case].program}.py"
        return on_model("bench/made/tracks.py", program, "runs/array.py", preset(SMALL))
    roots = ("bench/made/tracks.py", "hw/array/set_switch.py", "hw/array/container.py")
    return Sources((*roots, preset(SMALL)), ("tb", "cli", "runs", "model", "scheduler"))


RECORD = Record("tracks", cases=lambda: CASES, run=run, sources=sources)
