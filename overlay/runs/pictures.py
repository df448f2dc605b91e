"""A run of an overlay as a picture and as a timeline."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...frontend.show.draw import COMPUTE
from ...model.timeline import stretches
from ...scheduler.token import Mapped
from ...system.output import StrPath, write_picture, write_text
from ..core.config import LINKS, link_name
from ..core.ops import Op
from ..model import Run, simulate

LINE = "#555555"
STEP = {"w": (-1, 0), "e": (1, 0), "n": (0, -1), "s": (0, 1)}
MOST_NAMES = 12
"""Operations of a PE up to which they are named."""


def issues(mapped: Mapped, ran: Run) -> np.ndarray:
    """int64 [nodes]: the cycle in which each operation issues, -1 for a source."""
    written = ran.node_cycles(mapped.image)
    latency = mapped.overlay.latencies()[mapped.graph.op]
    return np.where(written < 0, -1, written - latency + 1)


def draw(path: StrPath, mapped: Mapped) -> None:
    """Draw the placement, and beside it the cycles in which each PE issues."""
    o = mapped.overlay
    ran = simulate(mapped.image, tokens=True)
    figure = Figure(figsize=(1.6 * o.cols + 7, 1.6 * o.rows + 0.8), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1.6 * o.cols, 6))
    draw_placement(left, mapped, ran)
    issue = issues(mapped, ran)
    fires = issue >= 0
    right.scatter(issue[fires], mapped.pe[fires], marker="|", s=20, color=LINE, linewidth=0.8)
    right.set_xlim(-0.5, ran.cycles + 0.5)
    right.set_ylim(o.pes - 0.5, -0.5)
    right.set_xlabel("cycle of issue")
    right.set_ylabel("PE")
    write_picture(path, figure)


def draw_placement(axes: Axes, mapped: Mapped, ran: Run) -> None:
    """Nodes in their PE, values that cross each link (``ran`` with its tokens)."""
    graph = mapped.graph
    overlay = mapped.overlay
    for pe in range(overlay.pes):
        y, x = divmod(pe, overlay.cols)
        nodes = np.flatnonzero(mapped.pe == pe)
        colour = COMPUTE if len(nodes) else "white"
        box = Rectangle((x - 0.3, y - 0.3), 0.6, 0.6, facecolor=colour, edgecolor=LINE)
        axes.add_patch(box)
        few = len(nodes) <= MOST_NAMES
        names = textwrap.fill(", ".join(map(graph.label, nodes.tolist())), 16)
        text = names if few else f"{len(nodes)}\nnodes"
        axes.text(x, y, text, ha="center", va="center", fontsize=8)
    assert ran.tokens is not None
    crossed = np.bincount(ran.tokens["link"], minlength=len(LINKS) * overlay.pes)
    for link in overlay.links():
        _draw_link(axes, divmod(link, len(LINKS)), overlay.cols, int(crossed[link]), crossed.max())
    axes.set_xlim(-0.45, overlay.cols - 0.55)
    axes.set_ylim(overlay.rows - 0.55, -0.45)
    axes.set_aspect("equal")
    axes.axis("off")
    title = Path(graph.title).name
    axes.set_title(f"{title}: {len(graph)} nodes, {ran.cycles} cycles", fontsize=9)


def _draw_link(axes: Axes, link: tuple[int, int], cols: int, values: int, most: int) -> None:
    """An arrow on the right hand of its way, as dark as the link is loaded."""
    pe, side = link
    y, x = divmod(pe, cols)
    dx, dy = STEP[LINKS[side]]
    start = (x + 0.31 * dx - 0.1 * dy, y + 0.31 * dy + 0.1 * dx)
    end = (start[0] + 0.38 * dx, start[1] + 0.38 * dy)
    shade = str(0.8 - 0.7 * values / max(1, most))
    style = {"arrowstyle": "-|>", "color": shade, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)
    if values:
        middle = (start[0] + 0.19 * dx - 0.06 * dy, start[1] + 0.19 * dy + 0.06 * dx)
        axes.text(*middle, str(values), ha="center", va="center", fontsize=7)


def timeline(path: StrPath, mapped: Mapped) -> None:
    """Write trace events: a slice per operation in its PE's track, at its issue, and one per
    stretch of cycles in which values enter a link; a microsecond is a cycle.
    """
    graph = mapped.graph
    ran = simulate(mapped.image, tokens=True)
    issue = issues(mapped, ran)
    events: list[dict] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        for pid, name in ((1, "PEs"), (2, "links"))
    ]
    events += [_track(1, pe, f"PE {pe}") for pe in range(mapped.overlay.pes)]
    for node in np.flatnonzero(issue >= 0).tolist():
        name = f"{graph.label(node)} {Op(graph.op[node]).name.lower()}"
        events.append(_slice(1, int(mapped.pe[node]), name, int(issue[node]), 1))
    assert ran.tokens is not None
    for link in np.unique(ran.tokens["link"]).tolist():
        events.append(_track(2, link, link_name(link, mapped.overlay.cols)))
        cycles = ran.tokens["cycle"][ran.tokens["link"] == link]
        events += [_slice(2, link, f"{n} values", at, n) for at, n in stretches(cycles)]
    about = {"graph": graph.title, "cycles": ran.cycles, "unit": "1 us = 1 cycle"}
    write_text(path, json.dumps({"traceEvents": events, "otherData": about}))


def _track(pid: int, tid: int, name: str) -> dict:
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def _slice(pid: int, tid: int, name: str, at: int, cycles: int) -> dict:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": at, "dur": cycles}
