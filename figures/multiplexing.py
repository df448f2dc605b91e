"""Figures 12 and 13: a mixture-of-experts layer whose experts share regions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..machine.config import load
from ..machine.record import Record
from ..workloads.published_moe import streams
from .base import MACHINE, Figure, Summary, compared, timings
from .moe import CONFIG, MODELS, on_demand, work
from .points import DRAWS, Point
from .published import moe_regions
from .traces import Traces

REGIONS = (128, 64, 32, 16, 8, 4)
GAINED = 32
"""Regions of which the paper states gains."""
X_LABEL = "regions that 128 experts share"
BANDWIDTH = "bandwidth_used"
"""Column of the off-chip traffic a cycle, of the peak."""
REGION_BW = 1024
REGION_TILE = 32
REGION_INTER = 48
DEPTH = 256
"""Depth of this machine's channels, which hold physical tiles: few regions deadlock at less."""
OPERATORS = 5
"""Compute operators of a region (or expert), one more for each of the experts, one for the sum."""


STATIC = "static 32"
DYNAMIC = "dynamic"


def fig12(traces: Traces) -> list[Point]:
    """Static tiles and dynamic ones."""
    return [point_of(traces, tile, n) for tile in (STATIC, DYNAMIC) for n in REGIONS]


def fig13(traces: Traces) -> list[Point]:
    """Static tiles, as in figure 12."""
    return [point_of(traces, STATIC, regions) for regions in REGIONS]


def point_of(traces: Traces, tile: str, regions: int) -> Point:
    """The layer with so many regions."""
    config = load(CONFIG)
    rows = REGION_TILE if tile == STATIC else 0
    published = {}
    if rows and traces.folder:
        known = moe_regions()[regions]
        published = {
            "cycles": known["cycles"],
            "onchip_active_bytes": known["onchip_bytes"],
            "utilisation": known["utilisation"] / 100,
        }
    return Point(
        "published_moe",
        replace(config, machine=replace(config.machine, channel_depth=DEPTH)),
        {
            **MODELS["qwen"],
            "tokens": 64,
            "tile_inter": REGION_INTER,
            "tile_rows": rows,
            "compute_bw": REGION_BW,
            "regions": regions if regions < MODELS["qwen"]["experts"] else 0,
            **traces.routing("qwen", 64),
        },
        {"trace": traces.routing_name("qwen", 64), "tile": tile, "regions": regions},
        published=published,
        draws=DRAWS if published else 0,
        work=work("qwen", 64, rows),
    )


