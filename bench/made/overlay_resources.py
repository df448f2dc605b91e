"""What the overlay's parts cost by family, by synthesis."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from penstock.cli.overlay_hardware import DENSITY_GRAPHS, DENSITY_MESHES
from penstock.cli.overlay_options import mesh_of
from penstock.hw.synthesis import cost
from penstock.overlay import resources
from penstock.overlay.parts import CAPACITY, FURTHER
from penstock.runs.progress import Progress
from records import RESULTS, Record, of_overlay
from silent import silent

FOLDER = RESULTS / "overlay_resources"
FAMILIES = ("xc7", "ecp5")
FORWARD = {f"forward {family}": family for family in FAMILIES}
"""What results forwarded cost, apart: it takes minutes, the others hours."""
STEPS = ("criticality per_pe", "criticality per_pe wake2", "criticality per_pe wake2 forward")
"""Dynamic PEs, each with more than the one before."""


def run(case: str) -> dict:
    """All tables, and the picture beside the record; or the PEs of
    STEPS alone.
    """
    return forward(FORWARD[case]) if case in FORWARD else every(case)


def forward(family: str) -> dict:
    """The costs of the PEs of STEPS."""
    parts = {part.variant: part for part in FURTHER}
    costs = {name: cost(parts[name].make(32, CAPACITY), family) for name in STEPS}
    return {"rows": [{"variant": name} | vars(found) for name, found in costs.items()]}


def every(family: str) -> dict:
    """All tables of a family, and its picture."""
    meshes = [mesh_of(mesh) for mesh in DENSITY_MESHES]
    with tempfile.TemporaryDirectory() as name:
        _, made = resources.write_all(Path(name), family, DENSITY_GRAPHS, meshes, Progress())
        (FOLDER / family).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(name, "resources.png"), FOLDER / family / "resources.png")
    return {
        "rows": [
            {"table": table} | row
            for table, title in resources.TABLES.items()
            for row in made.get(title, [])
        ]
    }


RECORD = Record(
    "overlay_resources",
    cases=lambda: [*FAMILIES, *FORWARD],
    run=run,
    # These parts are synthesised, not run; the rows have what the command line gives.
    sources=lambda case: silent(
        of_overlay(
            "bench/made/overlay_resources.py",
            "overlay/resources.py",
            "overlay/published/*",
            without=("tb", "cli"),
        )
    ),
)
