"""Drawings: the DAG with its groups, and where each subgraph's time goes."""

from __future__ import annotations

import math
import os
from colorsys import hsv_to_rgb
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...system.output import write_picture
from .evaluate import Evaluation
from .problem import Problem
from .solution import Schedule

if TYPE_CHECKING:
    import networkx as nx

_ONE_PAGE = 120
"""Operations up to which a drawing takes one page, with arrows and the numbers of subgraphs."""
_MOST_BARS = 100
"""Bars in the chart of latencies."""
_GAP = 1.5
"""Cells between two strips."""
_MARK = 0.68
"""Width of an operation's mark, relative to its cell."""
_LARGE = 1 / 12
"""Height of a large cell, relative to the page."""
_FAR = (0.2, 0.3, 0.5, 0.12)
"""Colour of an edge from one strip to another."""


def _colour(group: int) -> tuple[float, float, float]:
    """Colour of a subgraph: hues a golden section apart, so that neighbours differ."""
    return hsv_to_rgb(0.618034 * group % 1, 0.25 + 0.15 * (group % 3), 1.0)


def graph_of(problem: Problem) -> nx.DiGraph:
    """The operations, and an edge for each tensor from its producer to a consumer."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(problem.ops)))
    for consumer, op in enumerate(problem.ops):
        for tensor in op.inputs:
            if (producer := problem.producer[tensor]) is not None:
                graph.add_edge(producer, consumer, tensor=tensor)
    return graph


@dataclass(frozen=True)
class Layout:
    """Cells of 1 x 1 on a page."""

    # centre of each operation's cell; y grows upwards, the first row is at -0.5
    places: dict[int, tuple[float, float]]
    strip: dict[int, int]  # strip of each operation, from left to right
    # width, height: size of the page in cells
    width: float
    height: int


def layout(graph: nx.DiGraph, aspect: float) -> Layout:
    """Layers downwards, folded into strips so that the cells on a page of width ``aspect`` and
    height 1 are largest. A layer wider than a strip goes on in the rows below.
    """
    import networkx as nx

    layers = [sorted(ops) for ops in nx.topological_generations(graph.reverse())][::-1]
    share: dict[int, float] = {}

    def above(op: int) -> tuple[float, int]:
        producers = [share[p] for p in graph.predecessors(op)]
        return (math.fsum(producers) / len(producers) if producers else 0.5), op

    for ops in layers:
        ops.sort(key=above)
        share |= {op: (k + 0.5) / len(ops) for k, op in enumerate(ops)}
    strip_width, strips = _shape([len(ops) for ops in layers], aspect)
    rows = []
    for ops in layers:
        size = math.ceil(len(ops) / math.ceil(len(ops) / strip_width))
        rows += [ops[i : i + size] for i in range(0, len(ops), size)]
    height = math.ceil(len(rows) / strips)
    found = Layout({}, {}, math.ceil(len(rows) / height) * (strip_width + _GAP) - _GAP, height)
    for k, ops in enumerate(rows):
        left = k // height * (strip_width + _GAP) + (strip_width - len(ops)) / 2
        for x, op in enumerate(ops):
            found.places[op] = (left + x + 0.5, -(k % height) - 0.5)
            found.strip[op] = k // height
    return found


def _shape(layers: list[int], aspect: float) -> tuple[int, int]:
    """Width and number of strips that make the cells largest; few strips where they are large."""
    best = (0.0, 0, 1)
    for width in sorted({math.ceil(max(layers) ** (i / 24)) for i in range(25)}):
        rows = sum(math.ceil(n / width) for n in layers)
        for strips in range(1, min(rows, 400) + 1):
            across = strips * (width + _GAP) - _GAP
            cell = min(aspect / across, 1 / math.ceil(rows / strips), _LARGE)
            best = max(best, (cell, -strips, width))
    return best[2], -best[1]


def draw(
    path: str | os.PathLike[str],
    problem: Problem,
    schedule: Schedule | None = None,
    evaluation: Evaluation | None = None,
) -> None:
    """Draw the DAG, and with a schedule its groups, latencies and rooflines, into an image file (by
    suffix).

    Many operations take a larger page, on which every one has its number.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    scale = min(2.5, max(1, math.sqrt(len(problem.ops) / _ONE_PAGE)))
    if schedule is None or evaluation is None:
        figure, axis = plt.subplots(figsize=(11 * scale, 8 * scale), layout="constrained")
        _draw_graph(axis, problem, None, (11 * scale, 8 * scale))
    else:
        figure = plt.figure(figsize=(16 * scale, 10 * scale), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(3, 2))
        times = figure.add_subplot(grid[0, 1])
        roofline = figure.add_subplot(grid[1, 1])
        _draw_graph(figure.add_subplot(grid[:, 0]), problem, schedule, (9.6 * scale, 10 * scale))
        _draw_times(times, evaluation)
        _draw_roofline(roofline, problem, evaluation)
        for axis in (times, roofline):
            _enlarge(axis, scale)
    write_picture(path, figure, dpi=110)
    plt.close(figure)


