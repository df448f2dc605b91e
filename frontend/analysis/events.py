"""Waits between beats, and their least length: the contract of docs/timing.md as a graph of events.

An event is the first cycle in which a channel's first beat, its last one before Done, or its Done
can be visible; the end of the run is one more. An edge says that one event is at least so many
cycles after another. So the longest path to an event is a cycle before which it cannot be, whatever
waits, shares or fills up beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from ...machine.unitgraph import Unit, UnitGraph
from .flows import UNKNOWN, Flow
from .lines import Moved

Edge = tuple[int, int, int, int, str]
"""An event, one that is at least so many cycles after it, these cycles, and why: what of which
unit. A plain tuple, as a run makes hundreds.
"""


class Machine(NamedTuple):
    """Demand of a memory on an off-chip unit: cycles from a chunk's grant to the cycle in which its
    lines are visible, and from the walk's place of it; lines of a chunk, groups of a load's ring,
    bytes of a line.
    """

    line: int
    walk: int
    lanes: int
    groups: int
    line_bytes: int


class Port(NamedTuple):
    """An off-chip unit's lines: not before an event, with an event that is at least so many cycles
    after the last of them is visible. ``part``: they are all but the last logical tile's.
    """

    unit: int
    before: int
    moved: Moved
    after: int
    cycles: int
    part: bool = False


class Served(NamedTuple):
    """Beats that one port of a scratchpad serves for one client, from an event on, with an event
    after the last of them.
    """

    server: tuple[int, str]
    before: int
    beats: int
    after: int
    cycles: int


@dataclass
class Events:
    """The events of a unit graph.

    Attributes
    ----------
    edges, earliest
        What is known; and of some events that one of several must come before them: (the several,
        the event, cycles).
    ports, served
        What units ask of what they share.
    flows
        Of each channel.
    """

    graph: UnitGraph
    machine: Machine
    given: Mapping[int, Flow] = field(default_factory=dict)
    releases: Mapping[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flows: list[Flow] = [UNKNOWN] * len(self.graph.channels)
        self.whole: set[int] = set()
        self.buffers: dict[int, tuple[int, ...] | None] = {}
        self.edges: list[Edge] = []
        self.marks: list[dict[int, int]] = [{} for _ in self.graph.channels]
        self.events = self.end + 1
        self.earliest: list[tuple[tuple[int, ...], int, int]] = []
        self.ports: list[Port] = []
        self.served: list[Served] = []
        self.writers: dict[int, list[int]] = {}

    @property
    def start(self) -> int:
        """The event of cycle 0."""
        return 3 * len(self.graph.channels)

    @property
    def end(self) -> int:
        """The event of the cycle in which the run ends."""
        return self.start + 1

    def add(self, before: int, after: int, cycles: int, unit: int, why: str = "latency") -> None:
        self.edges.append((before, after, cycles, unit, why))

    def follow(self, before: int, after: int, cycles: int, unit: int, why: str = "latency") -> None:
        """First after first, last after last, Done after Done, where both have them."""
        self.add(first(before), first(after), cycles, unit, why)
        self.add(done(before), done(after), cycles, unit, why)
        if self.flows[before].some and self.flows[after].count:
            self.add(last(before), last(after), cycles, unit, why)

    def alike(self, before: int, after: int, cycles: int, unit: int) -> None:
        """Variant of :meth:`follow` that also orders every beat after the one of its place."""
        if self.marks[before] and self.flows[before].count == self.flows[after].count:
            self.add(done(before), done(after), cycles, unit)
            self.through(before, after, cycles, unit)
        else:
            self.follow(before, after, cycles, unit)

    def set(self, channel: int, flow: Flow) -> None:
        """Set the facts about a channel, unless its beats are given."""
        flow = self.given.get(channel, flow)
        self.flows[channel] = flow
        if flow.dims is not None:
            self.marks[channel] = {1: last(channel), flow.count or 1: first(channel)}

    def mark(self, channel: int, beat: int) -> int | None:
        """The event that a beat, counted from the last one, is visible; None where no more events
        of the channel are looked at.
        """
        marks = self.marks[channel]
        if beat not in marks and beat <= (self.flows[channel].count or 0):
            if len(marks) >= MOST_MARKS:
                return None
            marks[beat] = self.events
            self.events += 1
        return marks.get(beat)

    def through(
        self,
        before: int,
        after: int,
        cycles: int,
        unit: int,
        why: str = "latency",
        *,
        group: int = 1,
        gives: int = 1,
        interval: int = 1,
    ) -> None:
        """A group of beats is taken, one each ``interval``, and so many cycles after its last one
        the first of ``gives`` is visible; both streams are regular.
        """
        if self.flows[before].dims is None or self.flows[after].dims is None:
            return
        for beat, event in list(self.marks[before].items()):
            groups = -(-beat // group)
            to = self.mark(after, groups * gives)
            if to is not None:
                wait = (beat - 1) % group * interval
                self.add(event, to, wait + cycles, unit, why)

    def longest(self) -> tuple[list[float], list[Edge | None]]:
        """Earliest cycle of each event, and the edge that sets it."""
        at = [0.0] * self.events
        by: list[Edge | None] = [None] * self.events
        for _ in range(PASSES):
            moved = False
            for several, event, cycles in self.earliest:
                if (found := min(at[x] for x in several) + cycles) > at[event]:
                    at[event] = found
                    moved = True
            for edge in self.edges:
                before, after, cycles, _, _ = edge
                if (found := at[before] + cycles) > at[after]:
                    at[after] = found
                    by[after] = edge
                    moved = True
            if not moved:
                break
        return at, by

    def tails(self) -> list[float]:
        """Least number of cycles from each event to the end of the run."""
        to = [-inf] * self.events
        to[self.end] = 0
        for _ in range(PASSES):
            moved = False
            for before, after, cycles, _, _ in reversed(self.edges):
                if (found := to[after] + cycles) > to[before]:
                    to[before] = found
                    moved = True
            if not moved:
                break
        return to


MOST_MARKS = 8
"""Beats of a channel that are looked at."""
PASSES = 4
"""Times that edges are looked at: units that form a loop need more than one."""


def first(channel: int) -> int:
    """The event that a channel's first beat is visible, be it Done."""
    return 3 * channel


def last(channel: int) -> int:
    """The event that its last beat before Done is visible; only where there is one."""
    return 3 * channel + 1


def done(channel: int) -> int:
    """The event that its Done is visible."""
    return 3 * channel + 2


Rule = Callable[[Events, Unit, Any, list[int], list[int]], None]
RULES: dict[str, Rule] = {}
"""Kind -> what it adds."""


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    def put(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return put
