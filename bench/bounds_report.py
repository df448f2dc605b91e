"""The table of docs/bounds.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from made import bounds, fig8, figures
from penstock.figures.base import BOUND, MACHINE
from penstock.figures.fig8 import FIG8_CONFIG, HBM2_CONFIG, stored_rtl
from penstock.frontend.analysis.bounds import bounds as bounds_of
from penstock.machine.config import load
from penstock.runs.point import Point
from tables import frame


def blocks() -> dict[str, Callable[[], str]]:
    """The block of docs/bounds.md."""
    return {"checked": checked}


def checked() -> str:
    """How far runs are above their bounds."""
    rows = [_row("figure 8 on RTL", _of_figure_8(FIG8_CONFIG))]
    if by_command := _of_figure_8(HBM2_CONFIG):
        rows.append(_row("figure 8 on RTL with HBM2", by_command))
    for entry in figures.RECORD.entries():
        if gaps := [r[MACHINE] / r[BOUND] for r in entry["rows"] if r.get(BOUND)]:
            number = entry["case"].removeprefix("fig")
            rows.append(_row(f"figure {number}, this machine, on the model", gaps))
    if random := _of_random_programs():
        rows.append(_row("random programs on the model", random))
    header = ("runs", "number", "below the bound", "cycles / bound, median", "nine of ten", "most")
    return frame(header, rows, (False, True, True, True, True, True))


def _row(what: str, gaps: Sequence[float]) -> list[str]:
    least = sorted(gaps)
    below = sum(gap < 1 for gap in least)
    many = [median(least), least[9 * (len(least) - 1) // 10], least[-1]]
    return [what, f"{len(least):,}", f"**{below}**", *(f"{gap:.3f}" for gap in many)]


def _of_figure_8(name: str) -> list[float]:
    """Stored cycles on a machine over the bounds of these sources."""
    fig8.RECORD.entries()  # what stored_rtl() reads
    config = load(name)
    out = []
    for r in stored_rtl(name):
        point = Point("swiglu", config, r.params)
        found = bounds_of(point.program.graph, point.analysis, point.graph, config)
        out.append(r.cycles / (found.tightest().value or 1))
    return out


def _of_random_programs() -> list[float]:
    """Cycles of fuzzed programs over their bounds, as recorded."""
    rows = [row for entry in bounds.RECORD.entries() for row in entry["rows"]]
    return [gap for row in rows for gap in row["gaps"]]
