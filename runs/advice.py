"""Channels whose depth costs cycles: found in a recorded run, tried by running the model deeper."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .. import model
from ..frontend.types import TileType, ceil_div, tiles_along
from ..machine.trace import Run
from ..machine.unitgraph import Channel, UnitGraph
from .point import Point

CANDIDATES = 8
"""Channels that are tried alone."""
DEEPEST = 1 << 10


@dataclass(frozen=True)
class Advice:
    """A deeper channel, and the cycles of a run that has it.

    Attributes
    ----------
    channel, depth
        The channel, and the beats that it should hold.
    setting
        The way to set it in the program.
    before, cycles
        Of the run as it is, and of the one with this channel deeper.

    """

    channel: str
    depth: int
    setting: str
    before: int
    cycles: int

    def __str__(self) -> str:
        return (
            f"{self.channel}: depth {self.depth} brings {self.before - self.cycles} cycles "
            f"({self.before} to {self.cycles}, by a run): {self.setting}"
        )


def waits(run: Run, channel: Channel) -> int:
    """Beats that were accepted in the first cycle in which a slot was free."""
    trace = run.channels[channel.id]
    late = trace.accept[channel.depth :]
    freed = trace.take[: len(late)]
    return int(np.count_nonzero((freed >= 0) & (late == freed + 1)))


def advise(point: Point) -> list[Advice]:
    """Channels that make a run shorter where they alone are deeper, the best first."""
    graph = point.graph
    sources = point.source_beats()
    run = model.run(graph, point.config, values=False, trace=True, sources=sources)

    def cycles(c: Channel, depth: int) -> int:
        channels = list(graph.channels)
        channels[c.id] = replace(c, depth=depth)
        deeper = replace(graph, channels=tuple(channels))
        return model.run(deeper, point.config, values=False, sources=sources).cycles

    full = sorted(graph.channels, key=lambda c: -waits(run, c))[:CANDIDATES]
    found = []
    for c in full:
        setting, tiles = _setting(point, graph, c)
        if not waits(run, c) or not tiles:
            continue
        most = min(DEEPEST, len(run.channels[c.id].accept))
        best = cycles(c, ceil_div(most, tiles) * tiles + 1)
        if best >= run.cycles:
            continue
        low, high = 0, ceil_div(most, tiles)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if cycles(c, middle * tiles + 1) <= best else (middle, high)
        depth = high * tiles + 1
        shown = setting.format(depth=high)
        found.append(Advice(c.name, depth, shown, run.cycles, cycles(c, depth)))
    return sorted(found, key=lambda a: a.cycles)[:3]


def text(found: list[Advice]) -> str:
    """The part of `penstock explain` on channels."""
    lines = [f"    {a}" for a in found] or ["    none of those tried brings cycles alone"]
    return "\n".join(["", "  channels to deepen, each alone:", *lines])


def _setting(point: Point, graph: UnitGraph, c: Channel) -> tuple[str, int]:
    """The Fifo that deepens a channel, and beats of an element; 0 beats within an operator."""
    nodes = {n.name: n for n in point.program.graph.nodes}
    source, reader = (graph.units[u].node for u in (c.src[0], c.dst[0]))
    streams = [s for s in nodes[reader].inputs if s.node.name == source] if reader in nodes else []
    if source == reader or not streams:
        return "", 0
    element = streams[0].element
    tiles = 1
    if isinstance(element, TileType):
        rows, cols = (tiles_along(d, graph.t) for d in (element.rows, element.cols))
        if not isinstance(rows, int) or not isinstance(cols, int):
            return "", 0
        tiles = rows * cols
    return f"Fifo({streams[0].name}, depth={{depth}}) on the way to {reader}", tiles
