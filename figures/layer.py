"""Figure 17: whole decoder layers, static and dynamic.

The construction of the static layer is public in part (docs/figures.md). What is open has names
here: each number of the paper stands beside that of one construction and beside the least and the
most of all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..machine.config import Config, load
from ..machine.record import Record
from .attention import KV_TILE
from .base import MACHINE, Figure, Summary, compared, timings
from .moe import CONFIG, MODELS, TITLES
from .multiplexing import DEPTH, GAINED, OPERATORS, REGION_BW
from .points import Point
from .tiling import AGAINST, DYNAMIC_BW, as_plotted
from .traces import Lengths, Traces

LAYERS = {
    "mixtral": dict(heads=32, kv_heads=8, tile_inter=64),
    "qwen": dict(heads=32, kv_heads=4, tile_inter=48),
}
BATCH = 64
ROOM = 128
"""Tiles of a request's cache, of 4096 rows."""
TRACE, OTHER_TRACE = "0996_4007", "0995_0733"
"""Lengths of median deviation; those of the third published batch exceed the cache."""
BASE = "as stated"
CHOICES: dict[str, dict[str, Any]] = {
    BASE: {},
    "output projection in tiles of 16 rows": {"rows_out": 16},
    "256 B a cycle on chip": {"onchip_bw": 256},
    "experts' FLOP of figure 9": {"expert_bw": True},
    "16 rows and 256 B": {"rows_out": 16, "onchip_bw": 256},
    "256 B and FLOP of figure 9": {"onchip_bw": 256, "expert_bw": True},
    "each chunk loads its matrices": {"shared": False},
    f"lengths {OTHER_TRACE}": {"lengths": OTHER_TRACE},
    "projections of 4096 FLOP": {"project_bw": 4096},
    "other sizes": {"mixtral": {"tile_inter": 32}, "qwen": {"head_dim": 64}},
}
"""Named constructions: what each changes."""
OUTSIDE, OUTSIDE_RETILED = 151, 31
"""Compute operators of a layer outside its experts, and those that only cut and join tiles."""


def fig17(traces: Traces) -> list[Point]:
    return [
        point_of(traces, model, tile, choice)
        for choice in CHOICES
        for model in LAYERS
        for tile in (*AGAINST["fig9", model], "dynamic")
    ]


