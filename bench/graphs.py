"""Builds dataflow graphs of every kind and prints their counts, times and numeric errors; exit 1 on
a missed target.

    python bench/graphs.py [--matrices DIR] [--json OUT]

DIR is the folder `matrices` in the one that PENSTOCK_DATA names, else what ships. Matrices that
are not there are left out. docs/dataflow_graphs.md has the table of the record
docs/results/graphs.json.
The target: the LU of circuit_1 (2,624 rows, 0.7 million nodes) is built from its file in less than
30 s.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from inputs import matrices
from penstock.frontend.spice import graph_from
from penstock.frontend.spice.devices import DEVICES, device_graph, equations, table
from penstock.runs.tables import print_table
from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
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
RECORD = ROOT / "docs" / "results" / "graphs.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--matrices", type=Path, default=matrices(), metavar="DIR")
    parser.add_argument("--json", help="write the rows here")
    args = parser.parse_args()
    files = [(f"lu:{args.matrices / f}", f"lu:{f}") for f in LU] + [
        (f"column:{args.matrices / f}", f"column:{f}") for f in COLUMNS
    ]
    specs = [(spec, name) for spec, name in files if Path(spec.split(":")[1]).exists()] + [
        (s, s) for s in (*(f"device:{d}" for d in DEVICES), *OTHERS)
    ]
    rows = []
    missed = False
    for spec, name in specs:
        start = time.perf_counter()
        graph = graph_from(spec)
        built = time.perf_counter()
        single = graph.evaluate()
        evaluated = time.perf_counter()
        s = graph.statistics
        rows.append(
            {
                "graph": name,
                "nodes": s.nodes,
                "edges": s.edges,
                "depth": s.depth,
                "max_fan_out": s.max_fan_out,
                "build_s": round(built - start, 2),
                "evaluate_s": round(evaluated - built, 3),
                "max_rel_err": error(name, graph, single),
            }
        )
        missed |= TARGET[0] in name and name.startswith("lu:") and built - start > TARGET[1]
    if args.json:
        write_text(Path(args.json), json.dumps(rows, indent=1) + "\n")
    print_table(
        [
            {k: "-" if v is None else f"{v:.1e}" if k == "max_rel_err" else v for k, v in r.items()}
            for r in rows
        ],
        "Dataflow graphs",
    )
    return int(missed)


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/dataflow_graphs.md."""
    return {"devices": table, "factorisations": factorisations}


def factorisations() -> str:
    """Counts of the listed matrices and columns, from the record."""
    keys = ("nodes", "edges", "depth", "max_fan_out")
    rows = [
        [f"`{r['graph']}`", *(str(r[k]) for k in keys)]
        for r in json.loads(RECORD.read_text(encoding="utf-8"))
        if r["graph"].startswith(("lu:", "column:"))
    ]
    header = ("graph", "nodes", "edges", "depth", "largest fan-out")
    return frame(header, rows, (False, True, True, True, True))


def error(name: str, graph, single: np.ndarray) -> float | None:
    """Largest error of the fp32 outputs: of factorisations against the same graph in fp64, relative
    to the largest output; of a device at random biases against its equations in float64, relative
    to the value (or 1e-3 of the typical one).
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
