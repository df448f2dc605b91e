"""The paper's figures in the timing `stepsim`, on the published traces."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from inputs import data
from penstock.figures import FIGURES, Runs, Traces, write
from penstock.runs.executors import named
from records import Record, on_model, preset

ROOMS = {"fig9": "tiling", "fig10": "tiling", "fig12": "multiplexing", "fig13": "multiplexing"}
"""The module of a figure's points; that of the others is `attention`."""


def run(name: str) -> dict:
    """One figure, with this machine's cycles."""
    with tempfile.TemporaryDirectory() as folder, named() as pool:
        write(FIGURES[name], Path(folder), Traces(data()), True, Runs(executor=pool))
        made = json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
    seconds = [s["ours"] for s in made["summary"] if s["what"].startswith("seconds")]
    own = {k: v for k, v in made.items() if k not in ("figure", "versions")}
    return own | {"cpu_s": round(sum(seconds), 1)}  # of the pool's processes


def sources(name: str):
    """Of one figure: its room, its program and its machine."""
    room = ROOMS.get(name, "attention")
    of = "moe" if name in ROOMS else "attention"
    return on_model(
        "figures/base.py",
        f"figures/{room}.py",
        "figures/published/*",
        f"workloads/published_{of}.py",
        preset(f"paper_{of}"),
    )


RECORD = Record(
    "figures",
    cases=lambda: FIGURES,
    run=run,
    sources=sources,
    needs=lambda case: [data("routing"), data("kv_lengths")],
)