def point_of(traces: Traces, model: str, tile: int | str, choice: str) -> Point:
    """A model's layer with static tiles of so many rows, or dynamic, by a construction."""
    change = dict(CHOICES[choice])
    sizes = {name: change.pop(name, {}) for name in LAYERS}[model]
    config, static = machine(change.pop("onchip_bw", 64)), isinstance(tile, int)
    lengths = lengths_of(traces, change.pop("lengths", TRACE))
    expert_bw = (config.stepsim.compute_bw * 4 if static else DYNAMIC_BW) * change.pop(
        "expert_bw", False
    )
    given = dict(lengths.params)
    if "trace" in given:
        given = {"lengths": given.pop("trace")}
    return Point(
        "published_layer",
        config,
        {
            **MODELS[model],
            **LAYERS[model],
            "requests": BATCH,
            "most": max(ROOM, lengths.longest // KV_TILE + 1),
            "shared": True,
            **traces.routing(model, BATCH),
            **given,
            "parallel": "interleaved" if static else "dynamic",
            "tile_rows": tile if static else 0,
            "regions": GAINED if model == "qwen" and not static else 0,
            "compute_bw": expert_bw,
            **change,
            **sizes,
        },
        {
            "construction": choice,
            "trace": traces.routing_name(model, BATCH),
            "model": model,
            "tile": tile,
        },
        seed=lengths.seed,
        machine=choice == BASE,
        work=BATCH,
    )


def machine(onchip_bw: int) -> Config:
    """The machine of a layer: 1024 FLOP a cycle of each operator, four lines a cycle of a port."""
    config = load(CONFIG)
    stepsim = replace(config.stepsim, compute_bw=REGION_BW, par_dispatch=4, onchip_bw=onchip_bw)
    return replace(config, stepsim=stepsim, machine=replace(config.machine, channel_depth=DEPTH))


def lengths_of(traces: Traces, name: str) -> Lengths:
    """Lengths by name; where they are drawn, those in the middle."""
    found = {x.name[:9]: x for x in traces.lengths(BATCH)}
    return found.get(name) or list(found.values())[len(found) // 2]


def compute(p: Point, r: Record) -> dict:
    """FLOP a cycle of all operators, those that cut and join tiles counted and not."""
    experts = MODELS[p.at["model"]]["experts"]
    own = OPERATORS * (p.params["regions"] or experts) + 1 + OUTSIDE
    return {
        "onchip_active_bytes": r.onchip_active_bytes,
        "allocated_flops_per_cycle": REGION_BW * (own + experts + OUTSIDE_RETILED),
        "without_retiling": REGION_BW * own,
    }


def gains(rows: list[dict], cycles: str = "cycles") -> dict[str, float]:
    """The paper's eight numbers from the rows of one construction."""
    out = {}
    for model in LAYERS:
        at = {r["tile"]: r for r in rows if r["model"] == model}
        dynamic = at["dynamic"]
        for matched, tile in zip(("memory", "performance"), AGAINST["fig9", model], strict=True):
            what = f"{model} over the {matched}-matched tile"
            out[f"{what}: faster"] = at[tile][cycles] / dynamic[cycles]
            if (model, matched) != ("mixtral", "memory"):
                saved = 1 - as_plotted({**dynamic, "tile": "dynamic"}) / as_plotted(at[tile])
                out[f"{what}: on-chip memory saved"] = saved
            if (model, matched) == ("qwen", "memory"):
                for column in ("allocated_flops_per_cycle", "without_retiling"):
                    key = "" if column.startswith("allocated") else ", retiling not counted"
                    out[f"{what}: compute saved{key}"] = 1 - dynamic[column] / at[tile][column]
    return out


def fig17_summary(rows: list[dict]) -> Summary:
    """The paper's numbers beside those of the first construction, with the least and the most of
    all constructions, and whether these hold the paper's between them.
    """
    made = [gains([r for r in rows if r["construction"] == name]) for name in CHOICES]
    out = []
    for what in (w for w in made[0] if "not counted" not in w):
        row = compared("fig17", what, made[0][what])
        every = [g[w] for g in made for w in g if w.startswith(what)]
        row |= {"least": min(every), "most": max(every)}
        row["width"] = row["most"] / row["least"] - 1
        if row["published"] is not None:
            row["inside"] = "yes" if row["least"] <= row["published"] <= row["most"] else "no"
        out.append(row)
    for cycles, timing in timings(rows)[1:]:
        own = gains([r for r in rows if cycles in r], cycles)
        out += [
            compared("fig17", what + timing, own[what]) for what in own if what.endswith("faster")
        ]
    return out


def plot_fig17(fig, rows: list[dict]) -> None:
    """Cycles and memory of the first construction, and the paper's numbers within the ranges."""
    first, second, ranges = fig.subplots(1, 3, width_ratios=[2, 2, 4])
    base = [r for r in rows if r["construction"] == BASE]
    for ax, model in ((first, "mixtral"), (second, "qwen")):
        mine = [r for r in base if r["model"] == model]
        names = ["memory-\nmatched", "performance-\nmatched", "dynamic"]
        colours = ["#9ecae1", "#3182bd", "#e6550d"]
        ax.bar(names, [r["cycles"] / 1e6 for r in mine], 0.6, color=colours)
        if MACHINE in mine[0]:
            style = {"color": "#31a354", "label": "this machine"}
            ax.plot(names, [r[MACHINE] / 1e6 for r in mine], "D", **style)
            ax.legend(frameon=False, fontsize=8, loc="lower left")
        for i, r in enumerate(mine):
            label = f"{as_plotted(r) / 1e6:.1f} MB"
            ax.annotate(label, (i, r["cycles"] / 1e6), ha="center", va="bottom", fontsize=8)
        ax.tick_params(axis="x", labelsize=7)
        ax.set(title=TITLES[model], ylabel="cycles (millions)")
    summary = [s for s in fig17_summary(rows) if "least" in s]
    for i, s in enumerate(reversed(summary)):
        unit = s["published"] or s["ours"]
        ranges.plot([s["least"] / unit, s["most"] / unit], [i, i], color="#9ecae1", linewidth=7)
        ranges.plot(s["ours"] / unit, i, "o", color="#3182bd")
        label = f"{unit:g} [{s['least']:.3g}, {s['most']:.3g}]"
        ranges.annotate(
            label, (s["most"] / unit, i), (6, -3), textcoords="offset points", fontsize=8
        )
    ranges.axvline(1, color="0.4", linewidth=1)
    names = [s["what"].replace("over the ", "").replace(" tile: ", ":\n") for s in summary]
    ranges.set_yticks(range(len(summary)), reversed(names), fontsize=8)
    ranges.margins(x=0.3)
    ranges.set(xlabel=f"of the published number: ours (dot), {len(CHOICES)} constructions (bar)")


FIGURES = (
    Figure(
        "fig17",
        "Figure 17: decoder layers, static and dynamic, batch 64",
        fig17,
        fig17_summary,
        plot_fig17,
        compute,
        size=(14, 5),
    ),
)
