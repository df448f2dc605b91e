"""A program on an array: where its units lie, which way its channels take, and the unit graph of
that (docs/array.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..kinds import copies
from ..unitgraph import Channel, Unit, UnitGraph
from .description import HOP_PLACES
from .netlist import End, Net, nets_of
from .network import Network

NO_SLOT = -1
"""The slot of a unit that became a part of a route."""


@dataclass(frozen=True)
class Hop:
    """A switch input in use, by its id, and the outputs of that switch that it leads to."""

    input: int
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Route:
    """The tree of a net: its source's unit and port, and its hops, the injection's first."""

    src: End
    hops: tuple[Hop, ...]


@dataclass(frozen=True)
class Placement:
    """Units and channels of a graph (:func:`.netlist.with_buffers`), placed on an array."""

    array: str
    slots: tuple[int, ...]  # the slot's id by unit, ``NO_SLOT`` for absorbed broadcasts
    wires: Mapping[int, int]  # the wire's id by channel, of those that take one
    routes: tuple[Route, ...]  # of all other nets
    # places of the FIFO in front of a slot's input, by channel: those on wires, and the ends of
    # routes
    places: Mapping[int, int]

    def to_dict(self) -> dict[str, Any]:
        return {
            "array": self.array,
            "slots": list(self.slots),
            "wires": [list(x) for x in sorted(self.wires.items())],
            "routes": [
                {"src": list(r.src), "hops": [[h.input, list(h.outputs)] for h in r.hops]}
                for r in self.routes
            ],
            "places": [list(x) for x in sorted(self.places.items())],
        }

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Placement:
        routes = tuple(
            Route((r["src"][0], r["src"][1]), tuple(Hop(i, tuple(outs)) for i, outs in r["hops"]))
            for r in d["routes"]
        )
        wires = dict(d["wires"])
        places = dict(d["places"])
        return Placement(d["array"], tuple(d["slots"]), wires, routes, places)


def pin_of(graph: UnitGraph, network: Network, slot: int, end: End, output: bool) -> int:
    """The pin that a unit's port has in a slot."""
    unit = graph.units[end[0]]
    kind = unit.kind
    port = (kind.outputs() if output else kind.inputs())[end[1]]
    return network.slots[slot].slot.pins_of(kind.name, output)[port.member]


def placed_graph(graph: UnitGraph, network: Network, placement: Placement) -> UnitGraph:
    """The graph of a program on an array: its units, the hops of its routes, and the physical FIFOs
    as channels.

    Units keep their ids, and so do channels into slots. Hops and the FIFOs of switches take those
    of absorbed broadcasts and of channels into them, then new ones. ``meta["array"]`` says what is
    what: by unit ``["slot", id]`` or ``["switch", id of the input]``, by channel ``["slot", id,
    pin]`` or ``["switch", id of the input]``.

    Parameters
    ----------
    graph
        With buffers (:func:`.netlist.with_buffers`).
    network, placement
        The array, and where the graph lies on it; it has passed the check.
    """
    return _Placed(graph, network, placement).graph()