def _enlarge(axis, scale: float) -> None:
    """Scale the text of a chart to a page ``scale`` times as large."""
    legend = axis.get_legend()
    words = [axis.title, axis.xaxis.label, axis.yaxis.label]
    words += [*axis.get_xticklabels(), *axis.get_yticklabels()]
    for word in [*words, *(legend.get_texts() if legend else [])]:
        word.set_fontsize(word.get_fontsize() * max(1, 0.6 * scale))


def _draw_graph(
    axis, problem: Problem, schedule: Schedule | None, size: tuple[float, float]
) -> None:
    """Draw the DAG on an area of this width and height in inches."""
    import networkx as nx

    graph = graph_of(problem)
    wide, high = 0.95 * size[0], 0.92 * size[1]
    page = layout(graph, wide / high)
    cell = min(60, 72 * min(wide / page.width, high / page.height))
    groups: list[list[int]] = [[] for _ in problem.ops]
    retained: set[int] = set()
    for index, entry in enumerate(schedule.subgraphs if schedule else ()):
        retained.update(entry.retain)
        for op in entry.ops:
            groups[op].append(index)
    arrows = len(problem.ops) <= _ONE_PAGE
    mark = (_MARK * cell) ** 2
    looks = []
    for producer, consumer, tensor in graph.edges(data="tensor"):
        inside = set(groups[producer]) & set(groups[consumer])
        if page.strip[producer] != page.strip[consumer]:
            looks.append((_FAR, 0.5, "-"))
        elif inside:
            looks.append((_colour(min(inside)), 4.0, "-"))
        else:
            looks.append(("0.3", *((1.2, "--") if tensor in retained else (0.6, "-"))))
    if looks:
        colours, widths, styles = map(list, zip(*looks, strict=True))
        nx.draw_networkx_edges(
            graph,
            page.places,
            edge_color=colours,
            width=widths,
            style=styles,
            arrows=arrows,
            node_size=mark,
            ax=axis,
        )
    for matmul, marker in ((True, "s"), (False, "o")):
        ops = [op for op in graph if problem.ops[op].is_matmul == matmul]
        nx.draw_networkx_nodes(
            graph,
            page.places,
            ops,
            mark,
            [_colour(groups[op][0]) if groups[op] else (0.85, 0.85, 0.85) for op in ops],
            marker,
            ax=axis,
            linewidths=0.7,
            edgecolors=["red" if len(groups[op]) > 1 else "black" for op in ops],
        )
    font = min(12, _MARK * cell * 1.5 / len(str(len(problem.ops))))
    nx.draw_networkx_labels(graph, page.places, font_size=font, ax=axis)
    if arrows:
        names = {op: "#" + ",".join(map(str, g)) for op, g in enumerate(groups) if g}
        beside = {op: (x + 0.4, y) for op, (x, y) in page.places.items()}
        nx.draw_networkx_labels(
            graph, beside, names, font_size=6, horizontalalignment="left", ax=axis, clip_on=False
        )
    title = f"{problem.name}: {len(problem.ops)} operations (squares: MatMul), layers downwards"
    if schedule is not None:
        title += (
            f"; {len(schedule.subgraphs)} subgraphs\na colour each, #: order of execution; "
            "thick: inside one, dashed: retained, red: recomputed, pale: to another strip"
        )
    longest = max(map(len, title.splitlines()))
    axis.set_title(title, fontsize=min(72 * wide / (0.55 * longest), max(12, 0.6 * cell)))
    axis.set_axis_off()
    axis.set_aspect("equal")


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
