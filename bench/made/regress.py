"""The designs of `penstock regress`, the deep ones too."""

from __future__ import annotations

from penstock.runs import regress
from records import Record, Sources, on_rtl, preset

DESIGNS = {d.name: d for d in regress.DESIGNS}


def run(name: str) -> dict:
    """All points of a design on model and RTL."""
    _, (*rows, _total) = regress.run(designs=(DESIGNS[name],), deep=True)
    return {"rows": rows}


def sources(name: str) -> Sources:
    """Of one design: its program and its machine."""
    design = DESIGNS[name]
    own = ("bench/made/regress.py", "runs/regress.py", f"workloads/{design.program}.py")
    return on_rtl(*own, preset(design.config))


RECORD = Record("regress", cases=lambda: DESIGNS, run=run, sources=sources)
