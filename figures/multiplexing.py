"""Figures 12 and 13: a mixture-of-experts layer whose experts share regions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..machine.config import load
from ..machine.record import Record
from ..workloads.published_moe import streams
from .base import LEAST, MACHINE, Figure, plot_ranges, timings
from .moe import CONFIG, MODELS, on_demand, work
from .points import DRAWS, Point
from .published import moe_regions, statements
from .traces import Traces

REGIONS = (128, 64, 32, 16, 8, 4)
REGION_BW = 1024
REGION_TILE = 32
REGION_INTER = 48
DEPTH = 256
"""Depth of this machine's channels, which hold physical tiles: few regions deadlock at less."""
OPERATORS = 5
"""Compute operators of a region (or expert), one more for each of the experts, one for the sum."""


def multiplexed(static: bool):
    """Points of figure 12 (static tiles) or 13 (dynamic ones)."""

    def points(traces: Traces) -> list[Point]:
        known = moe_regions()
        config = load(CONFIG)
        config = replace(config, machine=replace(config.machine, channel_depth=DEPTH))
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
            out.append(
                Point(
                    "published_moe",
                    config,
                    params,
                    at,
                    published=published,
                    draws=DRAWS if published else 0,
                    work=work("qwen", 64, REGION_TILE * static),
                )
            )
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
                [i for i, r in zip(x, rows, strict=True) if f"step_{key}" in r],
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
        "fig12",
        "Figure 12: configuration time-multiplexing, static tiles",
        multiplexed(True),
        multiplexed_summary("fig12"),
        plot_multiplexed,
        utilisation,
    ),
    Figure(
        "fig13",
        "Figure 13: configuration time-multiplexing, dynamic tiles",
        multiplexed(False),
        multiplexed_summary("fig13"),
        plot_multiplexed,
        utilisation,
    ),
)
