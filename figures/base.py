"""Parts that the figures share: points to run, records beside published numbers, a figure's
files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from ..machine.record import Record
from ..runs import api
from ..runs.tables import to_csv
from ..system.output import folder, write_picture, write_text
from .points import DRAWS, Job, Point, Runs
from .published import statements
from .traces import Traces

MACHINE = "machine_cycles"
"""Column of the cycles in this machine's own timing."""
BOUND = "machine_bound"
"""Column of their lower bound."""
BESIDE = "machine_beside_bytes"
"""Column of this machine's memories beside the pages of scratchpads, in bytes: accumulators, rings,
bands, queues, channels.
"""
LEAST = "cycles_least"
MOST = "cycles_most"
"""Columns of the least and the most cycles of a point's draws."""
SECONDS = "seconds to make"
"""Name in a summary of the CPU time of a figure's runs; the published one is the wall clock of its
artifact on 8 vCPU.
"""


Summary = list[dict]
"""Statements of the paper's text about a figure, ours beside them: the columns ``what``,
``published``, ``ours``.
"""


def compared(figure: str, what: str, ours: float) -> dict:
    """A row of a summary; the published number is empty where the paper states none."""
    return {"what": what, "published": statements(figure).get(what), "ours": ours}


@dataclass(frozen=True)
class Figure:
    """A figure of the paper."""

    name: str
    title: str
    points: Callable[[Traces], list[Point]]  # its runs on given traces
    summary: Callable[[list[dict]], Summary]  # from all rows
    plot: Callable  # draws rows on a matplotlib figure of ``size`` inches
    # our columns of a row beside cycles, traffic and on-chip memory, from the point and its record
    columns: Callable[[Point, Record], dict] = lambda p, r: {}
    size: tuple[float, float] = (11, 5)


@dataclass(frozen=True)
class Result:
    """A figure that has been run."""

    records: list[Record]  # of all runs
    rows: list[dict]  # ours beside the published numbers
    seconds: list[float]  # CPU time of each timing's runs, and of the draws


def jobs(figure: Figure, traces: Traces, machine: bool = False) -> list[Job]:
    """The runs of a figure, with ``machine`` in that timing, too."""
    return [Job(p, machine and p.machine) for p in figure.points(traces)]


def run(figure: Figure, traces: Traces, machine: bool = False, runs: Runs | None = None) -> Result:
    """Run all points of a figure, with ``machine`` in that timing, too."""
    todo = jobs(figure, traces, machine)
    made = (runs or Runs()).all(todo)
    rows = [
        {
            **p.at,
            "cycles": m.record.cycles,
            **_range(p, m.drawn),
            "offchip_bytes": m.record.offchip_bytes,
            "onchip_bytes": m.record.onchip_bytes,
            **figure.columns(p, m.record),
            **_machine(m.own),
            **{f"step_{k}": v for k, v in p.published.items()},
        }
        for p, m in zip((job.point for job in todo), made, strict=True)
    ]
    records = [m.record for m in made] + [m.own for m in made if m.own is not None]
    seconds = [
        sum(m.seconds for m in made),
        sum(m.own_seconds for m in made),
        sum(m.draw_seconds for m in made),
    ]
    return Result(records, rows, seconds)


def _machine(r: Record | None) -> dict:
    """Cycles in this machine's timing, what they are not below, and its memories that hold no
    pages.
    """
    if r is None:
        return {}
    beside = (r.memory_bytes or 0) - (r.onchip_capacity_bytes or 0)
    return {MACHINE: r.cycles, BOUND: r.bound_cycles, BESIDE: beside}


def _range(p: Point, drawn: list[int]) -> dict:
    """Least and most cycles of a point's draws, and whether the published ones lie between."""
    if not drawn:
        return {}
    low = min(drawn)
    high = max(drawn)
    inside = low <= p.published["cycles"] <= high
    return {LEAST: low, MOST: high, "in_range": "yes" if inside else "no"}


def agreement(rows: list[dict], a: str, b: str) -> dict | None:
    """Pearson correlation and largest relative error of column ``b`` against ``a``, over rows that
    have both.
    """
    pairs = np.array(
        [(r[a], r[b]) for r in rows if r.get(a) is not None and r.get(b) is not None], float
    )
    if len(pairs) < 2:
        return None
    error = np.max(np.abs(pairs[:, 1] / pairs[:, 0] - 1))
    return {
        "of": b,
        "against": a,
        "points": len(pairs),
        "pearson": float(np.corrcoef(pairs.T)[0, 1]),
        "max_error": float(error),
    }


