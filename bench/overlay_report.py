"""Writes docs/overlay_results.md from the records in docs/results: `python bench/overlay_report.py
[DIR]`.

The records: overlay_figures.json, made here, with the pictures, of what `penstock overlay figures
--out DIR` left (where DIR is given); overlay_rtl.json and overlay_speed.json, as
bench/overlay_rtl.py and bench/overlay_speed.py write them (a missing one leaves its section out).
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

from penstock.machine.record import load
from penstock.runs import api
from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "overlay_results.md"
RESULTS = ROOT / "docs" / "results"
FIGURES, RTL, SPEED = (RESULTS / f"overlay_{name}.json" for name in ("figures", "rtl", "speed"))

TEXT = """# The overlay: results

Written by `bench/overlay_report.py` from the records in docs/results; nothing here is typed by hand. Published curves: Kapre & Siddhartha, DFM 2014, figures 10 and 11, digitised.

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

## One PE

What one PE takes is known: dynamic PEs (FIFO, a token per edge) a cycle an edge, static ones a cycle a node that fires, which are the nodes with fan-out (*read*) and the operations whose results nobody reads (*results*): these have to be computed
too. *over*: cycles over edges, and over nodes with fan-out.

{anchors}

## All listed graphs, 1 to 256 PEs

*dynamic*, *static*: the reading above (FIFO, a token per edge; static multicast; least edge cut). *best static*: the best of the three ways of sending, with either placement; *best dynamic*: criticality, packets per PE,
two consumers a cycle, placed by connectivity. Graphs: [dataflow_graphs.md](dataflow_graphs.md).

![sweep](results/overlay_sweep.png)

{sweep}
"""

RTL_TEXT = """
## RTL against the model

Runs on RTL whose total cycles equal the model's (static PEs: the schedule's too) and whose every value equals the NumPy reference in every bit, of those made: {runs} runs of {cases} cases, {cycles} cycles of runs and
{clocks} clocks with loading and reading{bad}. A case is one build; its graphs run one after the other without a reset in between. `python bench/overlay_rtl.py` makes the record
([overlay_rtl.json](results/overlay_rtl.json): cycles of every run, seconds of every case), `pytest -m deep tests/token/test_overlay_regression.py` the same as tests.

{table}

Graphs of the small meshes and of 8x8: {graphs}. *adversarial*: placements that make the worst traffic, with FIFOs 2 deep (`overlay/traffic.py`).
"""

SPEED_TEXT = """
## Speed

`python bench/overlay_speed.py`, {cores} cores, load average {load} before it began. *wall s* is what is judged (with a load beside it, that counts against it); *CPU s* has all children in it.

{table}
"""


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
    assumptions = (
        f"{', '.join(sorted(formats))}, {', '.join(sorted(alus))} ALU latency, a cycle per hop, "
        "router FIFOs "
        f"{', '.join(sorted({str(r.params['fifo_depth']) for r in records if 'fifo_depth' in r.params}))} "
        "deep, "
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


def rtl_section(record: dict) -> str:
    """One row per variant, one column per mesh and kind of ALU: runs that are equal, of those made."""
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
    runs = [g for case in record["cases"] for g in case["graphs"]]
    wrong = sum(not g["equal"] for g in runs)
    nodes = {g["graph"]: g["nodes"] for g in runs}
    return RTL_TEXT.format(
        runs=len(runs),
        cases=len(record["cases"]),
        cycles=sum(g["cycles"] for g in runs),
        clocks=sum(case["clocks"] for case in record["cases"]),
        bad=f"; {wrong} DIFFER" if wrong else "",
        table=markdown(table, ["variant", *columns]),
        graphs=", ".join(
            f"`{g}` ({nodes[g]} nodes)"
            for g in max(([g["graph"] for g in c["graphs"]] for c in record["cases"]), key=len)
        ),
    )


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
    return SPEED_TEXT.format(
        cores=record["cores"], load=record["load"], table=markdown(table, list(names.values()))
    )


def main(folder: Path | None) -> None:
    if folder:
        keep(folder)
    record = json.loads(FIGURES.read_text())
    cycles = record["cycles"]
    causes = record["causes"]
    sweep = record["sweep"]
    columns = [c for c in cycles[0] if c not in ("figure", "nodes", "edges", "depth")]
    short = [
        c
        for c in causes[0]
        if c in ("graph", "PEs") or c.startswith("static multicast") or c.endswith("ratio")
    ]
    found = saturation(cycles)
    one = anchors(sweep)
    page = TEXT.format(
        assumptions=record["assumptions"],
        cycles=markdown(cycles, columns),
        causes=markdown(causes, short),
        saturation=markdown(found, list(found[0])),
        anchors=markdown(one, list(one[0])),
        sweep=markdown(sweep, [c for c in sweep[0] if c not in ("read", "results")]),
    )
    for file, section in ((RTL, rtl_section), (SPEED, speed_section)):
        if file.exists():
            page += section(json.loads(file.read_text()))
    write_text(PAGE, page)
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
