"""Builds dataflow graphs of every kind and prints their counts, times
and numeric errors; exit 1 on a missed target.

    python bench/graphs.py

Matrices that do not ship and are not in the folder that PENSTOCK_DATA
names are left out. docs/dataflow_graphs.md has the table of the record
docs/results/graphs.json. The target: the LU of circuit_1 (2,624 rows,
0.7 million nodes) is built from its file in less than 30 s.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from inputs import matrix
from penstock.frontend.spice import graph_from
from penstock.frontend.spice.devices import DEVICES, device_graph, equations, table
from penstock.runs.tables import print_table
from records import Record, Sources
from tables import frame

LU = (
    "mna_s27.mtx",
    "mna_s344.mtx",
    "mna_c880.mtx",
    "fpga_dcop_01.mtx",
    "add20.mtx",
    "circuit_1.mtx",
)
COLUMNS = (
    "memplus.mtx.gz:17671:d=3,balanced",
    "circuit_1.mtx:2564:d=2,arrival",
    "circuit_1.mtx:2522:d=3,balanced",
    "add20.mtx:2007:d=2,arrival",
)
OTHERS = (
    "gen:ladder:1000",
    "gen:ring:301",
    "gen:gates:1000",
    "step:swiglu,t=4",
    "step:swiglu,t=4,silu=spelled",
    "device:mos*16",
)
TARGET = ("circuit_1", 30.0)


def cases() -> list[str]:
    """Names of all graphs; those of matrices without their folder."""
    devices = [f"device:{d}" for d in DEVICES]
    return [*(f"lu:{f}" for f in LU), *(f"column:{f}" for f in COLUMNS), *devices, *OTHERS]


def files(case: str) -> list[Path]:
    """The matrix that a graph is made of."""
    kind, _, rest = case.partition(":")
    return [matrix(rest.partition(":")[0])] if kind in ("lu", "column") else []


def run(case: str) -> dict:
    """Build and evaluate one graph."""
    kind, _, rest = case.partition(":")
    name, colon, part = rest.partition(":")
    spec = f"{kind}:{matrix(name)}{colon}{part}" if files(case) else case
    start = time.perf_counter()
    graph = graph_from(spec)
    built = time.perf_counter()
    single = graph.evaluate()
    evaluated = time.perf_counter()
    s = graph.statistics
    row = {
        "graph": case,
        "nodes": s.nodes,
        "edges": s.edges,
        "depth": s.depth,
        "max_fan_out": s.max_fan_out,
        "build_s": round(built - start, 2),
        "evaluate_s": round(evaluated - built, 3),
        "max_rel_err": error(case, graph, single),
    }
    return {"rows": [row]}


RECORD = Record(
    "graphs",
    cases=cases,
    run=run,
    sources=lambda case: Sources(("bench/graphs.py", "workloads/swiglu.py"), ("hw", "tb", "runs")),
    needs=files,
)


def main() -> int:
    there = [case for case in cases() if all(path.exists() for path in files(case))]
    rows = [row for case in there for row in run(case)["rows"]]
    print_table(
        [
            {k: "-" if v is None else f"{v:.1e}" if k == "max_rel_err" else v for k, v in r.items()}
            for r in rows
        ],
        "Dataflow graphs",
    )
    large = [r for r in rows if r["graph"].startswith("lu:") and TARGET[0] in r["graph"]]
    return int(any(r["build_s"] > TARGET[1] for r in large))


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/dataflow_graphs.md."""
    return {"devices": table, "factorisations": factorisations}


def factorisations() -> str:
    """Counts of the listed matrices and columns, from the record."""
    keys = ("nodes", "edges", "depth", "max_fan_out")
    rows = [
        [f"`{r['graph']}`", *(str(r[k]) for k in keys)]
        for r in RECORD.rows()
        if r["graph"].startswith(("lu:", "column:"))
    ]
    header = ("graph", "nodes", "edges", "depth", "largest fan-out")
    return frame(header, rows, (False, True, True, True, True))


def error(name: str, graph, single: np.ndarray) -> float | None:
    """Largest error of the fp32 outputs: of factorisations against the
    same graph in fp64, relative to the largest output; of a device at
    random biases against its equations in float64, relative to the
    value (or 1e-3 of the typical one).
    """
    if name.startswith("device:") and "*" not in name:
        eq = equations(name[7:])
        x = eq.random_biases(np.random.default_rng(0), 1000)
        got = device_graph(name[7:])
        got = got.results(got.evaluate(x))
        return max(
            float((np.abs(got[k] - w) / (np.abs(w) + 1e-3 * np.median(np.abs(w)))).max())
            for k, w in eq.reference(x).items()
        )
    if name.startswith(("lu:", "column:", "gen:")):
        wide = graph.evaluate(fmt="fp64")
        out = list(graph.outputs)
        return float(np.abs(single[out] - wide[out]).max() / np.abs(wide[out]).max())
    return None


if __name__ == "__main__":
    sys.exit(main())
