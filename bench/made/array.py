"""What programs take on an array, beside a fabric of their own: cycles
of the model, hops, tracks, and the time of the mapping.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from penstock.runs import array as runs
from penstock.scheduler.array.mapping import map_program
from penstock.scheduler.array.route import base_cost
from penstock.scheduler.array.steiner import least_tree
from records import Record, on_model, preset

SMALL = "array_small"
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "swiglu": (SMALL, "swiglu", dict(batch=64, dim=64, inter=128, tile_b=16, tile_inter=32)),
    "simple_moe": (SMALL, "simple_moe", dict(rows=128, dim=64, out=64)),
    "moe, dynamic": (SMALL, "moe", dict(inter=512, tokens=64, tile_rows=0)),
    "moe, static": (SMALL, "moe", dict(inter=256, tokens=128)),
    "moe, one region": (SMALL, "moe", dict(tokens=256, regions=1)),
    "attention, dynamic": (SMALL, "attention", dict(requests=16)),
    "moe, 8 experts": ("array_moe8", "moe", {}),
}
"""Array, program and parameters of each case."""


def longest_route(placed: runs.Placed) -> float:
    """The most links that a route takes, as a share of the least
    tree's.
    """
    mapping = placed.mapping
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


def run(case: str) -> dict:
    """One program."""
    array, program, params = CASES[case]
    placed = runs.place(program, array, params)
    start = time.process_time()
    mapping = map_program(placed.point.graph, placed.mapping.network.array)
    seconds = time.process_time() - start
    own, there = runs.run(placed, values=False)
    used = mapping.tracks_used()
    row = {
        "array": array,
        "units": len(placed.point.graph.units),
        "channels": len(placed.point.graph.channels),
        "own": own.cycles,
        "there": there.cycles,
        "hops": mapping.hops,
        "wires": len(mapping.placement.wires),
        "tile_tracks": max((n for (p, *_), n in used.items() if p == "tile"), default=0),
        "small_tracks": max((n for (p, *_), n in used.items() if p == "small"), default=0),
        "longest": longest_route(placed),
        "loop_hops": max((x.hops for x in mapping.loops()), default=0),
        "cpu_s": seconds,
    }
    return {"rows": [row]}


RECORD = Record(
    "array",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: on_model(
        "bench/made/array.py",
        f"workloads/{CASES[case][1]}.py",
        "runs/array.py",
        preset(CASES[case][0]),
    ),
)
