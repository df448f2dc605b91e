"""Writes the README's results from stored records: `python bench/report.py [--records DIR]`.

* figure 8: the RTL's records in figures/fig8_rtl.json (with --records renewed from DIR, as
  `penstock figures fig8 --rtl --out DIR` leaves them) beside the model, run here in a second;
* speed: docs/results/speed.json, which `nox -s bench` writes;
* the README's program, a workload, and its output on model and RTL; the pictures in docs/results.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

from blocks import Blocks
from penstock import cli, figures
from penstock.frontend import build, lower
from penstock.frontend.draw import draw_fabric
from penstock.machine.config import load
from penstock.machine.output import write_text
from penstock.machine.record import Record
from penstock.runs import api
from penstock.workloads import simple_moe

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results"
BLOCKS = Blocks("bench/report.py")
between = BLOCKS.between
insert = BLOCKS.insert
STORED_RTL = ROOT / "figures" / "fig8_rtl.json"
SPEED_RECORD = RESULTS / "speed.json"
FIGURE = "figure 8"
SPEED = "speed"
COMMAND = ["run", "simple_moe", "--config", "small_fpga", "--on", "both"]


def stored_records() -> list[Record]:
    """The stored records of the RTL and fresh ones of the model."""
    return figures.fig8_records(False)


def figure_block(records: list[Record]) -> str:
    """Figure 8 on every backend, how far they agree, and how fast the RTL ran."""
    rtl = {(r.params["tile_b"], r.params["tile_inter"]): r for r in records if r.backend == "rtl"}
    rows = figures.fig8_rows(records)
    lines = [
        "Figure 8 of the paper (SwiGLU, batch 64, hidden 256, intermediate 512) on the machine "
        "`fig8`, in cycles. *RTL* is Verilated and every beat of every channel",
        "compared with the model's; *error* is RTL against model; the last column is the speed "
        "of that RTL run.",
        "",
        "| tile_b | tile_inter | STeP simulator (published) | our `published` timing | HDL "
        "(published) | model | RTL | error | off-chip bytes / 256 | RTL cycles/s |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for r in rows:
        run = rtl[r["tile_b"], r["tile_inter"]]
        cells = [
            r["tile_b"],
            r["tile_inter"],
            r["step_cycles"],
            r["published_cycles"],
            r["hdl_cycles"] or "",
            r["model_cycles"],
            r["rtl_cycles"],
            f"{run.cycles / r['model_cycles'] - 1:.0%}",
            f"{r['model_dram_bytes'] / 256:.0f}",
            f"{run.cycles / run.wall_s:.0f}",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    runs = list(rtl.values())
    lines += [
        "",
        f"RTL: {len(runs)} points, {sum(r.mismatches for r in runs)} mismatched beats, "
        f"{min(r.channels_observed for r in runs)} of "
        f"{max(r.channels_total for r in runs)} channels observed, outputs bit-equal to the "
        f"NumPy reference at {sum(bool(r.values_ok) for r in runs)} points, largest error "
        f"against float64 {max(r.max_rel_err for r in runs):.1e}, "
        f"{sum(r.cycles for r in runs) / sum(r.wall_s for r in runs):.0f} RTL cycles/s in all "
        f"({_made_with(runs[0].versions)}).",
        "",
        "| | against | points | Pearson | largest error |",
        "|---|---|--:|--:|--:|",
    ]
    for a in figures.fig8_agreements(rows):
        lines.append(
            f"| {_name(a['of'])} | {_name(a['against'])} | {a['points']} | {a['pearson']:.4f} | "
            f"{a['max_error']:.1%} |"
        )
    return "\n".join(lines)


def _made_with(versions: dict) -> str:
    commit = [f"commit {versions['commit']}"] if "commit" in versions else []
    return ", ".join(
        [*commit, f"Python {versions['python']}", f"Verilator {versions['verilator']}"]
    )


def _name(column: str) -> str:
    return {
        "published_cycles": "our `published` timing",
        "step_cycles": "STeP simulator (published)",
        "hdl_cycles": "HDL (published)",
        "model_cycles": "model",
        "rtl_cycles": "RTL",
    }[column]


def speed_block(record: dict) -> str:
    """The targets, what was measured, and whether they are met."""
    lines = [
        f"Measured in one run of `bench/speed.py` on {record['cores']} cores "
        f"({_made_with(record['versions'])}).",
        "",
        "| | target | measured | |",
        "|---|--:|--:|---|",
    ]
    for t in record["targets"]:
        sign = {"at least": "≥", "at most": "≤"}[t["bound"]]
        measured = "" if t["measured"] is None else f"{_amount(t['measured'])} {t['unit']}"
        lines.append(
            f"| {t['what']} | {sign} {_amount(t['limit'])} {t['unit']} | {measured} | "
            f"{t['verdict']} |"
        )
    return "\n".join(lines)


def _amount(x: float) -> str:
    """Three digits, with k or M."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if x >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:.3g}"


def program_code() -> str:
    """The README's program."""
    return inspect.getsource(simple_moe.program)


def program_output() -> str:
    """What the README's command prints about it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if cli.main([*COMMAND, "--quiet"]):
            raise SystemExit(1)
    return out.getvalue()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument(
        "--records",
        type=Path,
        metavar="DIR",
        help="renew the RTL's stored records from this folder",
    )
    args = p.parse_args()
    if args.records:
        rtl = [
            replace(r, units=[], channels=[])
            for r in api.load_records(args.records / "fig8_records.json")
            if r.backend == "rtl" and r.mismatches is not None
        ]
        api.save_records(rtl, STORED_RTL)
    records = stored_records()
    readme = README.read_text()
    readme = insert(readme, FIGURE, figure_block(records))
    readme = insert(readme, SPEED, speed_block(json.loads(SPEED_RECORD.read_text())))
    for language, text in (("python", program_code()), ("text", program_output())):
        readme = re.sub(
            rf"```{language}\n.*?```",
            lambda _: f"```{language}\n{text}```",
            readme,
            count=1,
            flags=re.S,
        )
    write_text(README, readme)
    with tempfile.TemporaryDirectory() as folder:
        figures.fig8(Path(folder), records)
        (RESULTS / "fig8.png").write_bytes((Path(folder) / "fig8.png").read_bytes())
    config = load("fig8")
    draw_fabric(lower(build("swiglu", {}, config).graph, config), config, RESULTS / "fabric.png")


if __name__ == "__main__":
    main()