def utilisation(p: Point, r: Record) -> dict:
    """FLOP a cycle, of those that all operators could do.

    They are counted as the published scripts do, to which a SiLU costs 8 FLOP for each element of
    the *product* behind it: 14/6 of ours.
    """
    allocated = REGION_BW * (OPERATORS * p.at["regions"] + MODELS["qwen"]["experts"] + 1)
    (chosen,) = streams(p.seed, **p.params)["chosen"]
    tokens = np.bincount(np.ravel(chosen), minlength=p.params["experts"])
    rows = sum(
        -(-tokens // p.params["tile_rows"]) * p.params["tile_rows"]
        if p.params["tile_rows"]
        else tokens
    )
    counted = int(rows) * p.params["inter"] * (14 * p.params["dim"] + 1)
    return {
        **on_demand(p, r),
        "flops": r.flops,
        "allocated_flops_per_cycle": allocated,
        "utilisation": counted / r.cycles / allocated,
        BANDWIDTH: (r.offchip_bytes or 0) / r.cycles / p.config.machine.dram.bytes_per_cycle,
    }


def fig12_summary(rows: list[dict]) -> Summary:
    """Gains of 32 regions over a region for each expert, by the kind of tiles."""
    out = []
    flops = {}
    for panel, tile in (("a", STATIC), ("b", DYNAMIC)):
        at = {r["regions"]: r for r in rows if r["tile"] == tile}
        alone, shared = at[REGIONS[0]], at[GAINED]
        flops[tile] = alone["flops"]
        gained = shared["utilisation"] / alone["utilisation"]
        out.append(compared("fig12", f"({panel}) utilisation gained, {tile} tiles", gained))
        out += [
            compared("fig12", f"({panel}) cycles added, {tile} tiles{timing}", more)
            for cycles, timing in timings(rows)
            for more in [shared[cycles] / alone[cycles] - 1]
        ]
    more = flops[STATIC] / flops[DYNAMIC]
    return [*out, compared("fig12", "FLOPs of static tiles over dynamic ones", more)]


def fig13_summary(rows: list[dict]) -> Summary:
    """Savings of 32 regions, and the bandwidth that each number of regions uses."""
    at = {r["regions"]: r for r in rows}
    alone, shared = at[REGIONS[0]], at[GAINED]
    saved = (("compute", "allocated_flops_per_cycle"), ("on-chip memory", "onchip_active_bytes"))
    return [
        compared("fig13", f"{what} saved", 1 - shared[column] / alone[column])
        for what, column in saved
    ] + [compared("fig13", f"bandwidth used, {r['regions']} regions", r[BANDWIDTH]) for r in rows]


def plot_fig12(fig, rows: list[dict]) -> None:
    """Utilisation (bars) and cycles (lines), a panel for each kind of tiles."""
    for ax, panel, tile in zip(fig.subplots(1, 2), "ab", (STATIC, DYNAMIC), strict=True):
        mine = [r for r in rows if r["tile"] == tile]
        bars(ax, mine, "utilisation", "compute used (%)", 0.01)
        ax.set_title(f"({panel}) {tile} tiles", fontsize=10)
        lines(ax, mine, "cycles", "cycles (millions)", 1e6)
        ax.legend(frameon=False, fontsize=9, loc="upper center")


def plot_fig13(fig, rows: list[dict]) -> None:
    """(a) cycles beside memory and compute, (b) cycles beside bandwidth."""
    left, right = fig.subplots(1, 2)
    names = [r["regions"] for r in rows]
    for column, colour, label in (
        ("onchip_active_bytes", "#e6550d", "on-chip memory"),
        ("allocated_flops_per_cycle", "#31a354", "allocated compute"),
    ):
        share = [100 * r[column] / rows[0][column] for r in rows]
        left.plot(range(len(rows)), share, "o-", color=colour, label=label)
    left.set(ylabel=f"of {names[0]} regions (%)", ylim=(0, None), title="(a)")
    left.set_xticks(range(len(rows)), names)
    left.set_xlabel(X_LABEL)
    bars(right, rows, BANDWIDTH, "off-chip bandwidth used (%)", 0.01)
    right.set_title("(b)")
    for ax in (left, right):
        lines(ax, rows, "cycles", "cycles (millions)", 1e6)
        ax.legend(frameon=False, fontsize=9, loc="lower left")


def bars(ax, rows: list[dict], column: str, label: str, unit: float) -> None:
    """A column of rows over their regions, published values as squares."""
    ax.bar(range(len(rows)), [r[column] / unit for r in rows], 0.7, color="#9ecae1", label="ours")
    _published(ax, rows, column, unit)
    ax.set_xticks(range(len(rows)), [r["regions"] for r in rows])
    ax.set(xlabel=X_LABEL, ylabel=label)


def lines(ax, rows: list[dict], column: str, label: str, unit: float) -> None:
    """A column of rows on an axis of its own, at the right."""
    right = ax.twinx()
    right.plot([r[column] / unit for r in rows], "D-", color="#3182bd", markersize=4)
    _published(right, rows, column, unit)
    if MACHINE in rows[0]:
        right.plot([r[MACHINE] / unit for r in rows], "D:", color="#756bb1", markersize=4)
    right.set_ylabel(label + (" (dotted: this machine)" if MACHINE in rows[0] else ""))
    right.yaxis.label.set_color("#3182bd")
    right.set_ylim(0, None)


def _published(ax, rows: list[dict], column: str, unit: float) -> None:
    known = [(i, r[f"step_{column}"] / unit) for i, r in enumerate(rows) if f"step_{column}" in r]
    if known:
        style = {"markersize": 9, "fillstyle": "none", "color": "0.2", "label": "published"}
        ax.plot(*zip(*known, strict=True), "s", **style)


FIGURES = (
    Figure(
        "fig12",
        "Figure 12: utilisation with time-multiplexing, (a) static and (b) dynamic tiles",
        fig12,
        fig12_summary,
        plot_fig12,
        utilisation,
    ),
    Figure(
        "fig13",
        "Figure 13: resources and performance with time-multiplexing, static tiles",
        fig13,
        fig13_summary,
        plot_fig13,
        utilisation,
    ),
)
