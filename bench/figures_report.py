"""The tables of docs/figures.md, for `docs/generate.py`.

`python bench/figures_report.py --records DIR` renews them and their pictures from what `penstock
figures` left; with `--pictures` the pictures are drawn again from the stored tables.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from penstock.figures import FIGURES
from penstock.figures.base import SECONDS, draw
from penstock.figures.published import statements
from penstock.system.output import folder
from tables import frame

ROOT = Path(__file__).parents[1]
STORED = ROOT / "docs" / "results" / "figures"


def text(x) -> str:
    return "" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x)


def table(rows: list[dict]) -> str:
    names = list(dict.fromkeys(k for r in rows for k in r))
    right = [not any(isinstance(r.get(n), str) for r in rows) for n in names]
    return frame(names, [[text(r.get(n)) for n in names] for r in rows], right)


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/figures.md."""
    return {"seconds": taken} | {name: lambda name=name: section(name) for name in FIGURES}


def section(name: str) -> str:
    """Summary, agreement with the published numbers, and all points of a figure."""
    found = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    tables = [table(found[key]) for key in ("summary", "agreements", "rows") if found[key]]
    return "\n\n".join([f"{found['title']} ({found['traces']}).", *tables])


def taken() -> str:
    """How long the figures take to make."""
    rows = [
        ("all figures, timing `stepsim`, one core", f"{seconds(SECONDS):.0f} s"),
        ("all figures, this machine's timing", f"{seconds(f'{SECONDS}, this machine'):.0f} s"),
        ("the published artifact, 8 vCPU", f"{sum(statements(n)['hours'] for n in FIGURES):.1f} h"),
    ]
    return frame(("what", "takes"), rows, (False, True))


def seconds(what: str) -> float:
    """Of all figures together."""
    return sum(
        s["ours"]
        for name in FIGURES
        for s in json.loads((STORED / f"{name}.json").read_text())["summary"]
        if s["what"] == what
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


if __name__ == "__main__":
    main()
