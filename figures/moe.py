"""Figures 9, 10, 12, 13, 19 and 20: a mixture-of-experts layer with static and dynamic tiles, and
with experts that share regions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..machine.config import Config, load
from ..machine.record import Record
from ..runs.pareto import distance
from ..workloads.published_moe import streams
from .base import DRAWS, LEAST, MACHINE, Figure, Point, plot_ranges, timings
from .published import moe_regions, moe_tiling, statements
from .traces import Traces

CONFIG = "paper_moe"
MODELS = {
    "mixtral": dict(dim=4096, inter=14336, experts=8, top_k=2),
    "qwen": dict(dim=2048, inter=768, experts=128, top_k=8),
}
TITLES = {"mixtral": "Mixtral-8x7B", "qwen": "Qwen3-30B-A3B"}
TILES = {64: (8, 16, 32, 64), 1024: (16, 32, 64, 128, 256, 512, 1024)}
"""Rows of static tiles by batch."""
DYNAMIC_BW = 6400
"""FLOP a cycle of each operator where tiles are dynamic; static ones have the configuration's 4096.
"""
PRESENT = "dynamic, present script"
AS_MADE = {"par_dispatch": 4, "fifo_depth": 1}
"""Mixtral's dynamic point of figure 9 was made with these, by an earlier state of its script than
all others (docs/stepsim.md); a row of its own has what the present script gives.
"""
DEPTH_1024 = 1024
"""Depth of the channels for the layer of 128 experts and batch 1024, which deadlocks at 2
(docs/deadlock.md).
"""
REGIONS = (128, 64, 32, 16, 8, 4)
REGION_BW = 1024
REGION_TILE = 32
REGION_INTER = 48
OPERATORS = 5
"""Compute operators of a region (or expert), one more for each of the experts, one for the sum."""


def tiling(batch: int):
    """Points of figure 9 (batch 64) or 10 (1024)."""

    def points(traces: Traces) -> list[Point]:
        return [
            tiling_point(traces, model, batch, tile)
            for model in MODELS
            for tile in (*TILES[batch], "dynamic", PRESENT)
            if tile != PRESENT or (model, batch) == ("mixtral", 64)
        ]

    return points


def tiling_point(traces: Traces, model: str, batch: int, tile: int | str) -> Point:
    """A model with tiles of so many rows, or dynamic ones."""
    static = isinstance(tile, int)
    published = dict(moe_tiling().get((model, batch, tile), {})) if traces.folder else {}
    published.pop("wall_s", None)
    if published:
        published[FP32_OUT] = published.pop("offchip_bytes")
        if not static:
            published["onchip_active_bytes"] = published.pop("onchip_bytes")
    return Point(
        "published_moe",
        tiling_config(model, batch, tile),
        {
            **MODELS[model],
            "tokens": batch,
            "tile_inter": 64,
            **traces.routing(model, batch),
            **({"tile_rows": tile} if static else {"tile_rows": 0, "compute_bw": DYNAMIC_BW}),
        },
        {"trace": traces.routing_name(model, batch), "model": model, "tile": tile},
        published=published,
        draws=DRAWS if published else 0,
        machine=tile != PRESENT,
    )


def tiling_config(model: str, batch: int, tile: int | str) -> Config:
    """The machine of a point of figures 9 and 10."""
    config = load(CONFIG)
    if (model, batch) == ("qwen", 1024):
        return replace(
            config,
            stepsim=replace(config.stepsim, fifo_depth=DEPTH_1024),
            machine=replace(config.machine, channel_depth=DEPTH_1024),
        )
    if (model, batch, tile) == ("mixtral", 64, "dynamic"):
        return replace(config, stepsim=replace(config.stepsim, **AS_MADE))
    return config


FP32_OUT = "offchip_fp32_out_bytes"
"""Column of the traffic as the published scripts list it: the output counted at 4 B an element,
though it is stored in 2.
"""
FP32_BYTES = 4


def on_demand(p: Point, r: Record) -> dict:
    """Traffic as it was listed, and on-chip memory without experts that got no token."""
    more = FP32_BYTES - p.config.stepsim.element_bytes
    listed = r.offchip_bytes + p.params["tokens"] * p.params["dim"] * more
    return {FP32_OUT: listed, "onchip_active_bytes": r.onchip_active_bytes}


def kind_of(r: dict) -> str:
    """The kind of a row's tiles: static, dynamic, or those of the present script."""
    return "static" if isinstance(r["tile"], int) else r["tile"]


def as_plotted(r: dict) -> int:
    """On-chip memory as the published figures have it: that of experts with tokens where tiles are
    dynamic, of all experts where they are static.
    """
    return r["onchip_bytes" if kind_of(r) == "static" else "onchip_active_bytes"]


def improvement(rows: list[dict], model: str, memory, cycles: str = "cycles") -> float:
    """Pareto Improvement Distance of a model's dynamic tiles; ``memory(row)``: on-chip bytes."""
    mine = [r for r in rows if r["model"] == model and r["tile"] != PRESENT]
    at = {r["tile"]: (r[cycles], memory(r)) for r in mine}
    return distance(at.pop("dynamic"), at.values())


