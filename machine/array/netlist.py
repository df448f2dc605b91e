"""Netlist of a unit graph for place and route: its units without broadcasts, and its nets.

A `broadcast` without a scratchpad is absorbed: its copies are made by the switches on the way. A
channel that is deeper than what a route holds gets a `hop` unit, whose slot has a deep FIFO.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..beat import Payload
from ..errors import LoweringError
from ..kinds import copies
from ..unitgraph import Channel, Unit, UnitGraph, ends_of_all
from .description import BUFFER_KIND, BUFFER_PLACES, HOP_PLACES, INPUT_PLACES, plane_of

End = tuple[int, int]
"""A unit and one of its ports."""


@dataclass(frozen=True)
class Leaf:
    """An end of a net."""

    channel: int  # the program's channel into `dst`
    dst: End
    # of the FIFO in front of it, at least: with those of the switches it holds no less than the
    # channels of the dedicated fabric on the way from the net's source
    places: int


@dataclass(frozen=True)
class Net:
    """Net from one output of one unit to all inputs that it reaches."""

    src: End
    plane: str
    payload: Payload
    leaves: tuple[Leaf, ...]
    absorbed: tuple[int, ...] = ()  # broadcasts on the way, by unit id
    inner: tuple[int, ...] = ()  # channels into these

    @property
    def alone(self) -> bool:
        """True if it has one end."""
        return len(self.leaves) == 1


def absorbs(unit: Unit) -> bool:
    """True if a unit becomes a part of a route."""
    return unit.kind.name == "broadcast" and unit.kind.scratchpad is None


def posts_of(graph: UnitGraph) -> list[tuple[int, int]]:
    """Units that change reference counts, and the scratchpad of each."""
    found: list[tuple[int, int]] = []
    for unit in graph.units:
        memory = unit.kind.posts_to()
        if memory is not None:
            found.append((unit.id, memory))
    return found


def most_places(alone: bool) -> int:
    """Most beats that a route's end holds, with the injection's FIFO where no other end shares
    it.
    """
    return INPUT_PLACES + HOP_PLACES if alone else INPUT_PLACES


def nets_of(graph: UnitGraph) -> list[Net]:
    """The nets of a graph, by their source.

    Raises
    ------
    LoweringError
        A payload that no plane carries.
    """
    _, outs = ends_of_all(graph)
    found: list[Net] = []
    for unit in graph.units:
        if absorbs(unit):
            continue
        for first in outs[unit.id]:
            plane = plane_of(first.payload)
            if plane is None:
                raise LoweringError(
                    f"carries {first.payload}",
                    f"channel {first.name}",
                    "no plane of an array carries tuples of tiles, or more than 64 bits of numbers",
                    "run this program on a fabric of its own",
                )
            found.append(_net(graph, outs, first, plane))
    return found


def _net(graph: UnitGraph, outs: list[list[Channel]], first: Channel, plane: str) -> Net:
    leaves: list[Leaf] = []
    absorbed: list[int] = []
    inner: list[int] = []

    def walk(channel: Channel, held: int) -> None:
        """``held``: places that the end needs for the channels before this one."""
        unit = channel.dst[0]
        if not absorbs(graph.units[unit]):
            leaves.append(Leaf(channel.id, channel.dst, held + channel.depth))
            return
        absorbed.append(unit)
        inner.append(channel.id)
        before = channel.depth if channel is not first else max(channel.depth - HOP_PLACES, 0)
        for copy in outs[unit]:
            walk(copy, held + before)

    walk(first, 0)
    return Net(first.src, plane, first.payload, tuple(leaves), tuple(absorbed), tuple(inner))


def with_buffers(graph: UnitGraph) -> UnitGraph:
    """The graph with a `hop` unit where a net that forks begins with a deep channel, and in front
    of every end that needs more places than a slot's input has.

    Units and channels keep their ids, and those that are new come last.

    Raises
    ------
    LoweringError
        More places than a buffer has.
    """
    for front in (True, False):
        graph = _buffered(graph, list(_too_deep(graph, front)))
    return graph


def _buffered(graph: UnitGraph, deep: list[tuple[int, int]]) -> UnitGraph:
    """The graph with a buffer in some channels, each given with the places that it needs."""
    units = list(graph.units)
    channels = list(graph.channels)
    for number, places in deep:
        old = channels[number]
        if places > BUFFER_PLACES:
            raise LoweringError(
                f"needs {places} places",
                f"channel {old.name}",
                f"a buffer of an array has {BUFFER_PLACES}",
                "make the channel shallower",
            )
        hop = Unit(len(units), f"{old.name}.buffer", copies.Hop(n=1))
        units.append(hop)
        into = (hop.id, 0)
        name = f"{old.name}.in"
        channels.append(Channel(len(channels), name, old.src, into, places, old.payload))
        channels[old.id] = replace(old, src=into, depth=HOP_PLACES)
    return replace(graph, units=tuple(units), channels=tuple(channels))


def _too_deep(graph: UnitGraph, front: bool) -> Iterator[tuple[int, int]]:
    """Channels that need a buffer, and its places: where nets begin, or where they end."""
    for net in nets_of(graph):
        most = most_places(net.alone)
        deep = [
            leaf
            for leaf in net.leaves
            if leaf.places > most and graph.units[leaf.dst[0]].kind.name != BUFFER_KIND
        ]
        if not front:
            yield from ((leaf.channel, leaf.places) for leaf in deep)
        elif deep and net.inner and graph.channels[net.inner[0]].depth > HOP_PLACES:
            yield net.inner[0], graph.channels[net.inner[0]].depth
