"""The overlay: its RTL against its model, and the curves of the published figures 10 to 12."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from inputs import SHIPPED, data
from measurements import MEASUREMENTS, Bench, Row
from penstock.overlay.runs.regression import SUITES, run
from penstock.overlay.studies import figures, resources
from penstock.runs.progress import Progress
from tables import chosen, framed, source

CASES = {case.name: case for cases in SUITES.values() for case in cases}
CURVES = {f"figure {c.figure}: {c.name}": c for c in figures.CURVES}
SEEDS = 3
"""Placements of a point."""


def cycles(name: str) -> list[Row]:
    """Graphs on one build of the RTL, one after the other, without a reset in between."""
    case = CASES[name]
    ran = run(case, SHIPPED / "matrices")
    return [{"suite": case.suite} | ran_row(vars(x) | {"equal": x.equal}) for x in ran]


def ran_row(outcome: Row) -> Row:
    return {k: outcome[k] for k in ("graph", "cycles", "writes", "tokens", "equal")}


def curve(case: str) -> list[Row]:
    """The points of a curve on the model, beside the published cycles."""
    of = CURVES[case]
    graph = figures.graph_of(of, data("matrices"))
    runs = figures.measure(of, graph, SEEDS, Progress())
    right = sum(bool(r.values_ok) for r in runs)
    rows = figures.rows_of(of, graph, runs)
    return [curve_row(row) | {"runs": len(runs), "right": right} for row in rows]


def curve_row(row: dict[str, Any]) -> Row:
    kept = ("figure", "graph", "ours", "nodes", "edges", "depth", "PEs", "dynamic homogeneous")
    kept = (*kept, "static homogeneous", "dynamic specialised", "static specialised")
    kept = (*kept, "dynamic time", "forward time", "static time", "published dynamic")
    kept = (*kept, "published static", "ratio", "published ratio")
    return {k: row[k] for k in kept if row.get(k) is not None}


def draw(folder: Path) -> None:
    """The pictures of the stored curves."""
    rows = MEASUREMENTS["overlay_figures"].rows()
    figures.draw_curves(rows, {n: folder / f"overlay_{n}.png" for n in figures.CURVED})


CLOCKED = {"group": "overlay", "speed": "6", "variant": ["no ALU", "forward"]}
"""Tiles without ALU at grade 6, and of forwarding ones the PE."""


def in_time() -> list[Row]:
    """The points in microseconds."""
    of = chosen("clocks", CLOCKED)
    mhz = {r["name"].split()[0] if r["variant"] == "no ALU" else "forward": r["mhz"] for r in of}
    return figures.in_time(MEASUREMENTS["overlay_figures"].rows(), mhz)


def table(rows: list[Row], of: dict[str, Row]) -> str:
    """Rows that are made of measurements, in Markdown, with date, commit and command of each."""
    cells = [
        ["" if x is None else x if x == str(x) else f"{x:,}" for x in r.values()] for r in rows
    ]
    told = " ".join(source(name, chosen(name, where)) for name, where in of.items())
    return f"{framed(list(rows[0]), cells)}\n\n{told}"


def blocks(page: str) -> dict[str, Callable[[], str]]:
    """Blocks of a page that are made of measurements by more than a template."""
    time = {"overlay_figures": {}, "clocks": CLOCKED}
    xc7 = {"overlay_resources": {"family": "xc7"}}
    return {
        "docs/overlay_results.md": {
            "time": lambda: table(figures.shortest(in_time()), time),
            "concluded in time": lambda: table(figures.conclusion(in_time()), time),
        },
        "docs/overlay_resources.md": {
            "zynq": lambda: table(
                resources.fits(chosen("overlay_resources", {"family": "xc7"})), xc7
            )
        },
    }.get(page, {})


CYCLES = Bench(lambda: CASES, cycles)
FIGURES = Bench(lambda: CURVES, curve)
