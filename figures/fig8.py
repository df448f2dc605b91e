"""Figure 8: SwiGLU at 15 tile sizes, on the published simulator and hardware model, our model in
both timings, and our RTL.
"""

from __future__ import annotations

import json
from concurrent.futures import Executor
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..machine.errors import PenstockError
from ..machine.record import Record, records_of
from ..runs import api
from ..runs.executors import Pool
from ..runs.progress import Progress
from ..runs.tables import to_csv
from ..system.output import write_text
from .base import agreement, save
from .published import fig8 as published_fig8

FIG8_GRID = {"tile_b": [16, 32, 64], "tile_inter": [16, 32, 64, 128, 256]}
FIG8_CONFIG = "fig8"
HBM2_CONFIG = "paper_hdl_hbm2"
"""The same machine with the memory that the published HDL was validated with."""


def stored_rtl(config: str = FIG8_CONFIG) -> list[Record]:
    """RTL records of figure 8 on a machine, as fig8_rtl.json has them: a dated measurement."""
    path = Path(str(files(__spec__.parent).joinpath("fig8_rtl.json")))
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    rows = [row["record"] for case in cases.values() for row in case["rows"]]
    return [r for r in records_of(rows, str(path)) if r.config == config]


def fig8_records(
    rtl: bool, progress: Progress | None = None, executor: Executor | Pool | None = None
) -> list[Record]:
    """All 15 points: `stepsim` timing, the model, and the RTL: stored, or with ``rtl`` run afresh
    and checked beat by beat.
    """
    records = api.sweep(
        "swiglu",
        FIG8_CONFIG,
        FIG8_GRID,
        timing="stepsim",
        values=False,
        progress=progress,
        executor=executor,
    )
    return records + _on_machine(FIG8_CONFIG, rtl, progress, executor)


def _on_machine(
    config: str, rtl: bool, progress: Progress | None, executor: Executor | Pool | None
) -> list[Record]:
    """The points on the model and the RTL of a machine."""
    records = api.sweep(
        "swiglu",
        config,
        FIG8_GRID,
        on="both" if rtl else "model",
        values=rtl,
        progress=progress,
        executor=executor,
    )
    return records if rtl else records + stored_rtl(config)


def hbm2_records(
    rtl: bool, progress: Progress | None = None, executor: Executor | Pool | None = None
) -> list[Record]:
    """The points with HBM2 by the command in place of the pipe, on the model and the RTL; ``rtl``
    as of :func:`fig8_records`.
    """
    return _on_machine(HBM2_CONFIG, rtl, progress, executor)


def fig8_rows(records: list[Record]) -> list[dict]:
    """One row a point: published simulator and HDL beside our timings (None where there is no
    record).
    """
    found = {
        (r.params["tile_b"], r.params["tile_inter"], r.backend, r.timing): r
        for r in records
        if r.workload == "swiglu" and r.config != HBM2_CONFIG
    }
    by_command = {
        (r.params["tile_b"], r.params["tile_inter"], r.backend): r.cycles
        for r in records
        if r.config == HBM2_CONFIG
    }
    rows = []
    for p in published_fig8():
        at = p.tile_b, p.tile_inter
        get = {
            "stepsim": found.get((*at, "model", "stepsim")),
            "model": found.get((*at, "model", "machine")),
            "rtl": found.get((*at, "rtl", "machine")),
        }
        row = {
            "tile_b": p.tile_b,
            "tile_inter": p.tile_inter,
            "step_cycles": p.step_cycles,
            "hdl_cycles": p.hdl_cycles,
        }
        row |= {f"{k}_cycles": r.cycles if r else None for k, r in get.items()}
        row["hbm2_cycles"] = by_command.get((*at, "model"))
        row["hbm2_rtl_cycles"] = by_command.get((*at, "rtl"))
        row |= {
            "step_offchip_bytes": p.offchip_bytes,
            "hdl_offchip_bytes": round(p.hdl_mb * 1e6) if p.hdl_mb else None,
        }
        row |= {"offchip_bytes": get["model"].offchip_bytes if get["model"] else None}
        row |= {
            f"{k}_dram_bytes": one.dram_bytes if (one := get[k]) else None for k in ("model", "rtl")
        }
        row |= {
            "step_onchip_bytes": p.onchip_bytes,
            "onchip_bytes": get["stepsim"].onchip_bytes if get["stepsim"] else None,
        }
        rows.append(row)
    return rows


