"""Drawings of boxes and arrows: DOT text, and PNG or SVG through matplotlib with a layered layout
of our own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from pathlib import Path

from ...system.output import picture_format, write_picture, write_text

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


def draw(name: str, boxes: Sequence[Box], arrows: Sequence[Arrow], path: str | Path) -> None:
    """Write a drawing; the suffix chooses DOT or a format of matplotlib. Feedback goes up, dashed.

    A picture of more than ``MOST_BOXES`` boxes is :func:`folded`; DOT has them all.
    """
    path = Path(path)
    if path.suffix == ".dot":
        write_text(path, to_dot(name, boxes, arrows))
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    picture_format(path, {*FigureCanvasAgg.get_supported_filetypes(), "dot"})
    if len(boxes) > MOST_BOXES:
        boxes, arrows = folded(boxes, arrows)
    arrows = [a for a in arrows if a.src != a.dst]
    back = feedback(boxes, arrows)
    arrows = [
        replace(a, src=a.dst, dst=a.src) if i in back else a for i, a in enumerate(arrows)
    ]  # laid out downwards; the head is drawn at the other end
    rows, ways = layers(boxes, arrows)
    width = 2.5
    height = 0.62
    dx = 3.1
    dy = 1.3 if any(a.label for a in arrows) else 0.95
    centre = {
        key: ((i - (len(row) - 1) / 2) * dx, -d * dy)
        for d, row in enumerate(rows)
        for i, key in enumerate(row)
    }
    columns = max(len(row) for row in rows)
    size = columns * dx + 0.6, len(rows) * dy
    figure = Figure(
        figsize=size,
        dpi=min(90.0, MOST_PIXELS / max(size), MOST_PIXELS / (size[0] * size[1]) ** 0.5 / 2),
    )
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(-columns * dx / 2 - 0.3, columns * dx / 2 + 0.3)
    ax.set_ylim(-(len(rows) - 1) * dy - dy / 2, dy / 2)
    ax.axis("off")
    for b in boxes:
        x, y = centre[b.name,]
        ax.add_patch(
            FancyBboxPatch(
                (x - width / 2, y - height / 2),
                width,
                height,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor=b.colour,
                edgecolor="#555555",
                linewidth=0.8,
                zorder=2,
            )
        )
        ax.text(
            x, y + 0.13, b.name, ha="center", va="center", fontsize=9, fontweight="bold", zorder=3
        )
        ax.text(x, y - 0.14, b.detail, ha="center", va="center", fontsize=7.5, zorder=3)

    def fan(indices: list[int], end: int, step: int) -> dict[int, float]:
        """Where arrows meet one side of a box: spread out, in the order of their far ends."""
        ordered = sorted(indices, key=lambda i: centre[ways[i][end + step]][0])
        return {
            a: (i - (len(ordered) - 1) / 2) * 0.9 * min(1, 3 / len(ordered))
            for i, a in enumerate(ordered)
        }

    arrive = {}
    leave = {}
    for b in boxes:
        arrive |= fan([i for i, a in enumerate(arrows) if a.dst == b.name], -1, -1)
        leave |= fan([i for i, a in enumerate(arrows) if a.src == b.name], 0, 1)
    for i, (arrow, way) in enumerate(zip(arrows, ways, strict=False)):
        points = [(centre[way[0]][0] + leave[i], centre[way[0]][1] - height / 2)]
        for key in way[1:-1]:
            x, y = centre[key]
            points += [(x, y + height / 2), (x, y - height / 2)]
        points.append((centre[way[-1]][0] + arrive[i], centre[way[-1]][1] + height / 2))
        line = "--" if i in back else "-"
        shown = points[::-1] if i in back else points
        for a, b in itertools.pairwise(shown[:-1]):
            ax.plot(
                *zip(a, b, strict=False),
                color="#444444",
                linewidth=0.9,
                linestyle=line,
                zorder=1,
                solid_capstyle="round",
            )
        ax.annotate(
            "",
            xy=shown[-1],
            xytext=shown[-2],
            zorder=1,
            arrowprops={
                "arrowstyle": "-|>",
                "color": "#444444",
                "linewidth": 0.9,
                "linestyle": line,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        if arrow.label:
            (x0, y0), (x1, y1) = points[:2]
            ax.text(
                x0 + (x1 - x0) * 0.35,
                y0 + (y1 - y0) * 0.35,
                arrow.label,
                ha="center",
                va="center",
                fontsize=6.5,
                color="#333333",
                zorder=4,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
            )
    write_picture(path, figure)
