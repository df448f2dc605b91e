"""Placements of the static overlay for time beside those by cut and connectivity, and the floor.

    python bench/overlay_placement.py [--only TEXT ...]

A case is a graph on a mesh. `nox -s records -- overlay_placement`
renews the record that docs/overlay_results.md shows; matrices that do
not ship are looked for in PENSTOCK_DATA.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from statistics import median

import numpy as np
from clock import now
from inputs import matrix
from penstock.frontend.spice import graph_from
from penstock.machine.dataflow import DataflowGraph
from penstock.machine.errors import PenstockError
from penstock.machine.overlay import Overlay
from penstock.machine.token_ops import format_of
from penstock.model import overlay as model
from penstock.overlay.sweep import BEST, FORWARD, LISTED, MATRICES, PLAIN
from penstock.runs.tables import print_table
from penstock.scheduler.token import OBJECTIVES, Effort, Mapped, map_graph
from records import Record, of_overlay
from tables import frame

GENERATED = ("gen:ladder:60", "gen:ring:30", "gen:gates:60", "gen:gates:235")
LARGE = ("lu:add20.mtx", "lu:circuit_1.mtx")
GRAPHS = (*(g for g in reversed((*LISTED, *GENERATED)) if g not in LARGE), *LARGE)
SIDES = {False: (2, 4, 8, 12, 16), True: (4, 16)}
"""Of the square meshes; of graphs in LARGE."""
EFFORT = Effort(steps=400)
"""What *improved* is; of graphs in LARGE it is what is made without being asked."""
AIMS = {"4 PEs": 1.6, "16 PEs and more": 2.2}
"""Cycles over the floor that are aimed at, in the median."""
DYNAMIC = {"up to 64 PEs": 1.5}
"""Cycles of dynamic PEs over those of static ones that are aimed at, in the median."""


DYNAMIC_PES = (
    "paper cut",
    "paper time",
    "dynamic connectivity",
    "dynamic time",
    "forward connectivity",
    "forward time",
)
"""Of dynamic PEs and their placements: the paper's setting (FIFO, a token per edge), the best with
tokens alone, and the same with results forwarded.
"""
KINDS = {
    "paper": {k: v for k, v in PLAIN.items() if k != "sends"} | {"pe": ["dynamic"]},
    "dynamic": BEST,
    "forward": FORWARD,
}


def cases() -> list[str]:
    """Graphs with their meshes."""
    return [f"{graph} {k}x{k}" for graph in GRAPHS for k in SIDES[graph in LARGE]]


def file_of(graph: str) -> Path | None:
    """The matrix that a graph is made of."""
    return matrix(graph.split(":")[1]) if graph in MATRICES else None


@lru_cache(maxsize=1)
def graph_of(spec: str) -> DataflowGraph:
    """A listed graph."""
    if (file := file_of(spec)) is None:
        return graph_from(spec)
    kind, _, rest = spec.partition(":")
    _, colon, part = rest.partition(":")
    return graph_from(f"{kind}:{file}{colon}{part}")


def computes(mapped: Mapped) -> bool:
    """Whether an image has every value, and (static) the cycles of its schedule."""
    outcome = model.simulate(mapped.image)
    word = format_of(mapped.overlay.format).word
    wanted = mapped.graph.evaluate(fmt=mapped.overlay.format).view(word)
    right = np.array_equal(model.values(mapped.image, outcome), wanted.astype(np.uint64))
    return right and (mapped.schedule is None or outcome.cycles == mapped.schedule.length)


def run(case: str) -> dict:
    """One graph on one mesh."""
    spec, _, mesh = case.rpartition(" ")
    graph = graph_of(spec)
    side = int(mesh.partition("x")[0])
    static = Overlay(side, side, pe="static")
    map_graph(graph_from("expr:y = a + b"), static)  # loads compiled code
    begun = now()
    quick = map_graph(graph, static)
    taken = [round(end - start, 2) for end, start in zip(now(), begun, strict=True)]
    better = quick if spec in LARGE else map_graph(graph, static, effort=EFFORT)
    placed = {aim: map_graph(graph, static, objective=aim) for aim in OBJECTIVES}
    row = {
        "graph": spec,
        "nodes": len(graph),
        "edges": len(graph.edges),
        "PEs": side * side,
        **{aim: mapped.image.length for aim, mapped in placed.items()},
        "time": quick.image.length,
        "wall_s": taken[0],
        "cpu_s": taken[1],
        "improved": better.image.length,
        **vars(quick.floor),
        "floor": quick.floor.best,
        "by": quick.floor.by,
        "right": computes(quick) and computes(better),
    }
    # `time`: one placement for both kinds of PE, the better static one
    placed["time"] = better
    for name in DYNAMIC_PES:
        kind, aim = name.split()
        dynamic = Overlay(side, side, **{k: v[0] for k, v in KINDS[kind].items()})
        mapped = map_graph(graph, dynamic, objective=aim, pe=placed[aim].pe)
        row[name] = model.simulate(mapped.image).cycles
        row["right"] &= computes(mapped)
    check(case, row)
    return {"rows": [row]}


def check(case: str, row: dict) -> None:
    """Refuse a case that contradicts itself.

    Raises
    ------
    PenstockError
        A value is wrong, or more effort took more cycles, or fewer than the floor.

    """
    if not row["right"]:
        raise PenstockError("a value or the cycles of a schedule are wrong", case)
    if not row["floor"] <= row["improved"] <= row["time"]:
        told = ", ".join(f"{name} {row[name]}" for name in ("floor", "improved", "time"))
        raise PenstockError(f"cycles are not in order: {told}", case)


RECORD = Record(
    "overlay_placement",
    cases=cases,
    run=run,
    sources=lambda case: of_overlay(
        "bench/overlay_placement.py",
        "scheduler/token/*.py",
        "model/overlay/*.py",
        without=("hw", "tb", "overlay/comparison.py"),
    ),
    needs=lambda case: filter(None, [file_of(case.rpartition(" ")[0])]),
)


def groups(rows: list[dict]) -> Iterator[tuple[str, list[dict]]]:
    """The rows of each aim."""
    yield "4 PEs", [r for r in rows if r["PEs"] == 4]
    yield "16 PEs and more", [r for r in rows if r["PEs"] >= 16]


def beside() -> str:
    """Dynamic over static cycles by the size of the mesh, in the median."""
    ways = DYNAMIC_PES
    lines = []
    meshes = {f"{k * k}": (k * k, k * k) for k in SIDES[False]}
    meshes |= dict.fromkeys(DYNAMIC, (4, 64))
    for name, (least, most) in meshes.items():
        rows = [r for r in RECORD.rows() if least <= r["PEs"] <= most and ways[-1] in r]
        if rows:
            best = [min(r[w] for w in ways[-2:]) / r["improved"] for r in rows]
            over = [f"{median(r[w] / r['improved'] for r in rows):.2f}" for w in ways]
            spread = f"{min(best):.2f} to {max(best):.2f}"
            aim = str(DYNAMIC.get(name, ""))
            lines.append([name, str(len(rows)), *over, f"{median(best):.2f}", spread, aim])
    header = ("PEs", "runs", *ways, "better", "better, range", "aim")
    return frame(header, lines, [i > 0 for i in range(len(header))])


def placement() -> str:
    """Every graph on every mesh."""
    keys = ("PEs", "connectivity", "cut", "time", "improved", "floor", "by")
    header = ("graph", *keys, "over floor", "over connectivity", "CPU s", *DYNAMIC_PES)
    rows = [
        [
            r["graph"],
            *(str(r.get(k, "")) for k in keys),
            f"{r['improved'] / r['floor']:.2f}",
            f"{r['improved'] / r['connectivity']:.2f}",
            str(r["cpu_s"]),
            *(str(r.get(k, "")) for k in DYNAMIC_PES),
        ]
        for r in RECORD.rows()
    ]
    return frame(header, rows, [i > 0 for i in range(len(header))])


def aims() -> str:
    """Medians over graphs and meshes, beside what is aimed at."""
    header = (
        "PEs",
        "runs",
        "aim over floor",
        "time over floor",
        "improved over floor",
        "connectivity over floor",
        "improved over connectivity",
        "worst",
        "values and cycles right",
    )
    lines = []
    for name, rows in groups(RECORD.rows()):
        if not rows:
            continue
        old = [r["improved"] / r["connectivity"] for r in rows]
        lines.append(
            [
                name,
                str(len(rows)),
                str(AIMS[name]),
                *(
                    f"{median(r[way] / r['floor'] for r in rows):.2f}"
                    for way in ("time", "improved", "connectivity")
                ),
                f"{median(old):.2f}",
                f"{max(old):.2f}",
                f"{sum(r['right'] for r in rows)} of {len(rows)}",
            ]
        )
    return frame(header, lines, [i > 0 for i in range(len(header))])


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", action="append", metavar="TEXT", help="cases that contain TEXT")
    args = p.parse_args()
    wanted = [c for c in cases() if any(text in c for text in args.only or [""])]
    there = [c for c in wanted if all(path.exists() for path in RECORD.needs(c))]
    rows = []
    for case in there:
        rows += run(case)["rows"]
        print(f"{case}: {rows[-1]['improved']} cycles", flush=True)
    print_table(rows)
    return int(not all(r["right"] and r["floor"] <= r["improved"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
