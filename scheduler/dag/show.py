"""Drawings: the DAG with its groups, and where each subgraph's time goes."""

from __future__ import annotations

import math
import os
from colorsys import hsv_to_rgb

from ...system.output import write_picture
from .evaluate import Evaluation
from .fold import Folded, fold
from .problem import Problem
from .solution import Schedule

_MOST_LABELLED = 120
"""Operations up to which a drawing takes one page and is not folded."""
_MARKER = 0.68
"""Size of an operation's mark in a folded drawing, of its cell's."""
_LETTER = 0.55
"""Mean width of a letter, of the font's size."""
_MOST_BARS = 100
"""Bars in the chart of latencies."""


def _colour(group: int) -> tuple[float, ...]:
    """Colour of a subgraph: light enough for a label on it."""
    import matplotlib.pyplot as plt

    return tuple(0.35 + 0.65 * c for c in plt.get_cmap("tab20")(group % 20)[:3])


def _hue(group: int) -> tuple[float, ...]:
    """Hue of one of many subgraphs: hues a golden section apart, so that neighbours differ."""

    return hsv_to_rgb(0.618034 * group % 1, 0.25 + 0.15 * (group % 3), 1.0)


def layers(problem: Problem) -> list[int]:
    """For each operation, the length of the longest chain of producers above it."""
    layer = [0] * len(problem.ops)
    for op in problem.topological:
        above = [
            layer[p] + 1 for t in problem.ops[op].inputs if (p := problem.producer[t]) is not None
        ]
        layer[op] = max(above, default=0)
    return layer


