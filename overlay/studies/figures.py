"""The paper's figures 10, 11 and 12 (cycles of static and dynamic PEs over the mesh), and what its
ratio is made of: published against ours.

Everything drawn is in the CSV files beside the pictures, and comes from records
(``overlay_records.json``) and from the published numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from ...machine.errors import PenstockError
from ...machine.record import Record
from ...runs import api
from ...runs.progress import Progress
from ...runs.tables import to_csv
from ...scheduler.token import map_graph
from ...scheduler.token.mapping import TIME
from ...system.output import folder, write_picture, write_text
from ..core.config import Overlay
from ..core.dataflow import DataflowGraph
from ..graphs.source import graph_from
from ..runs.comparison import Mesh, compare, run, variants


@dataclass(frozen=True)
class Curve:
    """One graph of the paper and what stands for it: the graph itself (devices), or one of its size
    (matrices).
    """

    figure: int
    name: str
    colour: str
    spec: str
    generated: str | None = None
    """Stand-in without downloads (matrices)."""


CURVES = (
    Curve(
        10, "bomhof2_circuit_4465", "#2ca25f", "column:{}/memplus.mtx.gz:17671:d=3", "gen:gates:235"
    ),
    Curve(
        10, "bomhof2_circuit_4222", "#de2d26", "column:{}/circuit_1.mtx:2522:d=3", "gen:gates:110"
    ),
    Curve(10, "s208_401", "#3182bd", "column:{}/memplus.mtx.gz:993:d=2,chains", "gen:ladder:17"),
    Curve(11, "bsim3v32_new", "#de2d26", "device:mos"),
    Curve(11, "hbt", "#2ca25f", "device:hbt"),
    Curve(11, "vbic", "#e377c2", "device:bjt"),
    Curve(11, "jfet", "#3182bd", "device:jfet"),
    Curve(11, "diode_simple", "#8c6d31", "device:diode"),
)

SIDES = {10: range(1, 13), 11: range(1, 8)}
"""Sides of the square meshes."""

PUBLISHED_NS = {"dynamic": 12.5, "static": 5.0}
"""Middle of the paper's clock periods: 10 to 15, and 4 to 6."""

PLAIN = {"local": ["token"]}
FORWARD = {"pe": ["dynamic"], "local": ["forward"]}
"""The paper's PEs; the dynamic PE that forwards results."""

SETTINGS = {
    "published": "published ratio",
    "one placement, least cut": "ratio",
    "the same, specialised PEs": "ratio specialised",
    "one placement, for time": "ratio time",
    "each its own: dynamic least cut, static for time": "ratio own",
    "one placement, for time; results forwarded": "ratio forward",
}
"""Measurements from which dynamic over static cycles are read, and their columns."""


def published() -> list[dict]:
    """The digitised curves: figure, graph, pe, pes, cycles."""
    text = (
        files(__spec__.parent)
        .joinpath("published")
        .joinpath("overlay_cycles.csv")
        .read_text(encoding="utf-8")
    )
    return [
        r | {k: int(r[k]) for k in ("figure", "pes", "cycles")}
        for r in csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    ]


def short(title: str) -> str:
    """A graph's title without folders."""
    kind, colon, rest = title.partition(":")
    return kind + colon + Path(rest).name if "/" in rest else title


def graph_of(curve: Curve, matrices: Path | None) -> DataflowGraph:
    """The graph that is run for a curve; raises PenstockError where the folder lacks the matrix."""
    if curve.generated is None or matrices is not None:
        spec = curve.spec.format(matrices)
        if curve.generated is not None:
            file = Path(spec.split(":")[1])
            plain = (
                file.with_suffix("") if file.suffix == ".gz" else file.with_name(file.name + ".gz")
            )
            if not file.exists() and not plain.exists():
                raise PenstockError(
                    f"there is no {file.name} in {matrices}",
                    "figures",
                    remedy="leave out --matrices: generated circuits stand in",
                )
            if not file.exists():
                spec = spec.replace(str(file), str(plain))
        return graph_from(spec)
    return graph_from(curve.generated)


