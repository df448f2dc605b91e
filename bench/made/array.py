"""What programs take on an array, beside a fabric of their own: cycles
of the model with two memories, hops, tracks, feedback loops, and the time
and the quality of the mapping.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from penstock.machine.config import Config, load
from penstock.machine.trace import Run
from penstock.runs import array as runs
from penstock.runs import simulation
from penstock.runs.point import Point
from penstock.scheduler.array.mapping import Mapping, map_program
from penstock.scheduler.array.route import base_cost
from penstock.scheduler.array.steiner import least_tree
from records import Record, on_model, preset

SMALL = "array_small"
MEMORIES = ("pipe", "ideal")
"""Of each program: that of the preset, and one without waits."""
LONGER = 10
"""Times the usual number of moves, of the mapping that the usual one is
held against.
"""


@dataclass(frozen=True)
class Case:
    """A program on an array."""

    array: str
    program: str
    params: dict[str, Any] = field(default_factory=dict)


CASES = {
    "swiglu": Case(SMALL, "swiglu", dict(batch=64, dim=64, inter=128, tile_b=16, tile_inter=32)),
    "swiglu, more rows": Case(
        SMALL, "swiglu", dict(batch=128, dim=32, inter=256, tile_b=32, tile_inter=16)
    ),
    "simple_moe": Case(SMALL, "simple_moe", dict(rows=128, dim=64, out=64)),
    "simple_moe, deeper": Case(SMALL, "simple_moe", dict(rows=64, dim=128, out=64)),
    "simple_moe, more rows": Case(SMALL, "simple_moe", dict(rows=256, dim=32, out=64)),
    "moe, dynamic": Case(SMALL, "moe", dict(inter=512, tokens=64, tile_rows=0)),
    "moe, static": Case(SMALL, "moe", dict(inter=256, tokens=128)),
    "moe, static, more tokens": Case(SMALL, "moe", dict(inter=256, tokens=256)),
    "moe, tiles of 8 rows": Case(SMALL, "moe", dict(inter=128, tokens=128, tile_rows=8)),
    "moe, one region": Case(SMALL, "moe", dict(tokens=256, regions=1)),
    "moe, dynamic, short": Case(SMALL, "moe", dict(inter=256, tokens=64, tile_rows=0)),
    "attention, coarse": Case(SMALL, "attention", dict(requests=32, parallel="coarse")),
    "attention, dynamic": Case(SMALL, "attention", dict(requests=16)),
    "attention, longer": Case(SMALL, "attention", dict(requests=16, most=96)),
    "attention, wider": Case(SMALL, "attention", dict(requests=16, head_dim=64)),
    "moe, 8 experts": Case("array_moe8", "moe"),
}


def machine(array: str, memory: str) -> Config:
    """An array with a kind of memory."""
    config = load(array)
    dram = replace(config.machine.dram, kind=memory)
    return replace(config, machine=replace(config.machine, dram=dram))


def longest_route(mapping: Mapping) -> float:
    """The most links that a route takes, as a share of the least
    tree's.
    """
    array = mapping.network.array
    cost = base_cost(array)
    nets = {n.src: n for n in mapping.nets}
    worst = 1.0
    for route in mapping.placement.routes:
        slots = mapping.placement.slots
        units = [route.src[0], *(leaf.dst[0] for leaf in nets[route.src].leaves)]
        places = [mapping.network.slots[slots[u]] for u in units]
        root, *ends = (p.row * array.cols + p.col for p in places)
        ends = [e for e in dict.fromkeys(ends) if e != root]
        if ends:
            used = np.zeros(len(cost), np.bool_)
            least = least_tree(root, np.array(ends, np.int64), cost, array.cols, used)
            worst = max(worst, (len(route.hops) - 1) / least)
    return worst


def slowest_loop(mapping: Mapping, own: Run) -> tuple[int, int]:
    """Hops and rounds of the feedback loop through switches whose product
    is the largest; a round takes a beat of each channel of the loop.
    """
    beats: dict[tuple[str, str], int] = {}
    units = mapping.program.units
    behind = {c.src[0]: c.id for c in mapping.program.channels}  # of a buffer
    for net in mapping.nets:
        for leaf in net.leaves:
            pair = (units[net.src[0]].name, units[leaf.dst[0]].name)
            new = leaf.channel >= len(own.shapes)
            count = own.shapes[behind[leaf.dst[0]] if new else leaf.channel].count
            beats[pair] = max(beats.get(pair, 0), count)
    found = [(0, 0)]
    for loop in mapping.loops():
        pairs = zip(loop.units, (*loop.units[1:], loop.units[0]), strict=True)
        found.append((loop.hops, min(beats[pair] for pair in pairs)))
    return max(found, key=lambda x: x[0] * x[1])


def _row(case: Case, memory: str) -> dict[str, Any]:
    """A program with a kind of memory."""
    placed = runs.placed(Point(case.program, machine(case.array, memory), case.params))
    mapping = placed.mapping
    own = simulation.on_model(placed.point, values=False, trace=False)
    there = simulation.on_model(placed.on_array(), values=False, trace=False)
    hops, rounds = slowest_loop(mapping, own)
    return {
        "memory": memory,
        "own": int(own.cycles),
        "there": int(there.cycles),
        "loops": sum(1 for x in mapping.loops() if x.hops),
        "loop_hops": hops,
        "rounds": rounds,
    }


def _mapped(case: Case) -> dict[str, Any]:
    """The mapping: its size, its time, and how good it is."""
    point = Point(case.program, load(case.array), case.params)
    array = point.config.array
    assert array is not None
    map_program(point.graph, array)  # compiles
    start = time.process_time()
    mapping = map_program(point.graph, array)
    seconds = time.process_time() - start
    longer = map_program(point.graph, array, effort=LONGER)
    used = mapping.tracks_used()
    return {
        "array": case.array,
        "units": len(point.graph.units),
        "channels": len(point.graph.channels),
        "hops": mapping.hops,
        "wires": len(mapping.placement.wires),
        "tile_tracks": max((n for (p, *_), n in used.items() if p == "tile"), default=0),
        "small_tracks": max((n for (p, *_), n in used.items() if p == "small"), default=0),
        "longest": longest_route(mapping),
        "cost": mapping.cost,
        "longer_cost": longer.cost,
        "cpu_s": seconds,
    }


def run(name: str) -> dict:
    """One program, with each kind of memory."""
    case = CASES[name]
    return {"rows": [_row(case, memory) for memory in MEMORIES], "mapping": _mapped(case)}


RECORD = Record(
    "array",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: on_model(
        "bench/made/array.py",
        f"workloads/{CASES[case].program}.py",
        "runs/array.py",
        preset(CASES[case].array),
    ),
)
