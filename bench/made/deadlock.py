"""Whether the published mixture of experts finishes on shallow
channels, by the size of a tile.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from penstock.runs.deadlock import Finding, find
from records import Record, on_model, preset

FOLDER = Path(__file__).resolve().parents[2] / "samples" / "files"
"""Where `penstock new traces` takes its files from."""
PARAMS = {"tokens": 1024, "trace": "traces/routing/qwen_b1024.npz"}
TILES = (16, 32, 64, 128, 256, 512, 1024)
DEPTH = 2


def run(case: str) -> dict:
    """One size of tile."""
    params = PARAMS | {"tile_rows": int(case)}
    with contextlib.chdir(FOLDER):
        (found,) = find("published_moe", "paper_moe", [params], timing="stepsim", depth=DEPTH)
    return {"rows": [{k: v for k, v in found.to_dict().items() if k != "versions"}]}


RECORD = Record(
    "deadlock",
    cases=lambda: [str(n) for n in TILES],
    run=run,
    sources=lambda case: on_model(
        "bench/made/deadlock.py", "workloads/published_moe.py", preset("paper_moe")
    ),
)


def findings() -> list[Finding]:
    """The stored findings."""
    return [Finding.from_dict(row | {"versions": {}}) for row in RECORD.rows()]
