"""Writes docs/overlay_resources.md and its picture from what `penstock overlay resources --out DIR` left: `python bench/overlay_resources.py DIR`."""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

from penstock.machine.record import write_text
from penstock.overlay.resources import CAPACITY

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "overlay_resources.md"
PICTURE = ROOT / "docs" / "results" / "overlay_resources.png"


def read(path: Path) -> list[dict]:
    with path.open() as file:
        return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)]


def _number(text: str):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def cell(value) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) and not value.is_integer() else f"{value:.0f}" if isinstance(value, float) else str(value)


def table(rows: list[dict], columns: dict[str, str]) -> str:
    """Columns by key, with their titles."""
    numeric = [all(isinstance(r.get(k), (int, float, type(None))) for r in rows) for k in columns]
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "|".join("--:" if n else "---" for n in numeric) + "|"]
    return "\n".join(lines + ["| " + " | ".join(cell(r.get(k)) for k in columns) + " |" for r in rows])


def pivot(rows: list[dict], by: str, keep) -> list[dict]:
    """One row per value of ``by``: LUTs of every part, ours and published."""
    out: dict[object, dict] = {}
    for r in rows:
        if keep(r):
            row = out.setdefault(r[by], {by: r[by]})
            name = f"{r['pe']} {r['part']}, {r['variant']}"
            row[name] = r["lut"]
            if r["published lut"] is not None:
                row[f"published {r['pe']} {r['part']}"] = r["published lut"]
    return [out[k] for k in sorted(out)]


def page(folder: Path) -> str:
    rows, ratios, alus, density = (read(folder / f"{name}.csv") if (folder / f"{name}.csv").exists() else [] for name in ("resources", "ratios", "alus", "density"))
    full = [r for r in rows if (r["payload"], r["contexts"]) == (32, CAPACITY)]
    by_payload = pivot(rows, "payload", lambda r: r["contexts"] == CAPACITY and "block" not in r["variant"] and r["published lut"] is not None)
    by_contexts = pivot(rows, "contexts", lambda r: r["payload"] == 32 and r["pe"] == "static")
    columns = lambda table_rows: {k: k for k in dict.fromkeys(k for r in table_rows for k in r)}  # noqa: E731
    find = lambda pe, part, variant: next(r for r in full if (r["pe"], r["part"], r["variant"]) == (pe, part, variant))  # noqa: E731
    router, hoplite = find("dynamic", "switch", "mesh"), find("dynamic", "switch", "hoplite")
    switch, last = find("static", "switch", "contexts in LUT RAM"), ratios[-1]
    pe, static_pe = find("dynamic", "PE", "fifo per_edge"), find("static", "PE", "contexts in LUT RAM")
    best = find("dynamic", "PE", "criticality per_pe")
    share = router["lut"] / (router["lut"] + pe["lut"])
    published_share = router["published lut"] / (router["published lut"] + pe["published lut"])
    return f"""# What the overlay costs

One PE and one switch, synthesised apart by Yosys for Xilinx 7 (`synth_xilinx -family xc7`), beside figures 5 to 7 of the paper (Vivado HLS, Zynq Z7010). LUTs count those used as memory; a block RAM is one of 36 kbit,
half for 18. PEs are without ALU, as in the paper; packets carry the address of a PE in 16 x 16. Written by `penstock overlay resources --out DIR && python bench/overlay_resources.py DIR`.

![figures 5 to 7](results/overlay_resources.png)

## At 32 bits, {CAPACITY} nodes, edges and contexts

{table(full, {k: k for k in ("pe", "part", "variant", "lut", "lut_ram", "ff", "bram", "published lut", "published ff")})}

## What hand-written RTL changes

* The dynamic side shrinks most: the buffered router takes {router['lut']} LUTs against {router['published lut']}, and {router['ff']} flip-flops against {router['published ff']} (its FIFOs are LUT RAM); the deflection
  router takes {hoplite['lut']} LUTs; the PE {pe['lut']} against {pe['published lut']}.
* The static side, little else than memories and multiplexers, has hardly anything to shrink: the PE takes {static_pe['lut']} LUTs ({static_pe['lut_ram']} of them contexts) against {static_pe['published lut']}, the switch {switch['lut']}
  ({switch['lut_ram']}) against {switch['published lut']}.
* The router's share of the dynamic tile is {share:.0%} (published: {published_share:.0%}).
* With contexts in LUT RAM, as in the paper, dynamic over static at {last['contexts']} contexts is {last['lut, contexts in LUT RAM']:.2f} in LUTs (published {last['published lut']:.2f}), {last['ff, contexts in LUT RAM']:.2f} in flip-flops
  ({last['published ff']:.2f}) and {last['bram, contexts in LUT RAM']:.2f} in block RAM ({last['published bram']:.2f}). With contexts in block RAM, the natural choice at this depth, LUTs of the static tile hardly grow with the schedule: the ratio is
  {last['lut, contexts in block RAM']:.2f} in LUTs and {last['bram, contexts in block RAM']:.2f} in block RAM: what makes a static overlay small is where its schedule lies.
* Criticality order makes the dynamic PE {best['lut'] / pe['lut']:.1f} times as large ({best['lut']} LUTs, for ready bits and two leading-one detectors); consumer chains cost a memory ({best['bram']} block RAMs in all), and no logic to speak of.

## LUTs by payload, {CAPACITY} contexts

{table(by_payload, columns(by_payload))}

## LUTs by contexts, 32 bits

{table(by_contexts, columns(by_contexts))}

## Dynamic over static (figure 7)

The dynamic PE has its full capacity throughout, as in the paper.

{table(ratios, columns(ratios))}

{_alus(alus)}## Results per LUT and per block RAM

Operations per 1000 cycles, by the model's cycles on tiles of full capacity (PE without ALU, and switch; static: contexts in LUT RAM). Graphs that need more than {CAPACITY} words of a memory have no number.

{table(density, columns(density))}
"""


def _alus(rows: list[dict]) -> str:
    if not rows:
        return ""
    whole = [r for r in rows if r["part"] != "ALU"]
    alone = next(r for r in rows if (r["part"], r["operations"], r["latency"]) == ("ALU", whole[0]["operations"], whole[0]["latency"]))
    return f"""## With ALU

*unit*: latency 1 for every operation; *pipelined*: the latencies of `machine/overlay.py`. A homogeneous ALU takes {alone['lut']} of the {whole[0]['lut']} LUTs of its {whole[0]['part']}.

{table(rows, {k: k for k in rows[0]})}

"""


def main() -> None:
    folder = Path(sys.argv[1])
    write_text(PAGE, page(folder))
    shutil.copy(folder / "resources.png", PICTURE)
    print(f"wrote {PAGE.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
