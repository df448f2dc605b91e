"""Drawings of boxes and arrows: DOT text, and PNG or SVG through matplotlib with a layered layout
of our own.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from ...system.output import picture_format, write_picture, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 2.5
HEIGHT = 0.62
"""Height of a box."""
DX = 3.1
"""From one box of a layer to the next."""
MOST_BOXES = 300
"""Boxes of a picture from which on those that are alike are one."""
MOST_PIXELS = 16_000
"""Longest side of a picture; its area is at most a quarter of the square of that."""


@dataclass(frozen=True)
class Box:
    """A node: its name (unique), a line below it, its fill, and whether it stands just above its
    first reader (else below its last input).
    """

    name: str
    detail: str
    colour: str
    late: bool = False


@dataclass(frozen=True)
class Arrow:
    """An edge between boxes, by name; ``label`` may be empty."""

    src: str
    dst: str
    label: str = ""


def to_dot(name: str, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """The drawing in DOT, for graphviz."""
    lines = [
        f"digraph {name} {{",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica"];',
        '  edge [fontname="Helvetica", fontsize=9];',
    ]
    lines += [
        f'  "{b.name}" [label="{b.name}\\n{b.detail}", fillcolor="{b.colour}"];' for b in boxes
    ]
    lines += [f'  "{a.src}" -> "{a.dst}" [label="{a.label}"];' for a in arrows]
    return "\n".join([*lines, "}"]) + "\n"


def feedback(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> set[int]:
    """Indices of the arrows that lead back: on a circle, and from a box to one that is not after it
    in the list. Without them there is no circle.
    """
    place = {b.name: i for i, b in enumerate(boxes)}
    readers = {b.name: [a.dst for a in arrows if a.src == b.name] for b in boxes}

    def reached(start: str) -> set[str]:
        seen = {start}
        todo = [start]
        while todo:
            new = set(readers[todo.pop()]) - seen
            seen |= new
            todo += new
        return seen

    return {
        i for i, a in enumerate(arrows) if place[a.src] >= place[a.dst] and a.src in reached(a.dst)
    }


def layers(
    boxes: Sequence[Box], arrows: Sequence[Arrow]
) -> tuple[list[list[tuple]], list[list[tuple]]]:
    """A layered layout of boxes in any order and arrows without a circle.

    Returns the layers, top first, as lists of keys: ``(box name,)``, or ``(arrow index, layer)``
    where an arrow passes; and for each arrow the keys on its way.
    """
    inputs = {b.name: [a.src for a in arrows if a.dst == b.name] for b in boxes}
    readers = {b.name: [a.dst for a in arrows if a.src == b.name] for b in boxes}
    depth: dict[str, int] = {}
    for name in TopologicalSorter(inputs).static_order():
        depth[name] = 1 + max((depth[s] for s in inputs[name]), default=-1)
    for b in reversed(boxes):
        if b.late and readers[b.name] and not inputs[b.name]:
            depth[b.name] = min(depth[r] for r in readers[b.name]) - 1
    rows: list[list[tuple]] = [[] for _ in range(max(depth.values()) + 1)]
    for b in boxes:
        rows[depth[b.name]].append((b.name,))
    ways = []
    near = {}
    for i, a in enumerate(arrows):
        between = [(i, d) for d in range(depth[a.src] + 1, depth[a.dst])]
        way = [(a.src,), *between, (a.dst,)]
        ways.append(way)
        for key in between:
            rows[key[1]].append(key)
        for p, q in itertools.pairwise(way):
            near.setdefault(p, []).append(q)
            near.setdefault(q, []).append(p)
    at = {key: i - (len(row) - 1) / 2 for row in rows for i, key in enumerate(row)}
    for _ in range(8):
        for row in rows:
            row.sort(
                key=lambda k: sum(at[n] for n in near[k]) / len(near[k]) if k in near else at[k]
            )
            for i, key in enumerate(row):
                at[key] = i - (len(row) - 1) / 2
    return rows, ways


def folded(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> tuple[list[Box], list[Arrow]]:
    """The same drawing with one box for all of a kind whose names differ in numbers alone; its line
    below the name says how many.
    """
    groups: dict[tuple[str, str], list[Box]] = {}
    for b in boxes:
        groups.setdefault((re.sub(r"\d+", "*", b.name), b.detail.partition(" ")[0]), []).append(b)
    names = {}
    out = []
    for k, ((name, _), alike) in enumerate(groups.items()):
        one = alike[0]
        if len(alike) > 1:
            details = {b.detail for b in alike}
            detail = details.pop() if len(details) == 1 else re.sub(r"\d+", "*", one.detail)
            one = replace(
                one,
                name=name if name not in names.values() else f"{name} ({k})",
                detail=f"{len(alike)} x {detail}",
            )
        names |= dict.fromkeys((b.name for b in alike), one.name)
        out.append(one)
    return out, list(
        dict.fromkeys(
            Arrow(names[a.src], names[a.dst]) for a in arrows if names[a.src] != names[a.dst]
        )
    )


@dataclass(frozen=True)
class _Picture:
    """Boxes on a grid of layers, and how arrows go between them."""

    boxes: Sequence[Box]
    # arrows, back: arrows that all lead downwards; those whose head is drawn at the upper end
    arrows: Sequence[Arrow]
    back: set[int]
    # rows, ways: as of :func:`layers`
    rows: list[list[tuple]]
    ways: list[list[tuple]]

    @property
    def columns(self) -> int:
        return max(len(row) for row in self.rows)

    @property
    def dy(self) -> float:
        """Height of a layer."""
        return 1.3 if any(a.label for a in self.arrows) else 0.95

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return self.columns * DX + 0.6, len(self.rows) * self.dy

    @functools.cached_property
    def centre(self) -> dict[tuple, tuple[float, float]]:
        """Centre of each key of a layer."""
        return {
            key: ((i - (len(row) - 1) / 2) * DX, -d * self.dy)
            for d, row in enumerate(self.rows)
            for i, key in enumerate(row)
        }

    def fan(self, indices: list[int], end: int, step: int) -> dict[int, float]:
        """Points at which arrows meet one side of a box: side by side, in the order of their far
        ends.
        """
        ordered = sorted(indices, key=lambda i: self.centre[self.ways[i][end + step]][0])
        return {
            a: (i - (len(ordered) - 1) / 2) * 0.9 * min(1, 3 / len(ordered))
            for i, a in enumerate(ordered)
        }

    def lines(self) -> list[list[tuple[float, float]]]:
        """The points that each arrow goes through, from the upper box down."""
        arrive = {}
        leave = {}
        for b in self.boxes:
            into = [i for i, a in enumerate(self.arrows) if a.dst == b.name]
            out = [i for i, a in enumerate(self.arrows) if a.src == b.name]
            arrive |= self.fan(into, -1, -1)
            leave |= self.fan(out, 0, 1)
        return [self.line(way, leave[i], arrive[i]) for i, way in enumerate(self.ways)]

    def line(self, way: list[tuple], leave: float, arrive: float) -> list[tuple[float, float]]:
        """The points of one arrow; ``leave``, ``arrive``: beside the middle of its boxes."""
        x, y = self.centre[way[0]]
        points = [(x + leave, y - HEIGHT / 2)]
        for key in way[1:-1]:
            x, y = self.centre[key]
            points += [(x, y + HEIGHT / 2), (x, y - HEIGHT / 2)]
        x, y = self.centre[way[-1]]
        return [*points, (x + arrive, y + HEIGHT / 2)]


def _picture(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> _Picture:
    """The layout of boxes and arrows."""
    arrows = [a for a in arrows if a.src != a.dst]
    back = feedback(boxes, arrows)
    down = [replace(a, src=a.dst, dst=a.src) if i in back else a for i, a in enumerate(arrows)]
    rows, ways = layers(boxes, down)
    return _Picture(boxes, down, back, rows, ways)


def draw(name: str, boxes: Sequence[Box], arrows: Sequence[Arrow], path: str | Path) -> None:
    """Write a drawing; the suffix chooses DOT or a format of matplotlib. Feedback goes up, dashed.

    A picture of more than ``MOST_BOXES`` boxes is :func:`folded`; DOT has them all.
    """
    path = Path(path)
    if path.suffix == ".dot":
        write_text(path, to_dot(name, boxes, arrows))
        return
    # Half a second, which only a picture takes.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    picture_format(path, {*FigureCanvasAgg.get_supported_filetypes(), "dot"})
    if len(boxes) > MOST_BOXES:
        boxes, arrows = folded(boxes, arrows)
    picture = _picture(boxes, arrows)
    width, height = picture.size
    dpi = min(90.0, MOST_PIXELS / max(width, height), MOST_PIXELS / (width * height) ** 0.5 / 2)
    figure = Figure(figsize=(width, height), dpi=dpi)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(-width / 2, width / 2)
    ax.set_ylim(-(len(picture.rows) - 1) * picture.dy - picture.dy / 2, picture.dy / 2)
    ax.axis("off")
    for b in boxes:
        draw_box(ax, b, *picture.centre[b.name,])
    for i, points in enumerate(picture.lines()):
        draw_arrow(ax, points, i in picture.back)
        if picture.arrows[i].label:
            _draw_label(ax, picture.arrows[i].label, points)
    write_picture(path, figure)


def draw_box(ax: Axes, box: Box, x: float, y: float) -> None:
    """A box, with its middle at (x, y)."""
    from matplotlib.patches import FancyBboxPatch

    patch = FancyBboxPatch(
        (x - WIDTH / 2, y - HEIGHT / 2),
        WIDTH,
        HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=box.colour,
        edgecolor="#555555",
        linewidth=0.8,
        zorder=2,
    )
    ax.add_patch(patch)
    middle = {"ha": "center", "va": "center", "zorder": 3}
    ax.text(x, y + 0.13, box.name, fontsize=9, fontweight="bold", **middle)
    ax.text(x, y - 0.14, box.detail, fontsize=7.5, **middle)


def draw_arrow(ax: Axes, points: list[tuple[float, float]], back: bool) -> None:
    """A line with a head; ``back``: dashed, with its head at the first point."""
    style = "--" if back else "-"
    shown = points[::-1] if back else points
    for (x0, y0), (x1, y1) in itertools.pairwise(shown[:-1]):
        ax.plot(
            (x0, x1),
            (y0, y1),
            color="#444444",
            linewidth=0.9,
            linestyle=style,
            zorder=1,
            solid_capstyle="round",
        )
    head = {
        "arrowstyle": "-|>",
        "color": "#444444",
        "linewidth": 0.9,
        "linestyle": style,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    ax.annotate("", xy=shown[-1], xytext=shown[-2], zorder=1, arrowprops=head)


def _draw_label(ax: Axes, label: str, points: list[tuple[float, float]]) -> None:
    (x0, y0), (x1, y1) = points[:2]
    ax.text(
        x0 + (x1 - x0) * 0.35,
        y0 + (y1 - y0) * 0.35,
        label,
        ha="center",
        va="center",
        fontsize=6.5,
        color="#333333",
        zorder=4,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
    )
