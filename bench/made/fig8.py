"""Figure 8 on RTL: every point compared with the model, beat by beat."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from penstock.figures.fig8 import FIG8_CONFIG, FIG8_GRID
from penstock.runs import api
from records import Record, on_rtl, preset

POINTS = {f"{p['tile_b']} x {p['tile_inter']}": p for p in api.grid_points(FIG8_GRID)}


def run(case: str) -> dict:
    """The records of one point: the model's and the RTL's."""
    found = api.run("swiglu", FIG8_CONFIG, POINTS[case], on="both")
    return {"rows": [asdict(replace(r, units=[], channels=[], versions={})) for r in found]}


RECORD = Record(
    "fig8",
    cases=lambda: POINTS,
    run=run,
    sources=lambda case: on_rtl("bench/made/fig8.py", "workloads/swiglu.py", preset(FIG8_CONFIG)),
    path=Path(__file__).resolve().parents[2] / "figures" / "fig8_rtl.json",
)
