"""The scatter of the timing `stepsim`: what the published simulator leaves to its threads."""

from __future__ import annotations

from collections.abc import Iterable

from ..machine.config import Config
from ..model import stepsim
from .point import Point


def scatter(
    program: str, config: Config, params: dict, seeds: Iterable[int], seed: int = 0
) -> list[int]:
    """Cycles of a program in the timing `stepsim`, once for each of ``seeds``: with it is drawn who
    misses the last step of a stream's sender (:func:`penstock.model.stepsim.scatter`).

    ``seed`` is that of the program's own draws; without values, as of a figure.
    """
    return of(Point(program, config, params, "stepsim", seed), seeds)


def of(point: Point, seeds: Iterable[int]) -> list[int]:
    """The same of a point that has been lowered for the timing `stepsim`."""
    return list(stepsim.scatter(point.graph, point.config, seeds, point.source_tokens()))
