"""The overlay's figures 10 to 12 and its sweep, on the model: a case is a curve of the figures, or
a graph of the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inputs import data
from penstock.machine.record import Record as Run
from penstock.overlay import figures, sweep
from penstock.runs.progress import Progress
from records import RESULTS, Record, Sources

CURVES = {f"figure {c.figure}: {c.name}": c for c in figures.CURVES}
SWEPT = {f"sweep: {spec}": spec for spec in sweep.LISTED}
TABLES = ("cycles", "causes", "sweep")
SEEDS = 3
"""Placements a point."""


def run(case: str) -> dict:
    """The rows of a case, and what they rest on."""
    matrices = data("matrices")
    progress = Progress()
    if case in SWEPT:
        (graph,) = (g for spec, g in sweep.listed(matrices, SWEPT[case]))
        runs = sweep.sweep(graph, progress=progress)
        made = {"sweep": sweep.rows_of(SWEPT[case], graph, runs)}
    else:
        curve = CURVES[case]
        graph = figures.graph_of(curve, matrices)
        runs = figures.measure(curve, graph, SEEDS, progress)
        made = {"cycles": figures.rows_of(curve, graph, runs)}
        if figures.taken_apart(curve, graph):
            taken = figures.causes(graph, SEEDS, progress)
            runs += taken
            made["causes"] = figures.cause_rows(curve, taken)
    rows = [{"table": name} | row for name, found in made.items() for row in found]
    return {"rests": rests(runs), "rows": rows}


def rests(runs: list[Run]) -> dict[str, Any]:
    """What runs rest on, and whether their values are right."""
    return {
        "formats": sorted({r.params["format"] for r in runs}),
        "alus": sorted({r.params["alu"] for r in runs}),
        "depths": sorted({r.params["fifo_depth"] for r in runs if "fifo_depth" in r.params}),
        "seeds": sorted({r.seed for r in runs}),
        "runs": len(runs),
        "right": sum(bool(r.values_ok) for r in runs),
    }


def _file(case: str) -> Iterable[Path]:
    """The matrix that a case is made of."""
    spec = SWEPT[case] if case in SWEPT else CURVES[case].spec
    name = Path(spec.partition(":")[2].partition(":")[0]).name
    return [data("matrices", name)] if ".mtx" in name else []


RECORD = Record(
    "overlay_figures",
    cases=lambda: [*CURVES, *SWEPT],
    run=run,
    # `runs/api.py` writes files here, and runs nothing.
    sources=lambda case: Sources(
        ("bench/made/overlay_figures.py", "overlay/figures.py", "overlay/published/*"),
        ("hw", "tb", "runs/api.py"),
    ),
    needs=_file,
)


def table(name: str) -> list[dict[str, Any]]:
    """The stored rows of a table."""
    found = [dict(row) for row in RECORD.rows() if row["table"] == name]
    for row in found:
        del row["table"]
    return found


def texts(rows: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """Rows as a page shows them."""
    return [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]


def assumptions() -> list[str]:
    """What the numbers rest on."""
    found = [entry["rests"] for entry in RECORD.entries()]

    def listed(key: str) -> str:
        return ", ".join(str(x) for x in sorted({x for rest in found for x in rest[key]}))

    total = sum(rest["runs"] for rest in found)
    right = sum(rest["right"] for rest in found)
    return [
        f"{listed('formats')}, {listed('alus')} ALU latency, a cycle per hop, router FIFOs "
        f"{listed('depths')} deep, memories sized per graph, placement seeds {listed('seeds')}.",
        f"{total} runs of the model; the values of {right} equal the NumPy reference bit for bit.",
    ]


def draw() -> None:
    """The pictures, from the record."""
    tables = {name: table(name) for name in TABLES}
    if not all(tables.values()):
        return
    names = {name: name if "overlay" in name else f"overlay_{name}" for name in figures.PICTURES}
    figures.draw(tables, {name: RESULTS / f"{kept}.png" for name, kept in names.items()})
