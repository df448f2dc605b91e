"""Lowering: a program graph becomes a unit graph, for the timing `machine` (physical tiles) or
`stepsim` (logical tiles).

Hierarchical tiling (the paper's appendix B.2): a logical tile [r, c] travels as two extra inner
dimensions of physical tiles, [ceil(r/t), ceil(c/t)] row-major, also where that is 1 x 1. So
dimension d of a tile stream is dimension d + 2 on the wire, and stop s is stop s + 2. A tile of
run-time size has as many physical ones as its valid rows and columns need.
"""

from __future__ import annotations

from ...machine.config import Config
from ...machine.errors import ConfigError, LoweringError, nearest
from ...machine.functions import FUNCTIONS
from ...machine.unitgraph import UnitGraph
from ..graph import Graph
from ..located import located
from . import reconvergence
from .base import Lowering, Port
from .machine import MachineLowering
from .stepsim import StepsimLowering


def lower(graph: Graph, config: Config, timing: str = "machine") -> UnitGraph:
    """Lower a program for a configuration.

    Raises
    ------
    ProgramError
        If a stream is not read or nothing is stored.
    LoweringError
        If the machine cannot hold or run it; the message has the figures.
    """
    graph.check()
    if timing == "machine":
        if unknown := [
            n for n in config.machine.lanes if n not in ("default", "accum", *FUNCTIONS)
        ]:
            raise ConfigError(
                f"no function {unknown[0]!r}",
                f"config {config.name}: machine.lanes",
                remedy=nearest(unknown[0], ["default", "accum", *FUNCTIONS], "names:"),
            )
        return _settled(MachineLowering(graph, config))
    if timing == "stepsim":
        return _settled(StepsimLowering(graph, config))
    raise LoweringError(f"no timing {timing!r}", remedy="one of machine, stepsim")


def _settled(low: Lowering) -> UnitGraph:
    """The unit graph, its channels as deep as paths that join again need them, unless it is certain
    to deadlock.
    """
    try:
        low.lower_nodes()
        reconvergence.settle(low)
        return low.finish()
    except LoweringError as e:
        raise located(e, low.graph.nodes) from None


__all__ = ["Lowering", "MachineLowering", "Port", "StepsimLowering", "lower"]
