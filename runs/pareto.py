"""Pareto fronts of points to be small in every coordinate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Front(Generic[ItemT]):
    """The Pareto-optimal ones of the items that it was given; it holds no others.

    Attributes
    ----------
    items
        Coordinates and items; of equal coordinates the first.
    """

    def __init__(self):
        self.items: list[tuple[tuple[float, ...], ItemT]] = []

    def add(self, at: tuple[float, ...], item: ItemT) -> None:
        """Take an item's coordinates into account."""
        if any(all(a <= b for a, b in zip(q, at, strict=True)) for q, _ in self.items):
            return
        self.items = [
            (q, i) for q, i in self.items if not all(a <= b for a, b in zip(at, q, strict=True))
        ]
        self.items.append((at, item))


def distance(point: tuple[float, float], base: Iterable[tuple[float, float]]) -> float:
    """Pareto Improvement Distance of (cycles, bytes) to the Pareto-optimal part of ``base``
    (section 5.2 of the paper): above 1, the point lies beyond it.
    """
    front: Front[None] = Front()
    for at in base:
        front.add(at, None)
    return min(max(q[0] / point[0], q[1] / point[1]) for q, _ in front.items)
