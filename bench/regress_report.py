"""Writes docs/regression.md from the stored table of `penstock regress`; with `--records DIR` from
a new one, which it stores: `python bench/regress_report.py`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from penstock.frontend import build
from penstock.frontend.graph import OPERATORS
from penstock.runs import points, regress
from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "regression.md"
RECORD = ROOT / "docs" / "results" / "regress.json"

TEXT = """# The regression

`penstock regress --out DIR` runs programs over all operators and all workloads on model and RTL, several draws of inputs and streams to a build, and compares every beat of every channel, cycles and
values; `--deep` adds the workloads at larger sizes. This page is written from its stored table by `python bench/regress_report.py` (new records: `--records DIR`).

{passed}; {cycles} RTL cycles, {channels} channels observed, {differ} beats differ; simulations {wall:.0f} s ({commits}, Verilator {verilator}).

{designs}

*cycles*: sum over the points, on the model and on the RTL.{missing}

## Where each operator is

{operators}

## Where each function is

{functions}
"""


def markdown(header: tuple[str, ...], rows: list[tuple]) -> str:
    """A table; numbers stand at the right."""
    cells = [[f"{v:.2g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    return frame(
        header,
        cells,
        [bool(rows) and isinstance(rows[0][i], (int, float)) for i in range(len(header))],
    )


def by_design(rows: list[dict]) -> list[tuple]:
    """One line for each design, from the rows of its points."""
    out = []
    for name in dict.fromkeys(r["design"] for r in rows):
        mine = [r for r in rows if r["design"] == name]
        channels = (
            mine[0].get("channels", "-")
            if len({r.get("channels") for r in mine}) == 1
            else "several"
        )
        out.append(
            (
                name,
                len(mine),
                sum(r.get("cycles model") or 0 for r in mine),
                sum(r.get("cycles RTL") or 0 for r in mine),
                channels,
                sum(r.get("differ") or 0 for r in mine),
                "yes" if all(r.get("values") for r in mine) else "NO",
                float(max(r.get("max rel err") or 0.0 for r in mine)),
            )
        )
    return out


def uses(names: set[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Operators and functions, each with those of the designs ``names`` whose programs contain it."""
    operators: dict[str, list[str]] = {
        n: [] for n, cls in OPERATORS.items() if cls.__module__.startswith("penstock.")
    }
    functions: dict[str, list[str]] = {}
    for d in regress.DESIGNS:
        if d.name in names:
            for node in build(d.program, d.points[0], d.machine()).graph.nodes:
                found = [operators.setdefault(type(node).__name__, [])]
                if fn := node.args.get("fn"):
                    found.append(functions.setdefault(fn.name, []))
                for f in found:
                    if d.name not in f:
                        f.append(d.name)
    return operators, functions


def page(table: dict) -> str:
    """docs/regression.md."""
    rows = table["rows"]
    total = table["total"]
    versions = table["versions"]
    names = {r["design"] for r in rows}
    operators, functions = uses(names)
    missing, deep = (
        [d.name for d in regress.DESIGNS if d.deep == kind and d.name not in names]
        for kind in (False, True)
    )

    def listed(found: dict[str, list[str]]) -> list[tuple]:
        return [
            (
                f"`{n}`",
                ", ".join(designs[:4])
                + (f" and {len(designs) - 4} more" if len(designs) > 4 else ""),
            )
            for n, designs in sorted(found.items())
        ]

    return TEXT.format(
        passed=total["point"],
        cycles=total["cycles RTL"],
        channels=total["channels"],
        differ=total["differ"],
        wall=total["wall s"],
        commits=told(rows, versions),
        verilator=versions["verilator"],
        designs=markdown(
            (
                "design",
                "points",
                "cycles, model",
                "RTL",
                "channels",
                "differ",
                "bit-equal to NumPy",
                "error against float64",
            ),
            by_design(rows),
        ),
        missing=f" Not in the stored table: {', '.join(missing)}; with `--deep`: {', '.join(deep)}."
        if missing
        else f" Not in the stored table, with `--deep`: {', '.join(deep)}."
        if deep
        else "",
        operators=markdown(("operator", "designs"), listed(operators)),
        functions=markdown(("function", "designs"), listed(functions)),
    )


def told(rows: list[dict], versions: dict) -> str:
    """The commits that the designs ran at, the one of most rows first."""
    count = Counter(r.get("commit", versions.get("commit", "-")).rstrip("+") for r in rows)
    (first, _), *others = count.most_common()
    return f"commit {first}" + "".join(
        "; "
        f"{', '.join(dict.fromkeys(r['design'] for r in rows if r.get('commit', '').rstrip('+') == c))}: "
        f"{c}"
        for c, _ in others
    )


def joined(tables: list[dict]) -> dict:
    """One table of several runs, in the order of the designs; a design of several is that of the
    last, and each row has the commit of its run.
    """
    last = {r["design"]: t for t in tables for r in t["rows"]}
    order = [d.name for d in regress.DESIGNS]
    rows = [
        r | {"commit": r.get("commit", t["versions"]["commit"])}
        for t in tables
        for r in t["rows"]
        if last[r["design"]] is t
    ]
    rows.sort(key=lambda r: order.index(r["design"]))
    return {
        "rows": rows,
        "total": points.total(rows, design="total"),
        "versions": tables[-1]["versions"],
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument(
        "--records",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="folders that `penstock regress --out` wrote; a design of several is that of the last",
    )
    args = p.parse_args()
    if args.records:
        write_text(
            RECORD,
            json.dumps(
                joined(
                    [json.loads((folder / "regress.json").read_text()) for folder in args.records]
                ),
                indent=1,
            )
            + "\n",
        )
    write_text(PAGE, page(json.loads(RECORD.read_text())))


if __name__ == "__main__":
    main()