class _Placed:
    def __init__(self, graph: UnitGraph, network: Network, placement: Placement):
        self.program = graph
        self.network = network
        self.placement = placement
        self.nets = {n.src: n for n in nets_of(graph)}
        self.units: dict[int, Unit] = {}
        self.channels: dict[int, Channel] = {}
        self.unit_at: dict[int, list[Any]] = {}
        self.fifo_of: dict[int, list[Any]] = {}
        self.last_unit = len(graph.units)
        self.last_channel = len(graph.channels)
        self.free_units: list[int] = []
        self.free_channels: list[int] = []

    def graph(self) -> UnitGraph:
        for unit, slot in zip(self.program.units, self.placement.slots, strict=True):
            if slot != NO_SLOT:
                self.units[unit.id] = unit
                self.unit_at[unit.id] = ["slot", slot]
        sources = {leaf.channel: net.src for net in self.nets.values() for leaf in net.leaves}
        for channel in self.placement.wires:
            self._leaf(self.program.channels[channel], sources[channel])
        routed = [(r, self.nets[r.src]) for r in self.placement.routes]
        self.free_units = sorted(u for _, net in routed for u in net.absorbed)
        for route, net in routed:
            self.free_channels = list(net.inner)  # a FIFO of its own route takes each
            self._route(route, net)
        return self._numbered()

    def _leaf(self, channel: Channel, src: End) -> None:
        """The FIFO in front of a slot's input."""
        slot = self.placement.slots[channel.dst[0]]
        pin = pin_of(self.program, self.network, slot, channel.dst, output=False)
        places = self.placement.places[channel.id]
        self.channels[channel.id] = replace(channel, src=src, depth=places)
        self.fifo_of[channel.id] = ["slot", slot, pin]

    def _new_unit(self) -> int:
        if self.free_units:
            return self.free_units.pop(0)
        self.last_unit += 1
        return self.last_unit - 1

    def _new_channel(self) -> int:
        if self.free_channels:
            return self.free_channels.pop(0)
        self.last_channel += 1
        return self.last_channel - 1

    def _route(self, route: Route, net: Net) -> None:
        sources = {route.hops[0].input: net.src}
        leaf_of = {
            self._ejection(leaf.dst): self.program.channels[leaf.channel] for leaf in net.leaves
        }
        for hop in route.hops:
            into = self.network.inputs[hop.input]
            unit = self._new_unit()
            name = f"hop_{into.name}"
            self.units[unit] = Unit(unit, name, copies.Hop(n=len(hop.outputs)))
            self.unit_at[unit] = ["switch", hop.input]
            channel = self._new_channel()
            fifo = f"{self.program.units[net.src[0]].name}@{into.name}"
            self.channels[channel] = Channel(
                channel, fifo, sources[hop.input], (unit, 0), HOP_PLACES, net.payload
            )
            self.fifo_of[channel] = ["switch", hop.input]
            for k, output in enumerate(hop.outputs):
                ahead = self.network.leads_to[output]
                if ahead >= 0:
                    sources[ahead] = (unit, k)
                else:
                    self._leaf(leaf_of[output], (unit, k))

    def _ejection(self, dst: End) -> int | None:
        slot = self.placement.slots[dst[0]]
        pin = pin_of(self.program, self.network, slot, dst, output=False)
        return self.network.ejection(slot, pin)

    def _numbered(self) -> UnitGraph:
        """The graph with ids that count from 0; they move only where a net has fewer hops than it
        has absorbed broadcasts.
        """
        new_unit = {old: k for k, old in enumerate(sorted(self.units))}
        new_channel = {old: k for k, old in enumerate(sorted(self.channels))}
        units = tuple(self._unit(old, new_unit) for old in new_unit)
        channels = tuple(
            replace(
                self.channels[old],
                id=k,
                src=(new_unit[self.channels[old].src[0]], self.channels[old].src[1]),
                dst=(new_unit[self.channels[old].dst[0]], self.channels[old].dst[1]),
            )
            for old, k in new_channel.items()
        )
        meta = dict(self.program.meta)
        if "asserted" in meta:
            meta["asserted"] = [
                x | {"channel": new_channel[x["channel"]]} for x in meta["asserted"]
            ]
        if "buffers" in meta:
            meta["buffers"] = [x | {"unit": new_unit[x["unit"]]} for x in meta["buffers"]]
        meta["array"] = {
            "name": self.placement.array,
            "units": [self.unit_at[old] for old in new_unit],
            "channels": [self.fifo_of[old] for old in new_channel],
        }
        ports = tuple(new_unit[u] for u in self.program.ports)
        return replace(self.program, units=units, channels=channels, ports=ports, meta=meta)

    def _unit(self, old: int, new_unit: Mapping[int, int]) -> Unit:
        unit = self.units[old]
        kind = unit.kind
        if (memory := kind.posts_to()) is not None:
            kind = kind.but(**{kind.posts: new_unit[memory]})
        return replace(unit, id=new_unit[old], kind=kind)
