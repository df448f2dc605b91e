"""Figure 8 on RTL, with both memories: every point compared with the
model, beat by beat.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from penstock.figures.fig8 import FIG8_CONFIG, FIG8_GRID, HBM2_CONFIG
from penstock.runs import api
from records import Record, on_rtl, preset

CASES = {
    f"{p['tile_b']} x {p['tile_inter']}{what}": (config, p)
    for config, what in ((FIG8_CONFIG, ""), (HBM2_CONFIG, " hbm2"))
    for p in api.grid_points(FIG8_GRID)
}


def run(case: str) -> dict:
    """The records of one point: the model's and the RTL's."""
    config, params = CASES[case]
    found = api.run("swiglu", config, params, on="both")
    return {"rows": [asdict(replace(r, units=[], channels=[], versions={})) for r in found]}


RECORD = Record(
    "fig8",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: on_rtl(
        "bench/made/fig8.py", "workloads/swiglu.py", preset(CASES[case][0])
    ),
    path=Path(__file__).resolve().parents[2] / "figures" / "fig8_rtl.json",
)
