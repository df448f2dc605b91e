"""The stage of a point that takes the time: its run on the model."""

from __future__ import annotations

from .. import model
from ..machine.errors import RunError
from ..machine.trace import Run
from ..model import stepsim
from .point import Point


def on_model(point: Point, values: bool, trace: bool) -> Run:
    """Run a point on the model; an error of the run is told with the operator's place."""
    try:
        if point.timing == "stepsim":
            return stepsim.run(point.graph, point.config, sources=point.source_tokens())
        return model.run(
            point.graph,
            point.config,
            point.tensors if values else None,
            values=values,
            trace=trace or point.asserts or (values and point.traced),
            sources=point.source_beats(),
        )
    except RunError as e:
        raise point.program.graph.located(e) from None
