"""Figures 9, 10, 19 and 20, and their pictures."""

from __future__ import annotations

import numpy as np

from .base import LEAST, MACHINE, Figure, plot_ranges
from .moe import MODELS, TITLES, on_demand
from .tiling import PRESENT, as_plotted, improvement, kind_of, tiling, tiling_summary


def plot_tiling(fig, rows: list[dict]) -> None:
    """Cycles over on-chip memory, and off-chip traffic (figures 19 and 20), a column for each
    model.
    """
    ranged = any(LEAST in r for r in rows)
    axes = fig.subplots(2 + ranged, len(MODELS), height_ratios=[2, 1, 1][: 2 + ranged])
    for (top, low, *drawn), model in zip(axes.T, MODELS, strict=True):
        mine = [r for r in rows if r["model"] == model]
        for ax in drawn:
            plot_ranges(ax, mine, "tile")
        for kind in TILE_STYLES:
            _plot_kind(top, [r for r in mine if kind_of(r) == kind], kind)
        known = [r for r in mine if "step_cycles" in r]
        if known:
            memory = [
                r["step_onchip_bytes" if "step_onchip_bytes" in r else "step_onchip_active_bytes"]
                for r in known
            ]
            top.plot(
                [m / 1e6 for m in memory],
                [r["step_cycles"] / 1e6 for r in known],
                "s",
                markersize=11,
                fillstyle="none",
                color="0.4",
                label="published",
            )
        _memory_axis(top, [as_plotted(r) / 1e6 for r in mine])
        pid = improvement(rows, model, as_plotted)
        top.margins(y=0.12)  # for the label of the highest point
        top.set(
            title=f"{TITLES[model]}: Pareto Improvement Distance {pid:.2f}",
            ylabel="cycles (millions)",
            ylim=(0, None),
        )
        top.legend(frameon=False, fontsize=9, loc="best")
        moved = [r for r in mine if r["tile"] != PRESENT]
        low.bar(
            [str(r["tile"]) for r in moved],
            [r["offchip_bytes"] / 1e9 for r in moved],
            color=[TILE_STYLES[kind_of(r)][1] for r in moved],
        )
        low.set(xlabel="rows of a tile", ylabel="off-chip traffic (GB)")


TILE_STYLES = {
    "static": ("o-", "#3182bd", 6),
    "dynamic": ("*", "#e6550d", 13),
    PRESENT: ("x", "black", 7),
}
"""How a picture draws each kind of tiles: format, colour, size of the marker in points."""


def _plot_kind(ax, mine: list[dict], kind: str) -> None:
    """Points of one kind of tiles, each with its rows of a tile, or `dynamic`; hollow ones are this
    machine's.
    """
    from matplotlib.patheffects import withStroke

    if not mine:
        return
    style, colour, size = TILE_STYLES[kind]
    memory = [as_plotted(r) / 1e6 for r in mine]
    cycles = [r["cycles"] / 1e6 for r in mine]
    ax.plot(
        memory,
        cycles,
        style,
        color=colour,
        markersize=size,
        label=kind if kind == PRESENT else f"{kind} tiles",
        zorder=3 if kind == PRESENT else 2,  # it may lie within a star
    )
    for x, y, r in zip(memory, cycles, mine, strict=True):
        ax.annotate(
            "present script" if kind == PRESENT else str(r["tile"]),
            (x, y),
            textcoords="offset points",
            xytext=(8, -12) if kind == PRESENT else (8, 6),
            fontsize=8,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
    if MACHINE in mine[0]:
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
        "Figures 9 and 19: dynamic tiling, batch 64",
        tiling(64),
        tiling_summary("fig9"),
        plot_tiling,
        on_demand,
        size=(11, 8),
    ),
    Figure(
        "fig10",
        "Figures 10 and 20: dynamic tiling, batch 1024",
        tiling(1024),
        tiling_summary("fig10"),
        plot_tiling,
        on_demand,
        size=(11, 8),
    ),
)
