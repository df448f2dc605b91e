"""Cycles of random programs on the model beside their lower bounds."""

from __future__ import annotations

from penstock.fuzz.campaign import Campaign, run_programs
from records import Record, on_model

CASES = 20
EACH = 500
"""Programs of a case; eight of a structure, as to draw one takes longer than to run it."""


def run(case: str) -> dict:
    """Some of the programs; the case is their seed."""
    found = Campaign()
    run_programs(found, EACH, int(case))
    below = [f.message for f in found.failures if "below the bound" in f.message]
    gaps = sorted(round(g, 4) for g in found.gaps)
    return {"rows": [{"programs": len(gaps), "below": below, "gaps": gaps}]}


RECORD = Record(
    "bounds",
    cases=lambda: [f"{seed:03}" for seed in range(1, CASES + 1)],
    run=run,
    sources=lambda case: on_model("bench/made/bounds.py", "fuzz/*.py"),
)
