"""The stage of a point that takes the time: its run on the model."""

from __future__ import annotations

from collections.abc import Iterable

from .. import model
from ..frontend.located import located
from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.trace import Run
from ..model import stepsim
from .point import Point


def on_model(point: Point, values: bool, trace: bool) -> Run:
    """Run a point on the model; an error of the run names the operator's place."""
    try:
        if point.timing == "stepsim":
            return stepsim.run(point.graph, point.config, sources=point.source_tokens())
        channels = [a["channel"] for a in point.graph.meta.get("asserted", [])]
        asserted = [c for c in channels if c is not None]
        return model.run(
            point.graph,
            point.config,
            point.tensors if values else None,
            values=values,
            trace=trace or (values and point.traced) or asserted,
            sources=point.source_beats(),
        )
    except RunError as e:
        raise located(e, point.program.graph.nodes) from None


def scatter(
    program: str, config: Config, params: dict, seeds: Iterable[int], seed: int = 0
) -> list[int]:
    """Cycles of a program in the timing `stepsim`, once for each of ``seeds``, which draws the
    choices that the published simulator leaves to its threads: readers that miss the last step of a
    stream's sender (:func:`penstock.model.stepsim.scatter`).

    ``seed`` is that of the program's own draws; without values, as of a figure.
    """
    return drawn(Point(program, config, params, "stepsim", seed), seeds)


def drawn(point: Point, seeds: Iterable[int]) -> list[int]:
    """Scatter of a point that has been lowered for the timing `stepsim`."""
    return list(stepsim.scatter(point.graph, point.config, seeds, point.source_tokens()))
