"""Every listed graph on 1 to 256 PEs: the paper's reading, the best static PE and the best dynamic
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from ...machine.record import Record
from ...runs.progress import Progress
from ..core.dataflow import DataflowGraph
from ..core.ops import Op
from ..graphs.devices import DEVICES
from ..graphs.source import graph_from
from ..runs.comparison import compare, variants

MATRICES = (
    "lu:mna_s27.mtx",
    "lu:mna_s344.mtx",
    "lu:mna_c880.mtx",
    "lu:fpga_dcop_01.mtx",
    "lu:add20.mtx",
    "lu:circuit_1.mtx",
    "column:memplus.mtx.gz:17671:d=3",
    "column:circuit_1.mtx:2564:d=2,arrival",
    "column:circuit_1.mtx:2522:d=3",
    "column:memplus.mtx.gz:993:d=2,chains",
    "column:add20.mtx:2007:d=2,arrival",
)
LISTED = (*MATRICES, *(f"device:{name}" for name in DEVICES))
"""Graphs of the sweep; matrices by their name in the folder that is given."""

SIDES = (1, 2, 4, 8, 12, 16)
SIDES_LARGE = (1, 4, 16)
LARGE = 100_000
"""Sides of the square meshes; of graphs of more than LARGE nodes, whose placements take most of the
time.
"""

PLAIN = {"local": ["token"]}
FORWARD = {"pe": ["dynamic"], "local": ["forward"]}
"""The paper's reading; the dynamic PE that forwards results."""


@dataclass(frozen=True)
class Swept:
    """A graph and its records."""

    spec: str
    graph: DataflowGraph
    records: list[Record]


def listed(matrices: Path | None) -> list[tuple[str, DataflowGraph]]:
    """The listed graphs, without those whose matrix is not there; their titles are the
    specifications without folder.
    """

    found = []
    for spec in LISTED:
        kind, _, rest = spec.partition(":")
        if spec not in MATRICES:
            found.append((spec, graph_from(spec)))
        elif matrices is not None and (Path(matrices) / rest.partition(":")[0]).exists():
            found.append((spec, replace(graph_from(f"{kind}:{Path(matrices)}/{rest}"), title=spec)))
    return found


def sweep(
    graph: DataflowGraph,
    sides: Iterable[int] | None = None,
    seeds: Iterable[int] = (0,),
    progress: Progress | None = None,
) -> list[Record]:
    """The paper's reading placed for least cut (both kinds of PE alike), and the best PEs with the
    placement that suits them.
    """
    meshes = [(k, k) for k in sides or (SIDES if len(graph) <= LARGE else SIDES_LARGE)]
    seeds = list(seeds)
    return compare(
        graph, meshes, variants(PLAIN), seeds=seeds, objective="cut", progress=progress
    ) + compare(
        graph,
        meshes,
        variants({"pe": ["static"]}) + variants(FORWARD),
        seeds=seeds,
        objective="connectivity",
        progress=progress,
    )


def rows_of(spec: str, graph: DataflowGraph, records: Sequence[Record]) -> list[dict]:
    """One row per mesh: cycles of the paper's reading, of the best static and the best dynamic PE
    (medians over seeds), and dynamic over static.

    ``read``: nodes with fan-out; ``results``: operations whose results nobody reads.
    """
    statistics = graph.statistics
    unread = graph.fan_out == 0
    read = int(np.count_nonzero(~unread))
    results = int(np.count_nonzero(unread & (graph.op >= Op.ADD)))

    def cycles(mesh: str, **wanted) -> int:
        """Median over the seeds; 0 where there is no such run."""
        found = [
            r.cycles
            for r in records
            if r.params["mesh"] == mesh and all(r.params.get(k) == v for k, v in wanted.items())
        ]
        return round(median(found)) if found else 0

    rows = []
    for mesh in dict.fromkeys(r.params["mesh"] for r in records):
        k = int(mesh.partition("x")[0])
        dynamic = cycles(mesh, pe="dynamic", local="token")
        static = cycles(mesh, pe="static", objective="cut")
        least = min(static, cycles(mesh, pe="static", objective="connectivity"))
        best = cycles(mesh, pe="dynamic", local="forward")
        rows.append(
            {
                "graph": spec,
                "nodes": statistics.nodes,
                "edges": statistics.edges,
                "depth": statistics.depth,
                "read": read,
                "results": results,
                "PEs": k * k,
                "dynamic": dynamic,
                "static": static,
                "ratio": round(dynamic / static, 2),
                "best static": least,
                "best dynamic": best,
                "best ratio": round(best / least, 2),
            }
        )
    return rows
