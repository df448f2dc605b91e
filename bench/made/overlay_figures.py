"""The overlay's figures 10 to 12 and its sweep, on the model."""

from __future__ import annotations

import csv
import shutil
import tempfile
from pathlib import Path

from inputs import data
from penstock.machine.record import load
from penstock.overlay import figures
from penstock.runs.progress import Progress
from records import RESULTS, Record, Sources

TABLES = ("cycles", "causes", "sweep")
PICTURES = {
    "fig10": "overlay_fig10",
    "fig11": "overlay_fig11",
    "fig12": "overlay_fig12",
    "overlay_causes": "overlay_causes",
    "overlay_sweep": "overlay_sweep",
}
SEEDS = 3
"""Placements a point."""


def run(_case: str) -> dict:
    """All tables, and the pictures beside the record."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures.write_all(folder, data("matrices"), SEEDS, Progress())
        for made, kept in PICTURES.items():
            shutil.copyfile(folder / f"{made}.png", RESULTS / f"{kept}.png")
        rows = []
        for table in TABLES:
            with (folder / f"overlay_{table}.csv").open(newline="", encoding="utf-8") as file:
                rows += [{"table": table} | row for row in csv.DictReader(file)]
        return {"assumptions": assumptions(folder / "overlay_records.json"), "rows": rows}


def assumptions(path: Path) -> str:
    """What the runs rest on, and whether their values are right."""
    records = load(path)
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
    # `runs/api.py` writes files here, and runs nothing.
    sources=lambda case: Sources(
        ("bench/made/overlay_figures.py", "overlay/figures.py", "overlay/published/*"),
        ("hw", "tb", "runs/api.py"),
    ),
    needs=lambda case: [data("matrices", "memplus.mtx.gz"), data("matrices", "circuit_1.mtx")],
)


def table(name: str) -> list[dict[str, str]]:
    """The stored rows of a table."""
    found = [dict(row) for row in RECORD.rows() if row["table"] == name]
    for row in found:
        del row["table"]
    return found
