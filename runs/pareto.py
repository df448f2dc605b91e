"""Pareto fronts of points to be small in every coordinate."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["distance"]


def distance(point: tuple[float, float], base: Iterable[tuple[float, float]]) -> float:
    """Pareto Improvement Distance of (cycles, bytes) to the Pareto-optimal part of ``base``
    (section 5.2 of the paper): above 1, the point lies beyond it.
    """
    base = list(base)
    front = [q for q in base if not any(r[0] <= q[0] and r[1] <= q[1] and r != q for r in base)]
    return min(max(q[0] / point[0], q[1] / point[1]) for q in front)
