"""Figures 9, 10, 19 and 20: a mixture-of-experts layer with static and dynamic tiles."""

from __future__ import annotations

from dataclasses import replace

from ..machine.config import Config, load
from ..runs.pareto import distance
from .base import BESIDE, timings
from .moe import CONFIG, FP32_OUT, MODELS, work
from .points import DRAWS, Point
from .published import moe_tiling, statements
from .traces import Traces

TILES = {64: (8, 16, 32, 64), 1024: (16, 32, 64, 128, 256, 512, 1024)}
"""Rows of static tiles by batch."""
DYNAMIC_BW = 6400
"""FLOP a cycle of each operator where tiles are dynamic; static ones have the configuration's
4096.
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
    if (model, batch, tile) == ("mixtral", 64, "dynamic"):
        return replace(config, stepsim=replace(config.stepsim, **AS_MADE))
    return config


def kind_of(r: dict) -> str:
    """The kind of a row's tiles: static, dynamic, or those of the present script."""
    return "static" if isinstance(r["tile"], int) else r["tile"]


def as_plotted(r: dict) -> int:
    """Memory on chip as the published figures have it: that of experts with tokens where tiles are
    dynamic, of all experts where they are static.
    """
    return r["onchip_bytes" if kind_of(r) == "static" else "onchip_active_bytes"]


def with_all(r: dict) -> int:
    """Memory on chip of experts with tokens, and all memories of the fabric beside the pages."""
    return r["onchip_active_bytes"] + r[BESIDE]


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
                if timing:
                    memories["experts with tokens, and all but pages"] = with_all
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
