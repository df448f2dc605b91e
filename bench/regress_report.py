"""The tables of docs/regression.md, for `docs/generate.py`.

`python bench/regress_report.py --records DIR ...` renews the record from what `penstock regress`
left.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable
from pathlib import Path

from penstock.frontend import build
from penstock.frontend.graph import OPERATORS
from penstock.runs import regress
from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "results" / "regress.json"


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
                mine[0].get("commit", stored()["versions"]["commit"]).rstrip("+"),
            )
        )
    return out


def uses(names: set[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Operators and functions, each with those of the designs ``names`` that have it."""
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


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/regression.md."""
    return {
        "total": total,
        "designs": designs,
        "operators": lambda: listed("operator", uses(names())[0]),
        "functions": lambda: listed("function", uses(names())[1]),
    }


@functools.cache
def stored() -> dict:
    """The stored table."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def names() -> set[str]:
    """The designs of the stored table."""
    return {r["design"] for r in stored()["rows"]}


def total() -> str:
    """What all points come to, and which designs are not among them."""
    found = stored()["total"]
    versions = stored()["versions"]
    missing = [d.name for d in regress.DESIGNS if d.name not in names()]
    rows = [
        ("points", found["point"]),
        ("cycles on the model", str(found["cycles model"])),
        ("cycles on RTL", str(found["cycles RTL"])),
        ("channels observed", found["channels"]),
        ("beats that differ", str(found["differ"])),
        ("simulations, s", f"{found['wall s']:.0f}"),
        ("made with", f"Verilator {versions['verilator']}"),
        ("designs not in the table", ", ".join(missing) or "none"),
    ]
    return markdown(("what", "how much"), rows)


def designs() -> str:
    """A line for each design."""
    header = (
        "design",
        "points",
        "cycles, model",
        "RTL",
        "channels",
        "differ",
        "bit-equal to NumPy",
        "error against float64",
        "commit",
    )
    return markdown(header, by_design(stored()["rows"]))


def listed(what: str, found: dict[str, list[str]]) -> str:
    """What is used where: four designs, and how many more."""
    rows = []
    for name, where in sorted(found.items()):
        more = f" and {len(where) - 4} more" if len(where) > 4 else ""
        rows.append((f"`{name}`", f"{', '.join(where[:4])}{more}"))
    return markdown((what, "designs"), rows)


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
        "total": tables.total(rows, design="total"),
        "versions": tables[-1]["versions"],
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument(
        "--records",
        type=Path,
        nargs="+",
        metavar="DIR",
        required=True,
        help="folders that `penstock regress --out` wrote; a design of several is that of the last",
    )
    args = p.parse_args()
    found = [json.loads((folder / "regress.json").read_text()) for folder in args.records]
    write_text(RECORD, json.dumps(joined(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
