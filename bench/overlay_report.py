"""The results of docs/overlay_results.md, for `docs/generate.py`.

`python bench/overlay_report.py DIR` renews overlay_figures.json and the pictures from what
`penstock overlay figures --out DIR` left; bench/overlay_rtl.py and bench/overlay_speed.py write
the other two records.
"""

from __future__ import annotations

import csv
import functools
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.machine.record import load
from penstock.runs import api
from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
FIGURES, RTL, SPEED = (RESULTS / f"overlay_{name}.json" for name in ("figures", "rtl", "speed"))


def rows(path: Path) -> list[dict]:
    with path.open(newline="") as f:
        return list(csv.DictReader(f))


def markdown(table: list[dict], columns: list[str]) -> str:
    return frame(
        columns,
        [[r.get(c, "") for c in columns] for r in table],
        [i >= 2 for i in range(len(columns))],
    )


def saturation(cycles: list[dict]) -> list[dict]:
    """Per device, kind of PE and scheduling: the mesh with the fewest cycles, and the gain over one
    PE.
    """
    out = []
    for name in dict.fromkeys(r["graph"] for r in cycles if r["figure"] == "11"):
        mine = [r for r in cycles if r["graph"] == name]
        for column in (
            "static homogeneous",
            "static specialised",
            "published static",
            "dynamic homogeneous",
            "dynamic specialised",
            "published dynamic",
        ):
            known = [r for r in mine if r[column]]
            best = min(known, key=lambda r: int(r[column]))
            out.append(
                {
                    "graph": name,
                    "PEs of": column,
                    "fewest cycles": best[column],
                    "at PEs": best["PEs"],
                    "gain over one PE": f"{int(known[0][column]) / int(best[column]):.1f}",
                }
            )
    return out


def anchors(sweep: list[dict]) -> list[dict]:
    """Per graph: cycles of one PE, and what they exceed its edges and its nodes with fan-out by."""
    out = []
    for r in sweep:
        if r["PEs"] == "1":

            def over(cycles, count):
                return f"{int(cycles) - int(count)} ({100 * (int(cycles) / int(count) - 1):.2f} %)"

            out.append(
                {n: r[n] for n in ("graph", "nodes", "depth", "edges", "dynamic")}
                | {"over edges": over(r["dynamic"], r["edges"])}
                | {n: r[n] for n in ("read", "results", "static")}
                | {"over read": over(r["static"], r["read"])}
            )
    return out


def keep(folder: Path) -> None:
    """The record and the pictures of `penstock overlay figures`."""
    records = load(folder / "overlay_records.json")
    seeds = sorted({r.seed for r in records})
    formats = {r.params["format"] for r in records}
    alus = {r.params["alu"] for r in records}
    depths = sorted({str(r.params["fifo_depth"]) for r in records if "fifo_depth" in r.params})
    assumptions = (
        f"{', '.join(sorted(formats))}, {', '.join(sorted(alus))} ALU latency, a cycle per hop, "
        f"router FIFOs {', '.join(depths)} deep, "
        f"memories sized per graph, placement seeds {', '.join(map(str, seeds))}; {len(records)} "
        "runs of the model, whose values "
        + (
            "all equal the NumPy reference bit for bit"
            if all(r.values_ok for r in records)
            else "DO NOT all equal the NumPy reference"
        )
    )
    for name in ("fig10", "fig11", "fig12", "overlay_causes", "overlay_sweep"):
        shutil.copy(
            folder / f"{name}.png",
            RESULTS / (f"overlay_{name}.png" if name.startswith("fig") else f"{name}.png"),
        )
    tables = {name: rows(folder / f"overlay_{name}.csv") for name in ("cycles", "causes", "sweep")}
    write_text(
        FIGURES,
        json.dumps({"assumptions": assumptions, **tables, "versions": api.versions()}, indent=1)
        + "\n",
    )


