"""Writes docs/figures.md from the stored tables of `penstock figures`;
with `--records DIR` from new ones, which it stores with their pictures; with `--pictures` the
pictures are drawn again from the stored tables: `python bench/figures_report.py`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from penstock.figures import FIGURES
from penstock.figures.base import SECONDS, draw
from penstock.figures.published import statements
from penstock.system.output import folder, write_text
from tables import frame

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "figures.md"
STORED = ROOT / "docs" / "results" / "figures"

TEXT = """# The paper's figures

```sh
penstock new traces
penstock figures fig15 --out out --traces traces
```

```sh long
penstock figures fig9 --out out --traces traces
penstock figures all --machine --out drawn
```

The last one makes figure 8 ([top.md](top.md), with the RTL) and those below: mixtures of experts and attention at full model size, in the timing `stepsim` ([its rules](stepsim.md), and why a few points are near
and not exact) and in this machine's own (`machine_cycles`, *this machine*: what its RTL takes, cycle for cycle, [docs/timing.md](timing.md)). On one core of the machine that wrote this page the former took {seconds:.0f} s
together, the latter {own:.0f} s; the published artifact takes {hours:.1f} h on 8 vCPU. `--traces` names a folder with the published routing (`routing/MODEL_bBATCH.npz`) and KV lengths
(`kv_lengths/bBATCH_stdevNAME.npy`). `penstock new traces` copies all of the routing (figures 9, 10, 12, 13) and two batches of 64 lengths (figure 15, and two of the rows of figure 14); without `--traces` both are drawn
(seeded, of the same sizes), and no published numbers stand beside ours. This page is written by `python bench/figures_report.py` from the tables that the command left; *step* columns are published numbers.

Two things of the published numbers, so that they can be read:

* *On-chip memory* is that of all experts where tiles are static (`onchip_bytes`), and that of experts with tokens where they are dynamic or experts share regions (`onchip_active_bytes`: only operators that
  were given an element). Our tables have both for every point, and the distances by each; with one rule for both kinds of tiles the advantage of dynamic ones is smaller than the paper's text says.
* *Compute used* (figure 12) counts a SiLU as 8 FLOP for each element of the product behind it, 14/6 of the program's FLOP (`flops`); the gain by sharing is the same.

*This machine* is another one than the published simulator's: its operators compute a product of two physical tiles a cycle (8,192 FLOP, published 1,024 to 6,400), its loads move on while a tile waits, a logical tile
streams through as physical ones (`sim_configs/paper_moe.toml`, `paper_attention.toml`). Where the memory is the bound (figure 9, Mixtral) both are near each other; attention, which is bound by compute there, is bound by memory here, and
gains less by dynamic parallelisation.

Figures 12 and 13 are not made in this machine's timing: with few regions (4, say) the program deadlocks there, where a channel holds two physical tiles, not two logical ones; the workload `moe` has the channels that it takes ([dynamic.md](dynamic.md)). Figure 10, the longest, is below without it, too.

Figure 21 has nine traces of 16 requests in the paper and three here. Coarse parallelisation gives a region 16 consecutive requests: with a batch of 16 one region works, with 80 the first one works twice. Figure 17 (end to end) was published without a script and is not made.
{figures}"""

SECTION = """
## {title}

![{name}](results/figures/{name}.png)

{summary}

{agreements}

{rows}
"""


def text(x) -> str:
    return "" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x)


def table(rows: list[dict]) -> str:
    names = list(dict.fromkeys(k for r in rows for k in r))
    right = [not any(isinstance(r.get(n), str) for r in rows) for n in names]
    return frame(names, [[text(r.get(n)) for n in names] for r in rows], right)


def section(name: str) -> str:
    found = json.loads((STORED / f"{name}.json").read_text())
    return SECTION.format(
        name=name,
        title=f"{found['title']} ({found['traces']})",
        **{k: table(found[k]) for k in ("summary", "agreements", "rows")},
    )


def seconds(what: str) -> float:
    """Of all figures together."""
    return sum(
        s["ours"]
        for name in FIGURES
        for s in json.loads((STORED / f"{name}.json").read_text())["summary"]
        if s["what"] == what
    )


def page() -> str:
    return TEXT.format(
        figures="".join(map(section, FIGURES)),
        seconds=seconds(SECONDS),
        own=seconds(f"{SECONDS}, this machine"),
        hours=sum(statements(n)["hours"] for n in FIGURES),
    )


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument(
        "--records",
        type=Path,
        metavar="DIR",
        help="what `penstock figures all --machine --traces ... --out DIR` left",
    )
    p.add_argument("--pictures", action="store_true", help="draw the stored tables again")
    args = p.parse_args()
    if args.records:
        folder(STORED)
        for name in FIGURES:
            for end in (".json", ".png"):
                shutil.copyfile(args.records / f"{name}{end}", STORED / f"{name}{end}")
    if args.pictures:
        for name, figure in FIGURES.items():
            found = json.loads((STORED / f"{name}.json").read_text())
            draw(figure, found["rows"], STORED / f"{name}.png", found["traces"])
    write_text(PAGE, page())


if __name__ == "__main__":
    main()
