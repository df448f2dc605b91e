"""The paper's figures in the timing `stepsim`, on the published traces."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from inputs import data
from penstock.figures import FIGURES, Traces, moe, write
from records import Record, on_model, preset

OF_MOE = {figure.name for figure in moe.FIGURES}


def run(name: str) -> dict:
    """One figure, with this machine's cycles where its points finish."""
    with tempfile.TemporaryDirectory() as folder:
        write(FIGURES[name], Path(folder), Traces(data()), machine=True)
        made = json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
    return {k: v for k, v in made.items() if k not in ("figure", "versions")}


def sources(name: str):
    """Of one figure: its room, its program and its machine."""
    of = "moe" if name in OF_MOE else "attention"
    return on_model(
        "figures/base.py",
        f"figures/{of}.py",
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
