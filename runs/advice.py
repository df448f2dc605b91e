"""Channels whose depth costs cycles: found in a recorded run, tried by running the model deeper."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from .. import model
from ..frontend.types import TileType, ceil_div, tiles_along
from ..machine.trace import Run
from ..machine.unitgraph import Channel, UnitGraph
from .point import Point

CANDIDATES = 8
"""Channels that are looked at in a run."""
ROUNDS = 3
"""Runs in which channels to deepen together are looked for, each deeper than the one before."""
DEEPEST = 1 << 10
SECONDS = 10.0
"""Time after which no further run begins."""


@dataclass(frozen=True)
class Advice:
    """Deeper channels, and the cycles of a run that has them."""

    depths: dict[str, int]  # beats that channels should hold, by name
    settings: list[str]  # for each the way to set it, in the program or on the command line
    # before, cycles: of the run as it is, and of the one with these channels deeper
    before: int
    cycles: int

    def __str__(self) -> str:
        fewer = self.before - self.cycles
        lines = [f"    {self.before} to {self.cycles} cycles ({fewer} fewer, by a run):"]
        lines += [
            f"      {name}, depth {depth}: {setting}"
            for (name, depth), setting in zip(self.depths.items(), self.settings, strict=True)
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Found:
    """Channels that cost a program cycles."""

    cycles: int  # of the run as it is
    alone: list[Advice]  # channels that bring cycles each alone, the best first
    together: Advice | None  # several that bring more than the best alone
    machine: Advice | None  # a depth of all channels that brings at least as much
    cut: bool  # whether the time was over before all was tried

    def __str__(self) -> str:
        """The part of `penstock explain` on channels."""
        none = "none of those tried brings cycles" + (" alone" if self.together else "")
        lines = ["", "  channels to deepen, each alone:"]
        lines += [str(a) for a in self.alone] or [f"    {none}"]
        for title, a in (("together", self.together), ("of the machine", self.machine)):
            lines += [f"  {title}:", str(a)] if a else []
        if self.cut:
            lines.append(f"  not all was tried: cut after {SECONDS:g} s")
        return "\n".join(lines)


def waits(run: Run, channel: Channel) -> int:
    """Beats that were accepted in the first cycle in which a slot was free."""
    trace = run.channels[channel.id]
    late = trace.accept[channel.depth :]
    freed = trace.take[: len(late)]
    return int(np.count_nonzero((freed >= 0) & (late == freed + 1)))


def advise(point: Point, seconds: float = SECONDS) -> Found:
    """Channels that make a run shorter where they are deeper."""
    trials = _Trials(point, time.monotonic() + seconds)
    alone = [a for c in trials.full({}) if (a := trials.advice({c: trials.most[c]}))]
    alone.sort(key=lambda a: a.cycles)
    together = trials.advice(trials.together())
    least = min([trials.before, *(a.cycles for a in alone[:1])])
    if together and (len(together.depths) < 2 or together.cycles >= least):
        together = None
    least = together.cycles if together else least
    return Found(trials.before, alone[:3], together, trials.machine(least), trials.cut)


class _Trials:
    """Runs of a point with deeper channels, until the time is over.

    Depths are multiples of an element, by channel: one more beat goes with each.

    Attributes
    ----------
    before
        Cycles of the run as it is.
    most
        The largest depth that is tried, by channel.
    cut
        Whether a trial was left out.
    """

    def __init__(self, point: Point, end: float):
        self.point = point
        self.graph = point.graph
        self.end = end
        self.cut = False
        self.settings: dict[int, str] = {}
        self.tiles: dict[int, int] = {}
        self.most: dict[int, int] = {}
        self._run = self._traced({})
        self.before = self._run.cycles

    def over(self) -> bool:
        """True if no further run may begin."""
        self.cut |= time.monotonic() > self.end
        return self.cut

    def beats(self, depths: dict[int, int]) -> dict[int, int]:
        return {c: n * self.tiles[c] + 1 for c, n in depths.items()}

    def _deeper(self, depths: dict[int, int]) -> UnitGraph:
        channels = list(self.graph.channels)
        for c, depth in self.beats(depths).items():
            channels[c] = replace(channels[c], depth=max(depth, channels[c].depth))
        return replace(self.graph, channels=tuple(channels))

    def _traced(self, depths: dict[int, int]) -> Run:
        sources = self.point.source_beats()
        graph = self._deeper(depths)
        return model.run(graph, self.point.config, values=False, trace=True, sources=sources)

    def cycles(self, depths: dict[int, int]) -> int:
        sources = self.point.source_beats()
        graph = self._deeper(depths)
        return model.run(graph, self.point.config, values=False, sources=sources).cycles

    def full(self, depths: dict[int, int]) -> list[int]:
        """Channels between operators that beats wait for, most first."""
        run = self._traced(depths) if depths else self._run
        deeper = self._deeper(depths).channels
        counts = {c.id: waits(run, c) for c in deeper if c.id not in depths}
        found = []
        for c in sorted(counts, key=lambda c: -counts[c]):
            if not counts[c] or len(found) == CANDIDATES:
                break
            self.settings[c], self.tiles[c] = _setting(self.point, self.graph, deeper[c])
            if self.tiles[c]:
                beats = min(DEEPEST, len(run.channels[c].accept))
                self.most[c] = ceil_div(beats, self.tiles[c])
                found.append(c)
        return found

    def together(self) -> dict[int, int]:
        """Channels that are deepened at once, round by round: where one that is deeper only moves
        the wait to another.
        """
        depths: dict[int, int] = {}
        for _ in range(ROUNDS):
            if self.over():
                break
            more = {c: self.most[c] for c in self.full(depths)}
            if not more:
                break
            depths |= more
        return depths

    def advice(self, depths: dict[int, int]) -> Advice | None:
        """The fewest of these channels, and the least depths, that bring as much within 1 %."""
        if not depths or self.over():
            return None
        least = self.cycles(depths)
        if least >= self.before:
            return None
        enough = least + (self.before - least) // 100
        for c in reversed(depths) if len(depths) > 1 else ():
            fewer = {other: n for other, n in depths.items() if other != c}
            if not self.over() and self.cycles(fewer) <= enough:
                depths = fewer
        for c in depths:
            low = 0
            while depths[c] - low > 1 and not self.over():
                middle = (low + depths[c]) // 2
                if self.cycles(depths | {c: middle}) <= enough:
                    depths = depths | {c: middle}
                else:
                    low = middle
        settings = [self.settings[c].format(depth=n) for c, n in depths.items()]
        named = {self.graph.channels[c].name: n for c, n in self.beats(depths).items()}
        return Advice(named, settings, self.before, self.cycles(depths))

    def machine(self, least: int) -> Advice | None:
        """Twice or four times the depth of all channels, where it brings at least as much."""
        for times in (2, 4):
            if self.over():
                return None
            m = self.point.config.machine
            depth = times * m.channel_depth
            config = replace(self.point.config, machine=replace(m, channel_depth=depth))
            deeper = self.point.retimed(self.point.timing, config)
            sources = deeper.source_beats()
            found = model.run(deeper.graph, config, values=False, sources=sources).cycles
            if found <= least and found < self.before:
                option = f"--machine channel_depth={depth}"
                return Advice({"all channels": depth}, [option], self.before, found)
        return None


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