def tiling_summary(name: str):
    def summary(rows: list[dict]) -> list[dict]:
        said = statements(name)
        out = []
        for m in MODELS:
            what = f"{m} Pareto Improvement Distance"
            out.append(
                {"what": what, "published": said[what], "ours": improvement(rows, m, as_plotted)}
            )
            memories = {
                "as published": as_plotted,
                "all experts": lambda r: r["onchip_bytes"],
                "experts with tokens": lambda r: r["onchip_active_bytes"],
            }
            for cycles, timing in timings(rows):
                out += [
                    {
                        "what": f"{what}{timing}, memory of {which}"
                        if which != "as published"
                        else what + timing,
                        "published": None,
                        "ours": improvement(rows, m, memory, cycles),
                    }
                    for which, memory in memories.items()
                    if timing or which != "as published"
                ]
        return out

    return summary


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
        top.set(
            title=f"{TITLES[model]}: Pareto Improvement Distance {pid:.2f}",
            ylabel="cycles (millions)",
            ylim=(0, None),
        )
        top.legend(frameon=False, fontsize=9, loc="lower right")
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
    PRESENT: ("x", "#e6550d", 7),
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
    )
    for x, y, r in zip(memory, cycles, mine, strict=True):
        if kind == PRESENT:
            continue
        ax.annotate(
            str(r["tile"]),
            (x, y),
            textcoords="offset points",
            xytext=(8, 6),
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


def multiplexed(static: bool):
    """Points of figure 12 (static tiles) or 13 (dynamic ones)."""

    def points(traces: Traces) -> list[Point]:
        known = moe_regions()
        config = load(CONFIG)
        out = []
        experts = MODELS["qwen"]["experts"]
        for regions in REGIONS:
            params = {
                **MODELS["qwen"],
                "tokens": 64,
                "tile_inter": REGION_INTER,
                "tile_rows": REGION_TILE * static,
                "compute_bw": REGION_BW,
                "regions": regions if regions < experts else 0,
                **traces.routing("qwen", 64),
            }
            published = {}
            if static and traces.folder:
                k = known[regions]
                published = {
                    "cycles": k["cycles"],
                    "onchip_active_bytes": k["onchip_bytes"],
                    "utilisation": k["utilisation"] / 100,
                }
            at = {"trace": traces.routing_name("qwen", 64), "regions": regions}
            drawn = DRAWS if published else 0
            out.append(Point("published_moe", config, params, at, published=published, draws=drawn))
        return out

    return points


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
    }


def multiplexed_summary(name: str):
    def summary(rows: list[dict]) -> list[dict]:
        at = {r["regions"]: r for r in rows}
        alone = at[REGIONS[0]]
        shared = at[32]
        return [
            {
                "what": "utilisation gained",
                "published": statements(name)["utilisation gained"],
                "ours": shared["utilisation"] / alone["utilisation"],
            },
            *(
                {
                    "what": f"cycles at 32 regions, of those without sharing{timing}",
                    "published": None,
                    "ours": shared[cycles] / alone[cycles],
                }
                for cycles, timing in timings(rows)
            ),
            {
                "what": "compute saved at 32 regions",
                "published": None,
                "ours": 1
                - shared["allocated_flops_per_cycle"] / alone["allocated_flops_per_cycle"],
            },
            {
                "what": "on-chip memory saved at 32 regions",
                "published": None,
                "ours": 1 - shared["onchip_active_bytes"] / alone["onchip_active_bytes"],
            },
        ]

    return summary


def plot_multiplexed(fig, rows: list[dict]) -> None:
    ranged = any(LEAST in r for r in rows)
    cycles, used, *drawn = fig.subplots(1, 2 + ranged)
    for ax in drawn:
        plot_ranges(ax, rows, "regions")
    x = range(len(rows))
    names = [str(r["regions"]) for r in rows]
    for ax, key, scale, unit in (
        (cycles, "cycles", 1e6, "cycles (millions)"),
        (used, "utilisation", 0.01, "compute used (%)"),
    ):
        ax.bar(x, [r[key] / scale for r in rows], 0.7, color="#3182bd", label="ours")
        if any(f"step_{key}" in r for r in rows):
            ax.plot(
                [i for i, r in zip(x, rows, strict=False) if f"step_{key}" in r],
                [r[f"step_{key}"] / scale for r in rows if f"step_{key}" in r],
                "s",
                markersize=9,
                fillstyle="none",
                color="0.2",
                label="published",
            )
        if key == "cycles" and MACHINE in rows[0]:
            ax.plot(
                x, [r[MACHINE] / scale for r in rows], "D", color="#31a354", label="this machine"
            )
        ax.set_xticks(x, names)
        ax.set(xlabel="regions that 128 experts share", ylabel=unit)
        ax.legend(frameon=False, fontsize=9, loc="upper center")
    memory = cycles.twinx()
    memory.plot(x, [r["onchip_active_bytes"] / 1e6 for r in rows], "o-", color="#e6550d")
    memory.set_ylabel("on-chip memory (MB)", color="#e6550d")
    memory.set_ylim(0, None)


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
    Figure(
        "fig12",
        "Figure 12: configuration time-multiplexing, static tiles",
        multiplexed(True),
        multiplexed_summary("fig12"),
        plot_multiplexed,
        utilisation,
        machine=False,
    ),
    Figure(
        "fig13",
        "Figure 13: configuration time-multiplexing, dynamic tiles",
        multiplexed(False),
        multiplexed_summary("fig13"),
        plot_multiplexed,
        utilisation,
        machine=False,
    ),
)