def draw(
    path: str | os.PathLike[str],
    problem: Problem,
    schedule: Schedule | None = None,
    evaluation: Evaluation | None = None,
) -> None:
    """Draw the DAG, and with a schedule its groups, latencies and rooflines, into an image file (by
    suffix).

    Up to 120 operations fit a page. More of them are folded into strips on a larger one, on which
    every operation has its number.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    large = len(problem.ops) > _MOST_LABELLED
    graph = _draw_folded if large else _draw_graph
    scale = min(2.5, math.sqrt(len(problem.ops) / _MOST_LABELLED)) if large else 1
    if schedule is None or evaluation is None:
        figure, axis = plt.subplots(figsize=(11 * scale, 8 * scale), layout="constrained")
        graph(axis, problem, None)
    else:
        figure = plt.figure(figsize=(16 * scale, 10 * scale), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(3, 2))
        times = figure.add_subplot(grid[0, 1])
        roofline = figure.add_subplot(grid[1, 1])
        graph(figure.add_subplot(grid[:, 0]), problem, schedule)
        _draw_times(times, evaluation)
        _draw_roofline(roofline, problem, evaluation)
        for axis in (times, roofline):
            _enlarge(axis, scale)
    write_picture(path, figure, dpi=110)
    plt.close(figure)


def _enlarge(axis, scale: float) -> None:
    """Its words, on a page ``scale`` times as large."""
    legend = axis.get_legend()
    words = [axis.title, axis.xaxis.label, axis.yaxis.label]
    words += [*axis.get_xticklabels(), *axis.get_yticklabels()]
    for word in [*words, *(legend.get_texts() if legend else [])]:
        word.set_fontsize(word.get_fontsize() * max(1, 0.6 * scale))


def _places(problem: Problem) -> dict[int, tuple[float, float]]:
    """A layered layout; within a layer, operations sit near the mean place of their producers."""
    rows: dict[int, list[int]] = {}
    for op, layer in enumerate(layers(problem)):
        rows.setdefault(layer, []).append(op)
    place: dict[int, tuple[float, float]] = {}
    for layer in sorted(rows):

        def mean(op: int) -> float:
            above = [
                place[p][0]
                for t in problem.ops[op].inputs
                if (p := problem.producer[t]) is not None
            ]
            return math.fsum(above) / len(above) if above else op / len(problem.ops)

        ordered = sorted(rows[layer], key=lambda op: (mean(op), op))
        for position, op in enumerate(ordered):
            place[op] = ((position + 0.5) / len(ordered), -layer)
    return place


def _draw_graph(axis, problem: Problem, schedule: Schedule | None) -> None:
    place = _places(problem)
    groups: dict[int, list[int]] = {op: [] for op in range(len(problem.ops))}
    kept: set[int] = set()
    if schedule is not None:
        for index, entry in enumerate(schedule.subgraphs):
            kept.update(entry.retain)
            for op in entry.ops:
                groups[op].append(index)
    for consumer, op in enumerate(problem.ops):
        for tensor in op.inputs:
            producer = problem.producer[tensor]
            if producer is None:
                continue
            inside = set(groups[producer]) & set(groups[consumer])
            if inside:
                style = {"color": _colour(min(inside)), "lw": 4}
            else:
                style = {
                    "color": "black",
                    "lw": 1.0 if tensor in kept else 0.5,
                    "ls": "--" if tensor in kept else "-",
                }
            axis.annotate(
                "",
                place[consumer],
                place[producer],
                arrowprops={"arrowstyle": "->", "shrinkA": 5, "shrinkB": 5, **style},
            )
    for op, (x, y) in place.items():
        colour = _colour(groups[op][0]) if groups[op] else "lightgrey"
        marker = "s" if problem.ops[op].is_matmul else "o"
        again = len(groups[op]) > 1
        axis.plot(
            x,
            y,
            marker,
            color=colour,
            markeredgecolor="red" if again else "black",
            markeredgewidth=2 if again else 0.7,
            markersize=13,
        )
        axis.annotate(str(op), (x, y), ha="center", va="center", fontsize=7)
        if groups[op]:
            axis.annotate(
                "#" + ",".join(map(str, groups[op])),
                (x, y),
                xytext=(9, 0),
                textcoords="offset points",
                va="center",
                fontsize=6,
                color="dimgrey",
            )
    axis.set_title(
        f"{problem.name}: {len(problem.ops)} operations (squares: MatMul)"
        + (
            ""
            if schedule is None
            else f", {len(schedule.subgraphs)} subgraphs\n"
            "#: subgraph, in order of execution; thick: inside one, dashed: retained, red: "
            "recomputed"
        )
    )
    axis.set_axis_off()
    axis.margins(0.05)


def _draw_folded(axis, problem: Problem, schedule: Schedule | None) -> None:
    """The DAG of many operations: a strip goes on at the top of the next one."""
    from matplotlib.collections import LineCollection

    groups: dict[int, list[int]] = {op: [] for op in range(len(problem.ops))}
    kept: set[int] = set()
    if schedule is not None:
        for index, entry in enumerate(schedule.subgraphs):
            kept.update(entry.retain)
            for op in entry.ops:
                groups[op].append(index)
    page = axis.figure
    wide = 0.6 * page.get_figwidth() if schedule is not None else page.get_figwidth()
    wide = 0.95 * wide
    high = 0.92 * page.get_figheight()
    folded = fold(problem, wide / high)
    cell = 72 * min(wide / folded.width, high / (folded.height + 2))
    edges = _edges(problem, folded, groups, kept)
    for name, (lines, colours) in edges.items():
        colour, width, dashes = _EDGES[name]
        axis.add_collection(
            LineCollection(
                lines, colors=colours or colour, linewidths=width, linestyles=dashes, zorder=1
            )
        )
    for matmul, marker in ((True, "s"), (False, "o")):
        ops = [op for op in folded.places if problem.ops[op].is_matmul == matmul]
        plain = (0.85, 0.85, 0.85)
        colours = [_hue(groups[op][0]) if groups[op] else plain for op in ops]
        rims = ["red" if len(groups[op]) > 1 else "black" for op in ops]
        across = [folded.places[op][0] for op in ops]
        up = [folded.places[op][1] for op in ops]
        axis.scatter(
            across,
            up,
            (_MARKER * cell) ** 2,
            c=colours,
            edgecolors=rims,
            linewidths=0.7,
            marker=marker,
            zorder=2,
        )
    size = min(12, _MARKER * cell * 1.5 / len(str(len(problem.ops))))
    for op, (x, y) in folded.places.items():
        axis.text(x, y, str(op), ha="center", va="center", fontsize=size, zorder=3)
    for strip in folded.strips:
        axis.text(
            strip.left + strip.width / 2,
            0.3,
            f"layers\n{strip.first}-{strip.last}",
            ha="center",
            va="bottom",
            fontsize=min(14, max(6, 0.4 * cell)),
        )
    title = (
        f"{problem.name}: {len(problem.ops)} operations (squares: MatMul), layers downwards, "
        "strip after strip"
    )
    if schedule is not None:
        title += (
            f"; {len(schedule.subgraphs)} subgraphs\na colour each; thick: inside one, "
            "dashed: retained, red: recomputed, pale: to another strip"
        )
    longest = max(map(len, title.splitlines()))
    axis.set_title(title, fontsize=min(72 * wide / (_LETTER * longest), max(12, 0.6 * cell)))
    axis.set_axis_off()
    axis.set_xlim(-1, folded.width + 1)
    axis.set_ylim(-folded.height - 0.5, 2.5)
    axis.set_aspect("equal")


_EDGES = {
    "far": ((0.2, 0.3, 0.5, 0.12), 0.5, "-"),
    "near": ("0.5", 0.6, "-"),
    "kept": ("black", 1.2, "--"),
    "inside": (None, 4, "-"),
}
"""Classes of edges of a folded drawing: colour, width in points, dashes."""


def _edges(
    problem: Problem, folded: Folded, groups: dict[int, list[int]], kept: set[int]
) -> dict[str, tuple[list, list]]:
    """For each class of edges its lines and, where they differ, their colours."""
    out: dict[str, tuple[list, list]] = {name: ([], []) for name in _EDGES}
    for consumer, op in enumerate(problem.ops):
        for tensor in op.inputs:
            producer = problem.producer[tensor]
            if producer is None:
                continue
            inside = set(groups[producer]) & set(groups[consumer])
            name = "near"
            if folded.strip[producer] != folded.strip[consumer]:
                name = "far"
            elif inside:
                name = "inside"
                out[name][1].append(_hue(min(inside)))
            elif tensor in kept:
                name = "kept"
            out[name][0].append((folded.places[producer], folded.places[consumer]))
    return out


def _draw_times(axis, evaluation: Evaluation) -> None:
    """A bar for each subgraph; for each run of subgraphs where there are too many."""
    costs = evaluation.subgraphs
    run = math.ceil(len(costs) / _MOST_BARS)
    starts = range(0, len(costs), run)

    def sums(name: str) -> list[float]:
        return [math.fsum(getattr(s, name) for s in costs[i : i + run]) for i in starts]

    index = [i + (run - 1) / 2 for i in starts]
    latency = sums("latency")
    colours = [_colour(i) for i in starts] if run == 1 else "lightgrey"
    axis.bar(index, latency, 0.8 * run, color=colours, label="latency")
    axis.plot(index, sums("compute"), "kv", markersize=5, label="compute")
    axis.plot(index, sums("memory"), "kx", markersize=5, label="memory")
    axis.set_xlabel("subgraph" if run == 1 else f"subgraph (a bar: {run} in a row, added up)")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_ylabel("units of time")
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.set_ylim(top=1.15 * max(latency))
    axis.set_title(f"total latency {evaluation.latency:,.1f}")
    axis.legend(ncols=3, loc="upper right")


def _draw_roofline(axis, problem: Problem, evaluation: Evaluation) -> None:
    """Compute per element moved against compute per latency: 1 is the compute roof, the slope the
    bandwidth.
    """
    points = [
        (s.compute / moved, s.compute / s.latency, _colour(i))
        for i, s in enumerate(evaluation.subgraphs)
        if (moved := s.loaded + s.stored) and s.compute and s.latency
    ]
    if not points:
        axis.set_axis_off()
        return
    ridge = 1 / problem.bandwidth
    low = min(min(p[0] for p in points), ridge) / 2
    high = max(max(p[0] for p in points), ridge) * 2
    axis.plot([low, ridge, high], [low / ridge, 1, 1], "k-", lw=1)
    across, up, colours = zip(*points, strict=True)
    axis.scatter(across, up, c=colours, edgecolors="black", zorder=3)
    axis.set_xscale("log")
    axis.set_yscale("log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter("{x:g}")
        side.set_minor_formatter("")
    axis.set_xlabel("compute time per element moved")
    axis.set_ylabel("share of the compute roof")
    axis.set_title("roofline, one point per subgraph")