def agreements(rows: list[dict]) -> list[dict]:
    """Each published column with ours."""
    names = dict.fromkeys(k for r in rows for k in r if k.startswith("step_"))
    return [x for x in (agreement(rows, n, n.removeprefix("step_")) for n in names) if x]


def timings(rows: list[dict]) -> list[tuple[str, str]]:
    """Columns of cycles that rows have, and how a summary calls them."""
    return [("cycles", ""), *([(MACHINE, ", this machine")] if MACHINE in rows[0] else [])]


def gain(
    rows: list[dict],
    slow: str,
    fast: str,
    by: Callable[[dict], object],
    column: str = "cycles",
    **where,
) -> float:
    """Geometric mean of how much faster ``fast`` is than ``slow`` (values of ``parallel``) by a
    column of cycles, over the rows that ``where`` selects, paired by ``by``.
    """
    cycles = {
        (r["parallel"], by(r)): r[column] for r in rows if all(r[k] == v for k, v in where.items())
    }
    return geometric_mean(cycles[slow, k] / c for (way, k), c in cycles.items() if way == fast)


def plot_ranges(ax, rows: list[dict], name: str) -> None:
    """Plot the distance of our cycles, and those of the draws, from the published ones in percent;
    ``name``: the column that tells the points apart.
    """
    known = [r for r in rows if LEAST in r]
    names = [str(r[name]) for r in known]

    def away(r: dict, column: str) -> float:
        return 100 * (r[column] / r["step_cycles"] - 1)

    for i, r in enumerate(known):
        ax.plot([i, i], [away(r, LEAST), away(r, MOST)], color="#9ecae1", linewidth=7)
    ax.plot([away(r, "cycles") for r in known], "o", color="#3182bd", markersize=5)
    ax.axhline(0, color="0.4", linewidth=1)
    ax.set_xticks(range(len(names)), names)
    ax.set(ylabel="off published (%)", xlabel=f"ours (dot) and the range of {DRAWS} draws")


def draw(figure: Figure, rows: list[dict], path: Path, note: str = "") -> None:
    """The picture of a figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig = plt.figure(figsize=figure.size, layout="constrained")
    figure.plot(fig, rows)
    fig.suptitle(f"{figure.title}\n{note}" if note else figure.title, fontsize=11)
    for ax in fig.axes:
        ax.spines[["top", "right"]].set_visible(False)
    save(fig, path)


def save(fig, path: Path) -> None:
    """Write a picture as a whole or not at all."""
    import matplotlib.pyplot as plt

    write_picture(path, fig, dpi=130, metadata={"Software": None})
    plt.close(fig)


def write(
    figure: Figure, out: Path, traces: Traces, machine: bool = False, runs: Runs | None = None
) -> tuple[list[dict], list[dict], list[dict], list[Path]]:
    """Run a figure and write its CSV, picture and records into ``out``; returns its rows, the
    agreement of columns with published ones, what the text says beside ours (all these are in its
    JSON, too), and the files.
    """
    found = run(figure, traces, machine, runs)
    rows = found.rows
    out = folder(out)
    csv, png, json_, all_ = (
        out / f"{figure.name}{end}" for end in (".csv", ".png", ".json", "_records.json")
    )
    write_text(csv, to_csv(rows))
    draw(figure, rows, png, traces.kind)
    api.save_records(found.records, all_)
    compared = agreements(rows)
    hours = statements(figure.name).get("hours")
    took = [
        {
            "what": SECONDS + timing,
            "published": None if timing or hours is None else hours * 3600,
            "ours": s,
        }
        for (_, timing), s in zip(timings(rows), found.seconds, strict=False)
    ]
    if any(LEAST in r for r in rows):
        what = f"seconds to draw {DRAWS} of each"
        took.append({"what": what, "published": None, "ours": found.seconds[2]})
    summary = [
        s if traces.folder else {**s, "published": None} for s in figure.summary(rows)
    ] + took  # the text speaks of the published traces
    write_text(
        json_,
        json.dumps(
            {
                "figure": figure.name,
                "title": figure.title,
                "traces": traces.kind,
                "rows": rows,
                "agreements": compared,
                "summary": summary,
                "versions": api.versions(),
            },
            indent=1,
        )
        + "\n",
    )
    return rows, compared, summary, [csv, png, json_, all_]
