"""What the figures share: points to run, records beside published numbers, the files of a figure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from penstock import api
from penstock.machine.config import Config
from penstock.machine.record import Record, folder, write_text
from penstock.points import to_csv
from penstock.progress import Progress
from penstock.published import statements

from .traces import Traces

__all__ = ["Figure", "Point", "agreement", "draw", "gain", "run", "write"]


@dataclass(frozen=True)
class Point:
    """One run of a figure.

    Attributes
    ----------
    program, config, params, seed
        What is run, in the timing `published`, without values.
    at
        Its place in the figure: the row's first columns.
    published
        What was published of it: columns of the row, each beside ours of the same name (``step_cycles`` and ``cycles``).
    """

    program: str
    config: Config
    params: dict
    at: dict
    seed: int = 0
    published: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A figure of the paper.

    Attributes
    ----------
    points
        Its runs on given traces.
    columns
        Our columns of a row beside cycles, traffic and on-chip memory, from the point and its record.
    summary
        What the paper's text says of the figure, ours beside it, from all rows: the columns ``what``, ``published``, ``ours``.
    plot
        Draws rows on a matplotlib figure of ``size`` inches.
    """

    name: str
    title: str
    points: Callable[[Traces], list[Point]]
    summary: Callable[[list[dict]], list[dict]]
    plot: Callable
    columns: Callable[[Point, Record], dict] = lambda p, r: {}
    size: tuple[float, float] = (11, 5)


def run(figure: Figure, traces: Traces, progress: Progress | None = None) -> tuple[list[Record], list[dict]]:
    """Run all points of a figure; their records, and rows of ours beside the published numbers."""
    points = figure.points(traces)
    records: list[Record] = []
    for _, group in groupby(points, key=lambda p: (p.program, p.config)):
        group = list(group)
        found = api.outcomes(group[0].program, group[0].config, [p.params for p in group], timing="published", values=False, seed=[p.seed for p in group], keep_going=False, progress=progress)
        records += [o.model for o in found]
    rows = []
    for p, r in zip(points, records):
        rows.append({**p.at, "cycles": r.cycles, "offchip_bytes": r.offchip_bytes, "onchip_bytes": r.onchip_bytes, **figure.columns(p, r), **{f"step_{k}": v for k, v in p.published.items()}})
    return records, rows


def agreement(rows: list[dict], a: str, b: str) -> dict | None:
    """Pearson correlation and largest relative error of column ``b`` against ``a``, over rows that have both."""
    pairs = np.array([(r[a], r[b]) for r in rows if r.get(a) is not None and r.get(b) is not None], float)
    if len(pairs) < 2:
        return None
    error = np.max(np.abs(pairs[:, 1] / pairs[:, 0] - 1))
    return {"of": b, "against": a, "points": len(pairs), "pearson": float(np.corrcoef(pairs.T)[0, 1]), "max_error": float(error)}


def agreements(rows: list[dict]) -> list[dict]:
    """Each published column with ours."""
    names = dict.fromkeys(k for r in rows for k in r if k.startswith("step_"))
    return [x for x in (agreement(rows, n, n.removeprefix("step_")) for n in names) if x]


def gain(rows: list[dict], slow: str, fast: str, by: Callable[[dict], object], **where) -> float:
    """Geometric mean of how much faster ``fast`` is than ``slow`` (values of the column ``parallel``), over the rows that ``where`` selects, paired by ``by``."""
    cycles = {(r["parallel"], by(r)): r["cycles"] for r in rows if all(r[k] == v for k, v in where.items())}
    return geometric_mean(cycles[slow, k] / c for (way, k), c in cycles.items() if way == fast)


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

    tmp = path.with_suffix(".part.png")
    fig.savefig(tmp, dpi=130, metadata={"Software": None})
    plt.close(fig)
    tmp.replace(path)


def write(figure: Figure, out: Path, traces: Traces, progress: Progress | None = None) -> tuple[list[dict], list[dict], list[dict], list[Path]]:
    """Run a figure and write its CSV, picture and records into ``out``; returns its rows, the agreement of columns with published ones, what the text says beside ours (all these are in its JSON, too), and the files."""
    start = time.perf_counter()
    records, rows = run(figure, traces, progress)
    out = folder(out)
    csv, png, json_, all_ = (out / f"{figure.name}{end}" for end in (".csv", ".png", ".json", "_records.json"))
    write_text(csv, to_csv(rows))
    draw(figure, rows, png, traces.kind)
    api.save_records(records, all_)
    compared, summary = agreements(rows), figure.summary(rows) + _seconds(figure.name, time.perf_counter() - start)
    write_text(json_, json.dumps({"figure": figure.name, "title": figure.title, "traces": traces.kind, "rows": rows, "agreements": compared, "summary": summary, "versions": api.versions()}, indent=1) + "\n")
    return rows, compared, summary, [csv, png, json_, all_]


def _seconds(name: str, ours: float) -> list[dict]:
    """The time that a figure takes, the published one on 8 vCPU."""
    hours = statements(name).get("hours")
    return [{"what": "seconds to make", "published": hours * 3600, "ours": ours}] if hours else []
