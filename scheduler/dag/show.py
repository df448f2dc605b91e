"""Drawings: the DAG with its groups, and where each subgraph's time goes."""

from __future__ import annotations

import math
import os

from .evaluate import Evaluation
from .problem import Problem
from .solution import Schedule

__all__ = ["draw", "layers"]

_MOST_LABELLED = 120
"""Operations up to which each is labelled."""


def _colour(group: int) -> tuple[float, ...]:
    """Of a subgraph: light enough for a label on it."""
    import matplotlib.pyplot as plt

    return tuple(0.35 + 0.65 * c for c in plt.get_cmap("tab20")(group % 20)[:3])


def layers(problem: Problem) -> list[int]:
    """For each operation, the length of the longest chain of producers above it."""
    layer = [0] * len(problem.ops)
    for op in problem.topological:
        above = [layer[p] + 1 for t in problem.ops[op].inputs if (p := problem.producer[t]) is not None]
        layer[op] = max(above, default=0)
    return layer


def draw(path: str | os.PathLike[str], problem: Problem, schedule: Schedule | None = None, evaluation: Evaluation | None = None) -> None:
    """Draw the DAG, and with a schedule its groups, latencies and rooflines, into an image file (by suffix)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if schedule is None or evaluation is None:
        figure, axis = plt.subplots(figsize=(11, 8), layout="constrained")
        _draw_graph(axis, problem, None)
    else:
        figure = plt.figure(figsize=(16, 10), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(3, 2))
        _draw_graph(figure.add_subplot(grid[:, 0]), problem, schedule)
        _draw_times(figure.add_subplot(grid[0, 1]), evaluation)
        _draw_roofline(figure.add_subplot(grid[1, 1]), problem, evaluation)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _places(problem: Problem) -> dict[int, tuple[float, float]]:
    """A layered layout; within a layer, operations sit near the mean place of their producers."""
    rows: dict[int, list[int]] = {}
    for op, layer in enumerate(layers(problem)):
        rows.setdefault(layer, []).append(op)
    place: dict[int, tuple[float, float]] = {}
    for layer in sorted(rows):
        def mean(op: int) -> float:
            above = [place[p][0] for t in problem.ops[op].inputs if (p := problem.producer[t]) is not None]
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
                style = {"color": "black", "lw": 1.0 if tensor in kept else 0.5, "ls": "--" if tensor in kept else "-"}
            axis.annotate("", place[consumer], place[producer], arrowprops={"arrowstyle": "->", "shrinkA": 5, "shrinkB": 5, **style})
    for op, (x, y) in place.items():
        colour = _colour(groups[op][0]) if groups[op] else "lightgrey"
        marker = "s" if problem.ops[op].is_matmul else "o"
        again = len(groups[op]) > 1
        axis.plot(x, y, marker, color=colour, markeredgecolor="red" if again else "black", markeredgewidth=2 if again else 0.7, markersize=13)
        if len(problem.ops) <= _MOST_LABELLED:
            axis.annotate(str(op), (x, y), ha="center", va="center", fontsize=7)
            if groups[op]:
                axis.annotate("#" + ",".join(map(str, groups[op])), (x, y), xytext=(9, 0), textcoords="offset points", va="center", fontsize=6, color="dimgrey")
    axis.set_title(f"{problem.name}: {len(problem.ops)} operations (squares: MatMul)"
                   + ("" if schedule is None else f", {len(schedule.subgraphs)} subgraphs\n"
                      "#: subgraph, in order of execution; thick: inside one, dashed: retained, red: recomputed"))
    axis.set_axis_off()
    axis.margins(0.05)


def _draw_times(axis, evaluation: Evaluation) -> None:
    index = range(len(evaluation.subgraphs))
    axis.bar(index, [s.latency for s in evaluation.subgraphs], color=[_colour(i) for i in index], label="latency")
    axis.plot(index, [s.compute for s in evaluation.subgraphs], "kv", markersize=5, label="compute")
    axis.plot(index, [s.memory for s in evaluation.subgraphs], "kx", markersize=5, label="memory")
    axis.set_xlabel("subgraph")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_ylabel("units of time")
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.set_ylim(top=1.15 * max(s.latency for s in evaluation.subgraphs))
    axis.set_title(f"total latency {evaluation.latency:,.1f}")
    axis.legend(ncols=3, loc="upper right")


def _draw_roofline(axis, problem: Problem, evaluation: Evaluation) -> None:
    """Compute per element moved against compute per latency: 1 is the compute roof, the slope the bandwidth."""
    points = [(s.compute / moved, s.compute / s.latency, _colour(i)) for i, s in enumerate(evaluation.subgraphs)
              if (moved := s.loaded + s.stored) and s.compute and s.latency]
    if not points:
        axis.set_axis_off()
        return
    ridge = 1 / problem.bandwidth
    low = min(min(p[0] for p in points), ridge) / 2
    high = max(max(p[0] for p in points), ridge) * 2
    axis.plot([low, ridge, high], [low / ridge, 1, 1], "k-", lw=1)
    across, up, colours = zip(*points)
    axis.scatter(across, up, c=colours, edgecolors="black", zorder=3)
    axis.set_xscale("log")
    axis.set_yscale("log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter("{x:g}")
        side.set_minor_formatter("")
    axis.set_xlabel("compute time per element moved")
    axis.set_ylabel("share of the compute roof")
    axis.set_title("roofline, one point per subgraph")
