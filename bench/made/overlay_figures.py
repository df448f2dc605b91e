"""The overlay's sweep and the causes of its ratios, on the model."""

from __future__ import annotations

from inputs import data
from penstock.machine.record import Record as Run
from penstock.overlay import figures
from penstock.runs.progress import Progress
from records import RESULTS, Record, of_overlay

TABLES = ("causes", "sweep")
SEEDS = 3
"""Placements a point."""


def run(_case: str) -> dict:
    """All tables, and the pictures beside the record."""
    made = figures.taken(data("matrices"), SEEDS, Progress())
    names = [RESULTS / f"overlay_{table}.png" for table in TABLES]
    figures.draw_causes(made.causes, names[0])
    figures.draw_sweep(made.sweep, names[1])
    rows = [
        {"table": table} | {k: "" if v is None else str(v) for k, v in row.items()}
        for table, found in zip(TABLES, (made.causes, made.sweep), strict=True)
        for row in found
    ]
    return {"assumptions": assumptions(made.records), "rows": rows}


def assumptions(records: list[Run]) -> str:
    """What the runs rest on, and whether their values are right."""
    seeds = sorted({r.seed for r in records})
    formats = {r.params["format"] for r in records}
    alus = {r.params["alu"] for r in records}
    depths = sorted({str(r.params["fifo_depth"]) for r in records if "fifo_depth" in r.params})
    right = (
        "all equal the NumPy reference bit for bit"
        if all(r.values_ok for r in records)
        else "DO NOT all equal the NumPy reference"
    )
    return (
        f"{', '.join(sorted(formats))}, {', '.join(sorted(alus))} ALU latency, a cycle per hop, "
        f"router FIFOs {', '.join(depths)} deep, "
        f"memories sized per graph, placement seeds {', '.join(map(str, seeds))}; {len(records)} "
        f"runs of the model, whose values {right}"
    )


RECORD = Record(
    "overlay_figures",
    cases=lambda: ["all"],
    run=run,
    sources=lambda case: of_overlay(
        "bench/made/overlay_figures.py",
        "overlay/figures.py",
        "overlay/published/*",
        without=("hw", "tb"),
    ),
    needs=lambda case: [data("matrices", "memplus.mtx.gz"), data("matrices", "circuit_1.mtx")],
)


def table(name: str) -> list[dict[str, str]]:
    """The stored rows of a table."""
    found = [dict(row) for row in RECORD.rows() if row["table"] == name]
    for row in found:
        del row["table"]
    return found