def measure(curve: Curve, graph: DataflowGraph, seeds: int, progress: Progress) -> list[Record]:
    """Figures 10 to 12: the paper's setting (a token per edge), placed for
    least cut as the paper did, and placed for time.
    """
    plain = variants(PLAIN)
    overlays = plain if curve.figure == 10 else plain + variants(PLAIN, kinds="specialised")
    meshes = [(k, k) for k in SIDES[curve.figure]]
    cut = compare(graph, meshes, overlays, seeds=range(seeds), objective="cut", progress=progress)
    return cut + timed(graph, meshes, range(seeds), progress)


def timed(
    graph: DataflowGraph, meshes: Iterable[Mesh], seeds: Iterable[int], progress: Progress
) -> list[Record]:
    """Static PEs placed for time, and on their placement dynamic PEs: the paper's, and those that
    forward results.
    """
    dynamic = variants(PLAIN | {"pe": ["dynamic"]}) + variants(FORWARD)
    records = []
    for (rows, cols), seed in product(meshes, seeds):
        static = map_graph(graph, Overlay(rows, cols, pe="static"), seed)
        progress.step(f"{rows}x{cols} placed for time")
        records += run(graph, static.overlay, mapped=static)
        for o in dynamic:
            o = replace(o, rows=rows, cols=cols)
            records += run(graph, o, seed=seed, objective=TIME, pe=static.pe)
    return records


def _cycles(records: list[Record], **wanted) -> int | None:
    found = [r.cycles for r in records if all(r.params.get(k) == v for k, v in wanted.items())]
    return round(median(found)) if found else None


def rows_of(curve: Curve, graph: DataflowGraph, records: list[Record]) -> list[dict]:
    """One row per mesh: published and ours (median over seeds), cycles and dynamic over static."""
    known = {(p["pe"], p["pes"]): p["cycles"] for p in published() if p["graph"] == curve.name}
    rows = []
    for k in SIDES[curve.figure]:
        row = {
            "figure": curve.figure,
            "graph": curve.name,
            "ours": short(graph.title),
            "nodes": len(graph),
            "edges": len(graph.edges),
            "depth": graph.depth,
            "PEs": k * k,
        }
        for kinds in ("homogeneous", "specialised"):
            at = {"mesh": f"{k}x{k}", "kinds": kinds, "objective": "cut"}
            row |= {
                f"dynamic {kinds}": _cycles(records, pe="dynamic", **at),
                f"static {kinds}": _cycles(records, pe="static", **at),
            }
        at = {"mesh": f"{k}x{k}", "objective": TIME}
        row |= {
            "dynamic time": _cycles(records, pe="dynamic", local="token", **at),
            "forward time": _cycles(records, pe="dynamic", local="forward", **at),
            "static time": _cycles(records, pe="static", **at),
        }
        row |= {
            "published dynamic": known.get(("dynamic", k * k)),
            "published static": known.get(("static", k * k)),
        }
        rows.append(row | ratios_of(row))
    return rows


def ratios_of(row: dict) -> dict[str, float | None]:
    """Dynamic over static of a row."""
    pairs = {
        "ratio": ("dynamic homogeneous", "static homogeneous"),
        "ratio specialised": ("dynamic specialised", "static specialised"),
        "ratio time": ("dynamic time", "static time"),
        "ratio own": ("dynamic homogeneous", "static time"),
        "ratio forward": ("forward time", "static time"),
        "published ratio": ("published dynamic", "published static"),
    }
    both = {name: (row.get(d), row.get(s)) for name, (d, s) in pairs.items()}
    return {name: round(d / s, 3) if d and s else None for name, (d, s) in both.items()}


def in_time(rows: Iterable[dict], mhz: Mapping[str, float]) -> list[dict]:
    """Rows in microseconds, by the clocks in MHz of ``dynamic``, ``static`` and ``forward`` PEs;
    what is published, by the middle of the paper's clocks.
    """
    clocks = {**mhz, **{f"published {pe}": 1e3 / ns for pe, ns in PUBLISHED_NS.items()}}
    found = []
    for row in rows:
        row = dict(row)
        for column, cycles in row.items():
            pe = column if column in clocks else column.partition(" ")[0]
            if pe in (*clocks, "forward"):
                row[column] = round(cycles / clocks[pe], 3) if cycles and pe in clocks else None
        found.append(row | ratios_of(row))
    return found


