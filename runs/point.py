"""The first stages of a point: a program is built, lowered for one timing, and given its inputs."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from pathlib import Path

import numpy as np

from ..frontend import build, lower
from ..frontend.meaning.evaluator import Evaluator
from ..frontend.meaning.extents import sizes
from ..frontend.program import check_tolerance
from ..machine.config import Config
from ..machine.errors import PenstockError
from ..machine.stimulus import Point as Stimulus
from ..machine.trace import SourceBeats
from ..machine.unitgraph import UnitGraph
from . import boundary


def label(program, params: dict) -> str:
    """A point for messages: the program's name, then its parameters."""
    name = getattr(program, "name", None) or Path(program).stem
    return " ".join([name, *(f"{k}={v}" for k, v in params.items())])


class Point:
    """One program at one parameter point, lowered for one timing; its inputs are made when they are
    first asked for, and once.

    Attributes
    ----------
    program, graph, analysis
        The program, its units, and the symbolic metrics under ``onchip_rule``.
    asserts, traced
        Whether the run checks asserted shapes; whether its values cannot be checked without a trace
        (sinks, units that merge as elements arrive).
    """

    def __init__(
        self,
        program,
        config: Config,
        params: dict,
        timing: str = "machine",
        seed: int = 0,
        onchip_rule: str = "published",
        tolerance: float | None = None,
    ):
        self.config = config
        self.seed = seed
        self.onchip_rule = onchip_rule
        self.tolerance = check_tolerance(tolerance)
        self.program = build(program, params, config)
        self.label = label(self.program.name, params)
        self._lower(timing)

    def _lower(self, timing: str) -> None:
        self.timing = timing
        self.graph: UnitGraph = lower(self.program.graph, self.config, timing=timing)
        self.analysis = self.program.analysis(self.onchip_rule, self.config, self.graph)
        on_machine = timing == "machine"
        self.asserts = on_machine and bool(self.graph.meta["asserted"])
        self.traced = on_machine and boundary.watched(self.program.graph, self.graph)

    def allowed_error(self, tensor: str) -> float:
        """Largest error of an output tensor: the run's own tolerance, or the program's."""
        if self.tolerance is not None:
            return self.tolerance
        return self.program.allowed_error(tensor)

    def retimed(self, timing: str, config: Config | None = None) -> Point:
        """The point in another timing, or on another configuration: the program and its evaluations
        are shared.
        """
        other = copy(self)
        other.config = config or self.config
        other.__dict__.pop("_source_beats", None)
        other._lower(timing)
        return other

    @cached_property
    def measured(self) -> Evaluator | None:
        """An evaluation of sizes alone; None where they depend on the order of arrivals."""
        try:
            return sizes(self.program.graph, self.config.machine.t, self.streams)
        except PenstockError:
            return None

    @cached_property
    def streams(self) -> dict[str, list]:
        """Elements of the program's sources."""
        return self.program.streams(self.seed)

    @cached_property
    def tensors(self) -> dict[str, np.ndarray]:
        """The off-chip tensors before the run."""
        return self.program.inputs(self.seed)

    def source_beats(self) -> dict[int, SourceBeats]:
        """Beats of each source unit (timing `machine`)."""
        return self._source_beats

    @cached_property
    def _source_beats(self) -> dict[int, SourceBeats]:
        return boundary.source_beats(self.program.graph, self.graph, self.streams)

    def source_tokens(self) -> dict:
        """Tokens of each source unit (timing `stepsim`)."""
        return boundary.source_tokens(self.program.graph, self.graph, self.streams)

    def stimulus(self) -> Stimulus:
        """Stimulus that a test bench of the point drives."""
        return Stimulus(self.graph, self.tensors, self.source_beats())
