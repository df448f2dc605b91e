"""Writes the README's results and stores the RTL's records: `penstock figures fig8 --rtl --out DIR && python bench/report.py DIR`.

The table, the stored RTL records (penstock/published/fig8_rtl.json), docs/results/fig8.png and the drawing of the program come from DIR.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from penstock import api, figures

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
BEGIN, END = "<!-- results: written by bench/report.py -->", "<!-- end of results -->"


def block(records: list) -> str:
    """The README's results: figure 8 on every backend, and how far they agree."""
    rows = figures.fig8_rows(records)
    lines = ["Figure 8 (SwiGLU, batch 64, hidden 256, intermediate 512), in cycles; *RTL* is Verilated and every beat of every channel equals the model's.", "",
             "| tile_b | tile_inter | STeP simulator (published) | our `published` timing | HDL (published) | model | RTL | off-chip bytes / 256 |", "|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for r in rows:
        cells = [r["tile_b"], r["tile_inter"], r["step_cycles"], r["published_cycles"], r["hdl_cycles"] or "", r["model_cycles"], r["rtl_cycles"] or "",
                 f"{r['model_dram_bytes'] / 256:.0f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    rtl = [r for r in records if r.backend == "rtl"]
    if rtl:
        speed = sum(r.cycles for r in rtl) / sum(r.wall_s for r in rtl)
        lines += ["", f"RTL: {len(rtl)} points, {sum(r.mismatches for r in rtl)} mismatched beats, {min(r.channels_observed for r in rtl)} of "
                  f"{max(r.channels_total for r in rtl)} channels observed, outputs bit-equal to the NumPy reference at {sum(bool(r.values_ok) for r in rtl)} points, largest error "
                  f"against float64 {max(r.max_rel_err for r in rtl):.1e}, {speed:.0f} RTL cycles/s in all."]
    agreements = [f"{a['of'].replace('_', ' ')} against {a['against'].replace('_', ' ')}: Pearson {a['pearson']:.4f}, largest error {a['max_error']:.1%}" for a in figures.fig8_agreements(rows)]
    return "\n".join([*lines, "", "; ".join(agreements) + ".", "", "Regenerate: `penstock figures fig8 --rtl --out DIR && python bench/report.py DIR`."])


def insert(readme: str, text: str) -> str:
    head, _, rest = readme.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{text}\n{END}{tail}"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder", type=Path, metavar="DIR")
    args = p.parse_args()
    from penstock.frontend import build
    from penstock.machine.config import load
    from penstock.machine.record import write_text

    records = api.load_records(args.folder / "fig8_records.json")
    readme = ROOT / "README.md"
    write_text(readme, insert(readme.read_text(), block(records)))
    rtl = [replace(r, units=[], channels=[]) for r in records if r.backend == "rtl"]
    if rtl:
        api.save_records(rtl, ROOT / "penstock" / "published" / "fig8_rtl.json")
    (RESULTS / "fig8.png").write_bytes((args.folder / "fig8.png").read_bytes())
    build("swiglu", {}, load("fig8")).draw(str(RESULTS / "fabric.png"))


if __name__ == "__main__":
    main()