def fig8_agreements(rows: list[dict]) -> list[dict]:
    pairs = [
        ("step_cycles", "stepsim_cycles"),
        ("step_cycles", "model_cycles"),
        ("hdl_cycles", "model_cycles"),
        ("hdl_cycles", "hbm2_cycles"),
        ("model_cycles", "hbm2_cycles"),
        ("hdl_cycles", "step_cycles"),
        ("rtl_cycles", "model_cycles"),
        ("hbm2_rtl_cycles", "hbm2_cycles"),
    ]
    return [x for x in (agreement(rows, *p) for p in pairs) if x]


def fig8(out: Path, records: list[Record]) -> tuple[list[dict], list[dict]]:
    """Write fig8.csv and fig8.png into ``out``; returns the rows and the agreements."""
    if not out.is_dir():
        raise PenstockError(f"no such folder: {out}", remedy="create it first")
    rows = fig8_rows(records)
    agreements = fig8_agreements(rows)
    write_text(out / "fig8.csv", to_csv(rows))
    plot_fig8(rows, agreements, out / "fig8.png")
    return rows, agreements


SERIES = {
    "step_cycles": ("STeP simulator (published)", "0.75"),
    "hdl_cycles": ("HDL (published)", "0.45"),
    "stepsim_cycles": ("Penstock, stepsim timing", "#9ecae1"),
    "model_cycles": ("Penstock model", "#3182bd"),
    "rtl_cycles": ("Penstock RTL", "#e6550d"),
    "hbm2_cycles": ("Penstock model with HBM2", "#a1d99b"),
    "hbm2_rtl_cycles": ("Penstock RTL with HBM2", "#31a354"),
}
"""Columns of cycles that the picture shows: how its legend and its box call them, and their
colours.
"""


def agreement_text(a: dict) -> str:
    """A line of the picture's box: an agreement in the words of the legend."""
    compared, against = (SERIES[a[k]][0] for k in ("of", "against"))
    return (
        f"{compared} against {against}: "
        f"r = {a['pearson']:.4f}, largest error {a['max_error']:.1%} ({a['points']} points)"
    )


def plot_fig8(rows: list[dict], agreements: list[dict], path: Path) -> None:
    """Cycles and traffic by tile size, as in the paper's figure 8."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    series = {k: v for k, v in SERIES.items() if any(r[k] is not None for r in rows)}
    x = np.arange(len(rows))
    width = 0.8 / len(series)
    fig, (top, low) = plt.subplots(
        2, 1, figsize=(11, 7), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    for i, (key, (label, colour)) in enumerate(series.items()):
        left = x + (i - (len(series) - 1) / 2) * width
        top.bar(left, [r[key] or 0 for r in rows], width, label=label, color=colour)
    top.set_ylabel("cycles")
    top.legend(frameon=False, fontsize=9)
    top.set_title("SwiGLU layer, batch 64, hidden 256, intermediate 512")
    note = "\n".join(agreement_text(a) for a in agreements)
    top.text(0.995, 0.66, note, transform=top.transAxes, ha="right", va="top", fontsize=7)
    traffic = {
        "step_offchip_bytes": "step_cycles",
        "hdl_offchip_bytes": "hdl_cycles",
        "model_dram_bytes": "model_cycles",
    }
    for i, (key, named) in enumerate(traffic.items()):
        label, colour = SERIES[named]
        heights = [(r[key] or 0) / 1e6 for r in rows]
        low.bar(x + (i - 1) * 0.27, heights, 0.27, label=label, color=colour)
    low.set_ylabel("off-chip traffic (MB)")
    low.legend(frameon=False, fontsize=9)
    low.set_xticks(x, [f"{r['tile_b']}\n{r['tile_inter']}" for r in rows])
    low.set_xlabel("tile_b (upper) and tile_inter (lower)")
    for ax in (top, low):
        ax.spines[["top", "right"]].set_visible(False)
    save(fig, path)
