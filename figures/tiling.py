"""Figures 9, 10, 19 and 20: a mixture-of-experts layer with static and dynamic tiles."""

from __future__ import annotations

from dataclasses import replace

from ..machine.config import Config, load
from ..runs.pareto import distance
from .base import BESIDE, Summary, compared, timings
from .moe import CONFIG, FP32_OUT, MODELS, work
from .points import DRAWS, Point
from .published import moe_tiling
from .traces import Traces

TILES = {64: (8, 16, 32, 64), 1024: (16, 32, 64, 128, 256, 512, 1024)}
"""Rows of static tiles by batch."""
DYNAMIC_BW = 6400
"""FLOP a cycle of each operator where tiles are dynamic; static ones have the configuration's
4096.
"""
EARLIER = "dynamic, earlier script"
AS_MADE = {"par_dispatch": 4, "fifo_depth": 1}
"""Mixtral's dynamic cycles of figure 9 were published as made with these, by an earlier state of
its script than all others (docs/stepsim.md), and stand in a row of their own. The paper's text
speaks of what the present script gives.
"""
DEPTH_1024 = 1024
"""Depth of the channels for the layer of 128 experts and batch 1024, which deadlocks at 2
(docs/deadlock.md).
"""


def tiling(batch: int, machine: bool = True):
    """Points of figures 9 and 19 (batch 64) or 10 and 20 (1024); ``machine``: also of that
    timing.
    """

    def points(traces: Traces) -> list[Point]:
        return [
            replace(p, machine=p.machine and machine)
            for model in MODELS
            for tile in (*TILES[batch], "dynamic", EARLIER)
            if tile != EARLIER or (model, batch) == ("mixtral", 64)
            for p in [tiling_point(traces, model, batch, tile)]
        ]

    return points


def tiling_point(traces: Traces, model: str, batch: int, tile: int | str) -> Point:
    """A model with tiles of so many rows, or dynamic ones."""
    static = isinstance(tile, int)
    published = dict(moe_tiling().get((model, batch, tile), {})) if traces.folder else {}
    published.pop("wall_s", None)
    if (model, batch, tile) == ("mixtral", 64, "dynamic"):
        published.pop("cycles", None)  # of the earlier script
    elif tile == EARLIER and traces.folder:
        published = {"cycles": moe_tiling()[model, batch, "dynamic"]["cycles"]}
    if "offchip_bytes" in published:
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
        draws=DRAWS if "cycles" in published else 0,
        machine=tile != EARLIER,
        work=work(model, batch, tile if static else 0),
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
    if (model, batch, tile) == ("mixtral", 64, EARLIER):
        return replace(config, stepsim=replace(config.stepsim, **AS_MADE))
    return config


def kind_of(r: dict) -> str:
    """The kind of a row's tiles: static, dynamic, or those of the earlier script."""
    return "static" if isinstance(r["tile"], int) else r["tile"]


def as_plotted(r: dict) -> int:
    """Memory on chip as the published figures have it: that of experts with tokens where tiles are
    dynamic, of all experts where they are static.
    """
    return r["onchip_bytes" if kind_of(r) == "static" else "onchip_active_bytes"]


def with_all(r: dict) -> int:
    """Memory on chip of experts with tokens, and all memories of the fabric beside the pages."""
    return r["onchip_active_bytes"] + r[BESIDE]


def improvement(rows: list[dict], model: str, memory, cost: str = "cycles") -> float:
    """Pareto Improvement Distance of a model's dynamic tiles; ``memory(row)``: on-chip bytes;
    ``cost``: the column beside it.
    """
    mine = [r for r in rows if r["model"] == model and r["tile"] != EARLIER]
    at = {r["tile"]: (r[cost], memory(r)) for r in mine}
    return distance(at.pop("dynamic"), at.values())


AGAINST = {
    ("fig9", "mixtral"): (16, 32),
    ("fig9", "qwen"): (8, 64),
    ("fig10", "mixtral"): (128, 256),
    ("fig10", "qwen"): (64, 1024),
}
"""Static tiles that the text of section 5.2 lays dynamic ones against."""


def tiling_summary(name: str):
    """Distances, and dynamic tiles against those static ones that the text names."""

    def summary(rows: list[dict]) -> Summary:
        out = []
        for m in MODELS:
            what = f"{m} Pareto Improvement Distance"
            out.append(compared(name, what, improvement(rows, m, as_plotted)))
            memories = {
                "as published": as_plotted,
                "all experts": lambda r: r["onchip_bytes"],
                "experts with tokens": lambda r: r["onchip_active_bytes"],
            }
            for cycles, timing in timings(rows):
                if timing:
                    memories["experts with tokens, and all but pages"] = with_all
                for which, memory in memories.items():
                    plain = which == "as published"
                    if timing or not plain:
                        named = what + timing + ("" if plain else f", memory of {which}")
                        out.append(compared(name, named, improvement(rows, m, memory, cycles)))
            at = {r["tile"]: r for r in rows if r["model"] == m}
            for tile in AGAINST[name, m]:
                slow, fast = at[tile], at["dynamic"]
                against = f"{m} dynamic against tile {tile}"
                faster = slow["cycles"] / fast["cycles"]
                smaller = as_plotted(slow) / as_plotted(fast)
                out.append(compared(name, f"{against}: faster", faster))
                out.append(compared(name, f"{against}: less on-chip memory", smaller))
        return out

    return summary


def traffic_summary(name: str):
    """Distances where off-chip traffic stands in place of cycles."""

    def summary(rows: list[dict]) -> Summary:
        return [
            compared(name, f"{m} Pareto Improvement Distance, traffic", pid)
            for m in MODELS
            for pid in [improvement(rows, m, as_plotted, "offchip_bytes")]
        ]

    return summary