def rtl_equal(record: dict) -> str:
    """Equal runs of those made: a row per variant, a column per mesh and kind of ALU."""
    cells: dict[str, dict[str, list[bool]]] = {}
    for case in record["cases"]:
        further = [
            case[k]
            for k, usual in (("format", "fp32"), ("alu", "unit"), ("kinds", "homogeneous"))
            if case[k] != usual
        ] + ["adversarial"] * (case["suite"] == "adversarial")
        cells.setdefault(case["variant"], {}).setdefault(
            " ".join([case["mesh"], *further]), []
        ).extend(g["equal"] for g in case["graphs"])

    def side(column):
        return (int(column.partition("x")[0]) if " " not in column else 99, column)

    columns = sorted({c for row in cells.values() for c in row}, key=side)
    table = [
        {"variant": v} | {c: f"{sum(row[c])} of {len(row[c])}" if c in row else "" for c in columns}
        for v, row in cells.items()
    ]
    return markdown(table, ["variant", *columns])


def rtl_runs(record: dict) -> str:
    """How many runs were made, and how many were equal."""
    runs = [g for case in record["cases"] for g in case["graphs"]]
    rows = [
        ("runs on RTL", len(runs)),
        ("cases", len(record["cases"])),
        ("runs equal in cycles and in every bit of every value", sum(g["equal"] for g in runs)),
        ("cycles of runs", sum(g["cycles"] for g in runs)),
        ("clocks with loading and reading", sum(case["clocks"] for case in record["cases"])),
    ]
    return frame(("what", "number"), [(what, str(n)) for what, n in rows], (False, True))


def rtl_graphs(record: dict) -> str:
    """The graphs of the suite that has most."""
    every = [[(g["graph"], g["nodes"]) for g in case["graphs"]] for case in record["cases"]]
    rows = [(f"`{name}`", str(nodes)) for name, nodes in max(every, key=len)]
    return frame(("graph", "nodes"), rows, (False, True))


def speed_section(record: dict) -> str:
    """The lines of bench/overlay_speed.py."""
    names = {
        "what": "what",
        "graph": "graph",
        "nodes": "nodes",
        "limit": "at most s",
        "wall_s": "wall s",
        "cpu_s": "CPU s",
        "cycles": "cycles",
        "verdict": "verdict",
    }
    table = [
        {title: "" if r[key] is None else str(r[key]) for key, title in names.items()}
        for r in record["measured"]
    ]
    made = f"Made on {record['cores']} cores, load average {record['load']} before it began."
    return f"{markdown(table, list(names.values()))}\n\n{made}"


@functools.cache
def stored(path: Path) -> dict:
    """A stored record."""
    return json.loads(path.read_text(encoding="utf-8"))


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/overlay_results.md."""
    return {
        "assumptions": assumptions,
        "cycles": cycles,
        "causes": causes,
        "saturation": lambda: whole(saturation(stored(FIGURES)["cycles"])),
        "one PE": lambda: whole(anchors(stored(FIGURES)["sweep"])),
        "sweep": sweep,
        "runs on RTL": lambda: rtl_runs(stored(RTL)),
        "equal on RTL": lambda: rtl_equal(stored(RTL)),
        "graphs on RTL": lambda: rtl_graphs(stored(RTL)),
        "speed": lambda: speed_section(stored(SPEED)),
    }


def whole(found: list[dict]) -> str:
    """A table of every column."""
    return markdown(found, list(found[0]))


def assumptions() -> str:
    """What the numbers rest on."""
    parts = stored(FIGURES)["assumptions"].split("; ")
    return "\n".join(f"* {part[0].upper()}{part[1:]}." for part in parts)


def cycles() -> str:
    """Figures 10 and 11."""
    found = stored(FIGURES)["cycles"]
    hidden = ("figure", "nodes", "edges", "depth")
    return markdown(found, [c for c in found[0] if c not in hidden])


def causes() -> str:
    """What the ratio of dynamic to static is made of."""
    found = stored(FIGURES)["causes"]
    shown = [
        c
        for c in found[0]
        if c in ("graph", "PEs") or c.startswith("static multicast") or c.endswith("ratio")
    ]
    return markdown(found, shown)


def sweep() -> str:
    """Every listed graph on every mesh."""
    found = stored(FIGURES)["sweep"]
    return markdown(found, [c for c in found[0] if c not in ("read", "results")])


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
