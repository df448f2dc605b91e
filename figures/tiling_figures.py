"""Figures 9, 10, 19 and 20, and their pictures."""

from __future__ import annotations

import numpy as np

from .base import LEAST, MACHINE, Figure, plot_ranges
from .moe import MODELS, TITLES, on_demand
from .tiling import (
    EARLIER,
    as_plotted,
    improvement,
    kind_of,
    tiling,
    tiling_summary,
    traffic_summary,
)


def plot_tiling(fig, rows: list[dict]) -> None:
    """Cycles over on-chip memory, a column for each model."""
    ranged = any(LEAST in r for r in rows)
    axes = fig.subplots(1 + ranged, len(MODELS), height_ratios=[2, 1][: 1 + ranged], squeeze=False)
    for (top, *drawn), model in zip(axes.T, MODELS, strict=True):
        mine = [r for r in rows if r["model"] == model]
        for ax in drawn:
            plot_ranges(ax, mine, "tile")
        plot_plane(top, mine, model, "cycles", 1e6, "cycles (millions)")


def plot_traffic(fig, rows: list[dict]) -> None:
    """Off-chip traffic over on-chip memory, a column for each model."""
    for ax, model in zip(fig.subplots(1, len(MODELS)), MODELS, strict=True):
        mine = [r for r in rows if r["model"] == model and r["tile"] != EARLIER]
        plot_plane(ax, mine, model, "offchip_bytes", 1e9, "off-chip traffic (GB)")


def plot_plane(ax, rows: list[dict], model: str, column: str, unit: float, label: str) -> None:
    """A column over on-chip memory, with the distance of dynamic tiles."""
    for kind in TILE_STYLES:
        _plot_kind(ax, [r for r in rows if kind_of(r) == kind], kind, column, unit)
    known = [(_published_memory(r), r[f"step_{column}"]) for r in rows if f"step_{column}" in r]
    known = [(memory / 1e6, y / unit) for memory, y in known if memory]
    if known:
        style = {"markersize": 11, "fillstyle": "none", "color": "0.4", "label": "published"}
        ax.plot(*zip(*known, strict=True), "s", **style)
    _memory_axis(ax, [as_plotted(r) / 1e6 for r in rows])
    pid = improvement(rows, model, as_plotted, column)
    ax.margins(y=0.12)  # for the label of the highest point
    ax.set(
        title=f"{TITLES[model]}: Pareto Improvement Distance {pid:.2f}",
        ylabel=label,
        ylim=(0, None),
    )
    ax.legend(frameon=False, fontsize=9, loc="best")


def _published_memory(r: dict) -> int | None:
    return r.get("step_onchip_bytes") or r.get("step_onchip_active_bytes") or as_plotted(r)


TILE_STYLES = {
    "static": ("o-", "#3182bd", 6),
    "dynamic": ("*", "#e6550d", 13),
    EARLIER: ("x", "black", 7),
}
"""Marks of each kind of tiles in a picture: format, colour, size of the marker in points."""


def _plot_kind(ax, mine: list[dict], kind: str, column: str, unit: float) -> None:
    """Points of one kind of tiles, each with its rows of a tile, or `dynamic`; hollow ones are this
    machine's.
    """
    from matplotlib.patheffects import withStroke

    if not mine:
        return
    style, colour, size = TILE_STYLES[kind]
    memory = [as_plotted(r) / 1e6 for r in mine]
    values = [r[column] / unit for r in mine]
    ax.plot(
        memory,
        values,
        style,
        color=colour,
        markersize=size,
        label=kind if kind == EARLIER else f"{kind} tiles",
        zorder=3 if kind == EARLIER else 2,  # it may lie within a star
    )
    for x, y, r in zip(memory, values, mine, strict=True):
        ax.annotate(
            "earlier script" if kind == EARLIER else str(r["tile"]),
            (x, y),
            textcoords="offset points",
            xytext=(8, -12) if kind == EARLIER else (8, 6),
            fontsize=8,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
    if column == "cycles" and MACHINE in mine[0]:
        ax.plot(
            memory,
            [r[MACHINE] / 1e6 for r in mine],
            style.replace("-", ":"),
            color=colour,
            fillstyle="none",
            markersize=size,
            label=f"{kind} tiles, this machine",
        )


def _memory_axis(ax, at: list[float]) -> None:
    """A logarithmic axis in MB with a tick at every point, but for those too close to one before to
    be read.
    """
    ax.set_xscale("log")
    ticks = []
    for x in sorted(at):
        if not ticks or np.log(x / ticks[-1]) > 0.05 * np.log(max(at) / min(at)):
            ticks.append(x)
    ax.set_xticks(ticks, [f"{x:.0f}" if x >= 100 else f"{x:.1f}" for x in ticks])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("on-chip memory (MB, logarithmic)")


FIGURES = (
    Figure(
        "fig9",
        "Figure 9: performance and memory by tiling, batch 64",
        tiling(64),
        tiling_summary("fig9"),
        plot_tiling,
        on_demand,
        size=(11, 7),
    ),
    Figure(
        "fig10",
        "Figure 10: performance and memory by tiling, batch 1024",
        tiling(1024),
        tiling_summary("fig10"),
        plot_tiling,
        on_demand,
    ),
    Figure(
        "fig19",
        "Figure 19: off-chip traffic and memory by tiling, batch 64",
        tiling(64, machine=False),
        traffic_summary("fig19"),
        plot_traffic,
        on_demand,
    ),
    Figure(
        "fig20",
        "Figure 20: off-chip traffic and memory by tiling, batch 1024",
        tiling(1024, machine=False),
        traffic_summary("fig20"),
        plot_traffic,
        on_demand,
    ),
)