def conclusion(rows: list[dict]) -> list[dict]:
    """The paper's conclusion, by what it is read from: dynamic over static cycles of every mesh of
    more than one PE.
    """
    found = []
    for setting, column in SETTINGS.items():
        row: dict[str, Any] = {"setting": setting}
        for name, figure in (("model evaluation", 11), ("matrix solve", 10)):
            ratios = [
                r[column] for r in rows if r["figure"] == figure and r["PEs"] > 1 and r[column]
            ]
            row[f"{name}, points"] = len(ratios)
            for what, of in (("least", min), ("median", median), ("most", max)):
                row[f"{name}, {what}"] = round(of(ratios), 2) if ratios else None
        found.append(row)
    return found


def shortest(rows: Sequence[dict]) -> list[dict]:
    """Least of each curve over the meshes, and on how many PEs."""
    found = []
    columns = ("dynamic homogeneous", "dynamic time", "static time")
    for name in dict.fromkeys(r["graph"] for r in rows):
        row: dict[str, Any] = {"graph": name}
        for column in (*columns, "published dynamic", "published static"):
            mine = [r for r in rows if r["graph"] == name and r.get(column)]
            best = min(mine, key=lambda r: r[column])
            row |= {column: best[column], f"{column}, PEs": best["PEs"]}
        found.append(row)
    return found


def write_all(
    out: Path,
    matrices: Path | None = None,
    seeds: int = 3,
    progress: Progress | None = None,
    mhz: Mapping[str, float] | None = None,
) -> tuple[list[str], dict[str, list[dict]]]:
    """Run everything, write CSV, PNG and records into ``out``; returns the files' names and the
    tables by title. ``mhz``: clocks, as of :func:`in_time`, to show times by, too.
    """
    progress = progress or Progress()
    rows: list[dict] = []
    records: list[Record] = []
    for curve in CURVES:
        graph = graph_of(curve, matrices)
        runs = measure(curve, graph, seeds, progress)
        records += runs
        rows += rows_of(curve, graph, runs)
    folder(out)
    tables = {"cycles": rows, "conclusion": conclusion(rows)}
    names = list(CURVED)
    if mhz:
        tables["time"] = in_time(rows, mhz)
        tables["conclusion_time"] = conclusion(tables["time"])
        names += [f"{name}_time" for name in CURVED]
        draw_curves(tables["time"], {n: out / f"{n}_time.png" for n in CURVED}, "microseconds")
    for name, table in tables.items():
        write_text(out / f"overlay_{name}.csv", to_csv(table))
    api.save_records(records, out / "overlay_records.json")
    draw_curves(rows, {name: out / f"{name}.png" for name in CURVED})
    shown = [
        {k: v for k, v in r.items() if k not in ("nodes", "edges", "depth") and v is not None}
        for r in rows
    ]
    titled = {f"Figure {f}": [r for r in shown if r["figure"] == f] for f in (10, 11)} | {
        f"Dynamic over static {what}, meshes of more than one PE": tables[name]
        for what, name in (("cycles", "conclusion"), ("time", "conclusion_time"))
        if name in tables
    }
    files = [*(f"overlay_{name}.csv" for name in tables), "overlay_records.json"]
    return [*files, *(f"{name}.png" for name in names)], titled


CURVED = ("fig10", "fig11", "fig12")


def draw_curves(rows: list[dict], paths: dict[str, Path], unit: str = "cycles") -> None:
    """Figures 10 to 12."""
    for figure in (10, 11):
        draw_cycles([r for r in rows if r["figure"] == figure], paths[f"fig{figure}"], unit)
    draw_ratios(rows, paths["fig12"], unit)


def _grid(rows: int, columns: int, width: float, height: float):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False
    )
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return plt, fig, axes


def _save(plt, fig, path: Path) -> None:
    write_picture(path, fig, dpi=130, metadata={"Software": None})
    plt.close(fig)


