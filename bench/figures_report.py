"""The tables and pictures of docs/figures.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from made.figures import RECORD
from penstock.figures import FIGURES
from penstock.figures.base import SECONDS
from penstock.figures.base import draw as draw_figure
from penstock.figures.published import statements
from tables import frame

PICTURES = Path(__file__).parents[1] / "docs" / "results" / "figures"


def text(x) -> str:
    if x is None:
        return ""
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def table(rows: list[dict]) -> str:
    names = list(dict.fromkeys(k for r in rows for k in r))
    right = [not any(isinstance(r.get(n), str) for r in rows) for n in names]
    return frame(names, [[text(r.get(n)) for n in names] for r in rows], right)


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/figures.md."""
    return {"seconds": taken} | {name: lambda name=name: section(name) for name in FIGURES}


def stored() -> dict[str, dict]:
    """The stored figures by name."""
    return {entry["case"]: entry for entry in RECORD.entries()}


def section(name: str) -> str:
    """Summary, agreement with the published numbers, and all points of
    a figure.
    """
    found = RECORD.entry(name)
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
    return sum(s["ours"] for f in stored().values() for s in f["summary"] if s["what"] == what)


def draw() -> None:
    """The pictures of the page."""
    for name, found in stored().items():
        draw_figure(FIGURES[name], found["rows"], PICTURES / f"{name}.png", found["traces"])
