"""Crossover of static, hybrid and dynamic PEs over the size of a graph, its share of conditional
work, and the context memory.

Everything drawn is in the CSV file beside the picture. The published study ends with what it is
for: "a quantitative basis for the design of a hybrid dataflow architecture that combines both
static and dynamic scheduling techniques" (DFM 2014, section VI).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...machine.errors import ConfigError
from ...runs.progress import Progress
from ...runs.tables import to_csv
from ...scheduler.token import map_graph
from ...system.output import StrPath, folder, write_picture, write_text
from ...testing.token_graphs import random_choices
from ..core.config import Overlay
from ..runs.comparison import run

COLOURS = {"static": "#3182bd", "hybrid": "#2ca25f", "dynamic": "#de2d26"}
KINDS = {"static": {"pe": "static"}, "hybrid": {"pe": "hybrid"}, "dynamic": {"local": "forward"}}
MESH = Overlay(rows=2, cols=2, alu="pipelined")
NODES = 1200
WIDTH = 72
SHARE = 0.7
REGIONS = 2


@dataclass(frozen=True)
class Axis:
    """A quantity that is varied, the others at their middle."""

    name: str
    values: tuple[float, ...]
    label: str


AXES = (
    Axis("nodes", (150, 300, 600, 1200, 2400), "operations of the graph"),
    Axis("share", (0.1, 0.3, 0.5, 0.7, 0.9), "share of operations in conditional regions"),
    Axis("contexts", (64, 128, 256, 512, 1024, 2048), "words of the context memory"),
)


def rows(seeds: Iterable[int], progress: Progress) -> list[dict[str, Any]]:
    """Cycles by axis, value, seed and kind of PE, each on its better placement; of static PEs None
    where the schedule does not fit.
    """
    seeds = list(seeds)
    found: list[dict[str, Any]] = []
    progress.plan(sum(len(axis.values) for axis in AXES) * len(seeds))
    for axis in AXES:
        for value in axis.values:
            for seed in seeds:
                at = {"nodes": NODES, "share": SHARE} | {axis.name: value}
                graph = random_choices(int(at["nodes"]), REGIONS, at["share"], seed, WIDTH)
                words = dict.fromkeys(("context", "switch"), int(at.get("contexts", 0)))
                known: dict = {}
                for kind, settings in KINDS.items():
                    overlay = replace(MESH, **settings)
                    if "contexts" in at and kind != "dynamic":
                        overlay = replace(overlay, memories=words)
                    one = {"axis": axis.name, "value": value, "seed": seed, "PE": kind}
                    found.append(one | _measured(graph, overlay, known))
                progress.done(f"{axis.name} {value:g}, seed {seed}")
    return found


def _measured(graph, overlay: Overlay, known: dict) -> dict[str, Any]:
    """Cycles and shares of a graph on an overlay."""
    try:
        mapped = map_graph(graph, overlay, known=known)
    except ConfigError:  # a static schedule that the context memory has no room for
        return {"cycles": None, "contexts": None, "dynamic %": None}
    (record,) = run(mapped.graph, overlay, mapped=mapped)
    assert record.values_ok, "the model's values are the graph's"
    about = record.overlay or {}
    share = about["dynamic_share"]
    percent = None if share is None else round(100 * share, 1)
    return {"cycles": record.cycles, "contexts": about["context_words"], "dynamic %": percent}


def write(out: StrPath, seeds: Iterable[int], progress: Progress) -> tuple[list[Path], list[dict]]:
    """``overlay_crossover.csv`` and ``.png`` in a folder: paths, rows."""
    found = rows(seeds, progress)
    place = folder(out)
    table, picture = (place / f"overlay_crossover.{kind}" for kind in ("csv", "png"))
    write_text(table, to_csv(found))
    _draw(picture, found)
    return [table, picture], found


def _draw(path: Path, found: list[dict]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.4), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    for axis, axes in zip(AXES, figure.subplots(1, len(AXES)), strict=True):
        mine = [r for r in found if r["axis"] == axis.name]
        for kind, colour in COLOURS.items():
            points = []
            for value in axis.values:
                cycles = [r["cycles"] for r in mine if (r["PE"], r["value"]) == (kind, value)]
                if None not in cycles:
                    points.append((value, sum(cycles) / len(cycles)))
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=kind, markersize=4)
        if axis.name != "share":
            axes.set_xscale("log", base=2)
            axes.set_xticks(axis.values, [f"{v:g}" for v in axis.values])
            axes.minorticks_off()
        if axis.name == "nodes":
            axes.set_yscale("log")
            axes.set_ylabel("cycles")
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(axis.label)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(frameon=False)
    write_picture(path, figure)