def _lines(ax, rows: list[dict], columns: dict[str, dict], labelled: bool) -> None:
    colours = {c.name: c.colour for c in CURVES}
    for name in dict.fromkeys(r["graph"] for r in rows):
        mine = [r for r in rows if r["graph"] == name]
        for column, style in columns.items():
            points = [(r["PEs"] ** 0.5, r[column]) for r in mine if r.get(column)]
            if points:
                label = (
                    f"{name} ({mine[0]['ours']})"
                    if labelled and column == next(iter(columns))
                    else None
                )
                ax.plot(*zip(*points, strict=True), color=colours[name], label=label, **style)
    ax.set_xlabel("side of the mesh (PEs = side x side)")


OURS = {"marker": "o", "ms": 4}
PAPER = {"ls": ":", "marker": "x", "ms": 5}
KINDS = {"ls": "--", "lw": 1}


def _key(ax, kinds: bool) -> None:
    """Key of the line styles, beside the graphs' colours."""
    from matplotlib.lines import Line2D

    styles = [("ours" + (", homogeneous PEs" if kinds else ""), OURS), ("published", PAPER)] + (
        [("ours, specialised PEs", KINDS)] if kinds else []
    )
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles + [Line2D([], [], color="0.3", **s) for _, s in styles],
        labels + [n for n, _ in styles],
        frameon=False,
        fontsize=7.5,
        ncols=2,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
    )


def draw_cycles(rows: list[dict], path: Path, unit: str) -> None:
    """Figure 10 or 11: cycles over the mesh, dynamic left, static right; placed for least cut as
    the paper did above, one placement for time below.
    """
    plt, fig, axes = _grid(2, 2, 11, 9)
    kinds = any(r["static specialised"] for r in rows)
    shown = [c for c in rows[0] if c.partition(" ")[0] in ("dynamic", "static")]
    shown += ["published dynamic", "published static"]
    cycles = [r[c] for r in rows for c in shown if r[c]]
    for line, placed, column in zip(
        axes, ("least cut", "for time"), ("homogeneous", "time"), strict=True
    ):
        for ax, pe in zip(line, ("dynamic", "static"), strict=True):
            special = {f"{pe} specialised": KINDS} if kinds and column == "homogeneous" else {}
            columns = {f"{pe} {column}": OURS, f"published {pe}": PAPER} | special
            _lines(ax, rows, columns, pe == "dynamic" and placed == "for time")
            ax.set_yscale("log")
            ax.set_title(f"{pe} PEs, one placement, {placed}", fontsize=10)
            ax.set_ylim(min(cycles) * 0.8, max(cycles) * 1.3)
        line[0].set_ylabel(unit)
    _key(axes[1][0], kinds)
    _save(plt, fig, path)


def draw_ratios(rows: list[dict], path: Path, unit: str) -> None:
    """Figure 12: dynamic over static cycles, by placement and by what dynamic PEs do."""
    settings = {
        "one placement, least cut (as published)": "ratio",
        "one placement, for time": "ratio time",
        "one placement, for time; dynamic PEs forward results": "ratio forward",
    }
    plt, fig, axes = _grid(len(settings), 2, 11, 13)
    most = max(r[c] for r in rows for c in (*settings.values(), "published ratio") if r[c])
    for line, (setting, column) in zip(axes, settings.items(), strict=True):
        last = column == "ratio forward"
        for ax, figure, title in zip(
            line, (11, 10), ("model evaluation", "matrix solve"), strict=True
        ):
            special = {"ratio specialised": KINDS} if (column, figure) == ("ratio", 11) else {}
            _lines(
                ax,
                [r for r in rows if r["figure"] == figure],
                {column: OURS, "published ratio": PAPER} | special,
                last,
            )
            ax.set_title(f"{title}: {setting}", fontsize=10)
            ax.axhline(1, color="0.8", lw=0.8)
            ax.set_ylim(0, most * 1.05)
            if last:
                _key(ax, figure == 11)
        line[0].set_ylabel(f"{unit}, dynamic / static")
    _save(plt, fig, path)
