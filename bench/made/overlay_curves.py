"""The overlay's figures 10 to 12, on the model: a case is a curve."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inputs import data
from penstock.machine.record import Record as Run
from penstock.overlay import figures
from penstock.runs.progress import Progress
from records import RESULTS, Record, of_overlay

CURVES = {f"figure {c.figure}: {c.name}": c for c in figures.CURVES}
SEEDS = 3
"""Placements a point."""


def run(case: str) -> dict:
    """The rows of a case, and what they rest on."""
    curve = CURVES[case]
    graph = figures.graph_of(curve, data("matrices"))
    runs = figures.measure(curve, graph, SEEDS, Progress())
    return {"rests": rests(runs), "rows": figures.rows_of(curve, graph, runs)}


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
    name = Path(CURVES[case].spec.partition(":")[2].partition(":")[0]).name
    return [data("matrices", name)] if ".mtx" in name else []


RECORD = Record(
    "overlay_curves",
    cases=lambda: CURVES,
    run=run,
    sources=lambda case: of_overlay(
        "bench/made/overlay_curves.py",
        "overlay/figures.py",
        "overlay/published/*",
        without=("hw", "tb"),
    ),
    needs=_file,
)


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
    if rows := RECORD.rows():
        figures.draw_curves(rows, {n: RESULTS / f"overlay_{n}.png" for n in figures.CURVED})
