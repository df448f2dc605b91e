"""Where a drawing of a large DAG puts its operations: layers downwards, folded into strips."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .problem import Problem

_GAP = 1.5
"""Cells between two strips."""


@dataclass(frozen=True)
class Strip:
    """A part of the rows: its left edge in cells, its width, and its first and last layer."""

    left: float
    width: int
    first: int
    last: int


@dataclass(frozen=True)
class Folded:
    """A drawing in cells of 1 x 1.

    Attributes
    ----------
    places
        Centre of each operation's cell; y grows upwards, the first row is at -0.5.
    strip
        The strip of each operation.
    strips
        From left to right.
    width, height
        Of the whole, in cells.
    """

    places: dict[int, tuple[float, float]]
    strip: dict[int, int]
    strips: list[Strip]
    width: float
    height: int


def late_layers(problem: Problem) -> list[int]:
    """The layer of each operation: just above its first consumer, so that it stands near it.

    An operation that nobody consumes stands below its producers.
    """
    layer = [0] * len(problem.ops)
    for op in problem.topological:
        layer[op] = 1 + max((layer[p] for p in _producers(problem, op)), default=-1)
    for op in reversed(problem.topological):
        if users := problem.consumers[problem.ops[op].output]:
            layer[op] = min(layer[u] for u in users) - 1
    return layer


def fold(problem: Problem, aspect: float) -> Folded:
    """The largest cells that an area of width ``aspect`` and height 1 has room for.

    A layer wider than a strip goes on in the rows below.
    """
    by_layer: dict[int, list[int]] = {}
    for op, layer in enumerate(late_layers(problem)):
        by_layer.setdefault(layer, []).append(op)
    ordered = _ordered(problem, by_layer)
    width, strips = _shape([len(ops) for ops in ordered], aspect)
    rows = []
    for layer, ops in enumerate(ordered):
        count = math.ceil(len(ops) / width)
        per_row = math.ceil(len(ops) / count)
        rows += [(layer, ops[i : i + per_row]) for i in range(0, len(ops), per_row)]
    height = math.ceil(len(rows) / strips)
    places: dict[int, tuple[float, float]] = {}
    strip_of: dict[int, int] = {}
    found = []
    for index, start in enumerate(range(0, len(rows), height)):
        part = rows[start : start + height]
        left = index * (width + _GAP)
        found.append(Strip(left, width, part[0][0], part[-1][0]))
        for y, (_, ops) in enumerate(part):
            for x, op in enumerate(ops):
                places[op] = (left + (width - len(ops)) / 2 + x + 0.5, -y - 0.5)
                strip_of[op] = index
    return Folded(places, strip_of, found, found[-1].left + width, height)


def _producers(problem: Problem, op: int) -> list[int]:
    return [p for t in problem.ops[op].inputs if (p := problem.producer[t]) is not None]


def _ordered(problem: Problem, by_layer: dict[int, list[int]]) -> list[list[int]]:
    """Each layer's operations, near the mean place of their producers within their layers."""
    share: dict[int, float] = {}
    out = []
    for layer in sorted(by_layer):

        def place(op: int) -> float:
            above = [share[p] for p in _producers(problem, op)]
            return math.fsum(above) / len(above) if above else 0.5

        ops = sorted(by_layer[layer], key=lambda op: (place(op), op))
        for position, op in enumerate(ops):
            share[op] = (position + 0.5) / len(ops)
        out.append(ops)
    return out


def _shape(layers: list[int], aspect: float) -> tuple[int, int]:
    """Width of a strip in cells and number of strips that make the cells largest."""
    best = (0.0, 1, 1)
    widest = max(layers)
    for width in sorted({math.ceil(widest ** (i / 24)) for i in range(25)}):
        rows = sum(math.ceil(n / width) for n in layers)
        for strips in range(1, min(rows, 400) + 1):
            across = strips * (width + _GAP) - _GAP
            cell = min(aspect / across, 1 / math.ceil(rows / strips))
            best = max(best, (cell, width, strips))
    return best[1], best[2]
