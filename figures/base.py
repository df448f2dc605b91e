"""What the figures share: points to run, records beside published numbers, a figure's files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from ..machine.config import Config
from ..machine.record import Record
from ..runs import api
from ..runs.executors import Pool
from ..runs.point import label
from ..runs.progress import Progress
from ..runs.progress import of as progress_of
from ..runs.scatter import scatter
from ..runs.tables import to_csv
from ..system.output import folder, write_picture, write_text
from .published import statements
from .traces import Traces

__all__ = [
    "DRAWS",
    "Figure",
    "Point",
    "agreement",
    "draw",
    "gain",
    "plot_ranges",
    "run",
    "timings",
    "write",
]


MACHINE = "machine_cycles"
"""Column of the cycles in this machine's own timing."""
LEAST = "cycles_least"
MOST = "cycles_most"
"""Columns of the least and the most cycles of a point's draws."""
DRAWS = 50
SECONDS = "seconds to make"
"""What a summary calls the wall clock of a figure's runs; the published one is that of its artifact
on 8 vCPU.
"""


@dataclass(frozen=True)
class Point:
    """One run of a figure.

    Attributes
    ----------
    program, config, params, seed
        What is run, without values: in the timing `stepsim`, and in the timing `machine` where
        that is asked for.
    at
        Its place in the figure: the row's first columns.
    published
        What was published of it: columns of the row, each beside ours of the same name
        (``step_cycles`` and ``cycles``).
    draws
        How often its scatter is drawn: the least and the most cycles are columns of the row.
    machine
        Whether it is another point for this machine than those before it.

    """

    program: str
    config: Config
    params: dict
    at: dict
    seed: int = 0
    published: dict = field(default_factory=dict)
    draws: int = 0
    machine: bool = True


@dataclass(frozen=True)
class Figure:
    """A figure of the paper.

    Attributes
    ----------
    points
        Its runs on given traces.
    columns
        Our columns of a row beside cycles, traffic and on-chip memory, from the point and its
        record.
    summary
        What the paper's text says of the figure, ours beside it, from all rows: the columns
        ``what``, ``published``, ``ours``.
    plot
        Draws rows on a matplotlib figure of ``size`` inches.
    machine
        Whether its points finish in the timing `machine`, whose channels hold physical tiles, not
        logical ones.

    """

    name: str
    title: str
    points: Callable[[Traces], list[Point]]
    summary: Callable[[list[dict]], list[dict]]
    plot: Callable
    columns: Callable[[Point, Record], dict] = lambda p, r: {}
    size: tuple[float, float] = (11, 5)
    machine: bool = True


def run(
    figure: Figure,
    traces: Traces,
    machine: bool = False,
    progress: Progress | None = None,
    executor: Executor | Pool | None = None,
) -> tuple[list[Record], list[dict], list[float]]:
    """Run all points of a figure, with ``machine`` in that timing, too; their records, rows of ours
    beside the published numbers, and the seconds that each timing took.
    """
    points = figure.points(traces)
    clock = [time.perf_counter()]
    records = _records(points, "stepsim", progress, executor)
    clock.append(time.perf_counter())
    on_machine = [p for p in points if machine and figure.machine and p.machine]
    ours = _records(on_machine, "machine", progress, executor)
    clock.append(time.perf_counter())
    ranges = [_range(p, progress) for p in points]
    clock.append(time.perf_counter())
    left = iter(ours)
    rows = []
    for p, r, drawn in zip(points, records, ranges, strict=True):
        m = next(left) if p in on_machine else None
        row = {
            **p.at,
            "cycles": r.cycles,
            **drawn,
            "offchip_bytes": r.offchip_bytes,
            "onchip_bytes": r.onchip_bytes,
            **figure.columns(p, r),
        }
        rows.append(
            row
            | ({MACHINE: m.cycles} if m else {})
            | {f"step_{k}": v for k, v in p.published.items()}
        )
    return records + ours, rows, [b - a for a, b in pairwise(clock)]


def _range(p: Point, progress: Progress | None) -> dict:
    """Least and most cycles of a point's draws, and whether the published ones lie between."""
    if not p.draws:
        return {}
    progress_of(progress).stage(f"draw the scatter of {label(p.program, p.params)}")
    drawn = scatter(p.program, p.config, p.params, range(p.draws), p.seed)
    low = min(drawn)
    high = max(drawn)
    inside = low <= p.published["cycles"] <= high
    return {LEAST: low, MOST: high, "in_range": "yes" if inside else "no"}


def _records(
    points: list[Point], timing: str, progress: Progress | None, executor: Executor | Pool | None
) -> list[Record]:
    out = []
    for _, group in groupby(points, key=lambda p: (p.program, p.config)):
        group = list(group)
        out += api.outcomes(
            group[0].program,
            group[0].config,
            [p.params for p in group],
            timing=timing,
            values=False,
            seed=[p.seed for p in group],
            keep_going=False,
            progress=progress,
            executor=executor,
        )
    return [o.model for o in out]


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
    """How far our cycles, and those of the draws, are from the published ones in percent; ``name``:
    the column that tells the points apart.
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
    figure: Figure,
    out: Path,
    traces: Traces,
    machine: bool = False,
    progress: Progress | None = None,
    executor: Executor | Pool | None = None,
) -> tuple[list[dict], list[dict], list[dict], list[Path]]:
    """Run a figure and write its CSV, picture and records into ``out``; returns its rows, the
    agreement of columns with published ones, what the text says beside ours (all these are in its
    JSON, too), and the files.
    """
    records, rows, seconds = run(figure, traces, machine, progress, executor)
    out = folder(out)
    csv, png, json_, all_ = (
        out / f"{figure.name}{end}" for end in (".csv", ".png", ".json", "_records.json")
    )
    write_text(csv, to_csv(rows))
    draw(figure, rows, png, traces.kind)
    api.save_records(records, all_)
    compared = agreements(rows)
    hours = statements(figure.name).get("hours")
    took = [
        {
            "what": SECONDS + timing,
            "published": None if timing or hours is None else hours * 3600,
            "ours": s,
        }
        for (_, timing), s in zip(timings(rows), seconds, strict=False)
    ]
    if any(LEAST in r for r in rows):
        took.append(
            {"what": f"seconds to draw {DRAWS} of each", "published": None, "ours": seconds[2]}
        )
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
