"""Writes docs/overlay_results.md and its pictures from what `penstock overlay figures --out DIR` left: `python bench/overlay_report.py DIR`."""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

from penstock.machine.record import load, write_text

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "overlay_results.md"
PICTURES = ROOT / "docs" / "results"

TEXT = """# The overlay: results

Written by `bench/overlay_report.py` from the tables of `penstock overlay figures`; nothing here is typed by hand. Published curves: Kapre & Siddhartha, DFM 2014, figures 10 and 11, digitised.

What the numbers rest on: {assumptions}. Figures 10 to 12 take the reading that fits the paper: FIFO order, a token per edge, static multicast, one placement of least edge cut for both kinds of PE.
The paper's large graphs are not public; graphs of the same size stand in (column *ours*).

## Matrix solve (figure 10) and model evaluation (figure 11)

![figure 10](results/overlay_fig10.png)
![figure 11](results/overlay_fig11.png)
![figure 12](results/overlay_fig12.png)

{cycles}

## What the ratio is made of

Cycles over those of the best static variant of the same mesh, each variant with the placement (cut or connectivity) that suits it better. `wake2` serves two consumers of a packet a cycle (docs/overlay.md section 3.1).

![causes](results/overlay_causes.png)

{causes}

## Device models: where they saturate

{saturation}
"""


def rows(path: Path) -> list[dict]:
    with path.open(newline="") as f:
        return list(csv.DictReader(f))


def markdown(table: list[dict], columns: list[str]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "".join("---|" if i < 2 else "--:|" for i in range(len(columns)))]
    return "\n".join(lines + ["| " + " | ".join(r.get(c, "") for c in columns) + " |" for r in table])


def saturation(cycles: list[dict]) -> list[dict]:
    """Per device, kind of PE and scheduling: the mesh with the fewest cycles, and the gain over one PE."""
    out = []
    for name in dict.fromkeys(r["graph"] for r in cycles if r["figure"] == "11"):
        mine = [r for r in cycles if r["graph"] == name]
        for column in ("static homogeneous", "static specialised", "published static", "dynamic homogeneous", "dynamic specialised", "published dynamic"):
            known = [r for r in mine if r[column]]
            best = min(known, key=lambda r: int(r[column]))
            out.append({"graph": name, "PEs of": column, "fewest cycles": best[column], "at PEs": best["PEs"], "gain over one PE": f"{int(known[0][column]) / int(best[column]):.1f}"})
    return out


def main(folder: Path) -> None:
    cycles, causes = rows(folder / "overlay_cycles.csv"), rows(folder / "overlay_causes.csv")
    records = load(folder / "overlay_records.json")
    seeds = sorted({r.seed for r in records})
    formats, alus = {r.params["format"] for r in records}, {r.params["alu"] for r in records}
    assumptions = (f"{', '.join(sorted(formats))}, {', '.join(sorted(alus))} ALU latency, a cycle per hop, router FIFOs {', '.join(sorted({str(r.params['fifo_depth']) for r in records if 'fifo_depth' in r.params}))} deep, "
                   f"memories sized per graph, placement seeds {', '.join(map(str, seeds))}; {len(records)} runs of the model, whose values "
                   + ("all equal the NumPy reference bit for bit" if all(r.values_ok for r in records) else "DO NOT all equal the NumPy reference"))
    for name in ("fig10", "fig11", "fig12", "overlay_causes"):
        shutil.copy(folder / f"{name}.png", PICTURES / (f"overlay_{name}.png" if name.startswith("fig") else f"{name}.png"))
    columns = [c for c in cycles[0] if c not in ("figure", "nodes", "edges", "depth")]
    short = [c for c in causes[0] if c in ("graph", "PEs") or c.startswith("static multicast") or c.endswith("ratio")]
    found = saturation(cycles)
    write_text(PAGE, TEXT.format(assumptions=assumptions, cycles=markdown(cycles, columns), causes=markdown(causes, short), saturation=markdown(found, list(found[0]))))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
