"""A check of a placement that shares nothing with the compiler but the description of the array."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.array.description import HOP_PLACES
from ...machine.array.netlist import End, Net, absorbs, nets_of, posts_of
from ...machine.array.network import Network
from ...machine.array.placed import NO_SLOT, Placement, Route, pin_of
from ...machine.errors import LoweringError
from ...machine.unitgraph import UnitGraph
from .fit import lacks, payloads_of


def check_placement(graph: UnitGraph, network: Network, placement: Placement) -> None:
    """Check that a placement is one of a graph with buffers on an array.

    Raises
    ------
    LoweringError
        The first rule that is broken.
    """
    for what, where in _Check(graph, network, placement).faults():
        raise LoweringError(what, where, "a placement follows the rules of docs/array.md")


class _Check:
    def __init__(self, graph: UnitGraph, network: Network, placement: Placement):
        self.graph = graph
        self.network = network
        self.placement = placement
        self.outputs: set[int] = set()
        self.inputs: set[int] = set()

    def faults(self) -> Iterator[tuple[str, str]]:
        yield from self.slots()
        routes: dict[End, Route] = {}
        for route in self.placement.routes:
            if route.src in routes:
                yield "has two routes", self.unit(route.src)
            routes[route.src] = route
        wires = dict(self.placement.wires)
        for net in nets_of(self.graph):
            wire = wires.pop(net.leaves[0].channel, None)
            route = routes.pop(net.src, None)
            if (wire is None) == (route is None):
                yield "takes neither a wire nor a route, or both", self.unit(net.src)
            elif wire is not None:
                yield from self.wire(net, wire)
            elif route is not None:
                yield from self.route(net, route)
            yield from self.places(net, 0 if route is None else len(route.hops))
        for channel in wires:
            yield "takes a wire, but is no net of its own", f"channel {channel}"
        for src in routes:
            yield "has a route, but no net", self.unit(src)

    def unit(self, end: End) -> str:
        return f"unit {self.graph.units[end[0]].name}"

    def slots(self) -> Iterator[tuple[str, str]]:
        taken: dict[int, str] = {}
        given = payloads_of(self.graph)
        for unit, slot in zip(self.graph.units, self.placement.slots, strict=True):
            where = f"unit {unit.name}"
            if absorbs(unit):
                if slot != NO_SLOT:
                    yield f"is part of a route, but has slot {slot}", where
                continue
            if not 0 <= slot < len(self.network.slots):
                yield f"has the slot {slot}, which is not there", where
                continue
            name = self.network.slots[slot].name
            if slot in taken:
                yield f"has the slot {name} of {taken[slot]}", where
            taken[slot] = unit.name
            built = self.network.variants(self.network.slots[slot].slot)
            for lack in lacks(built, unit, given[unit.id]):
                yield f"does not fit slot {name}: {lack}", where
        for unit, memory in posts_of(self.graph):
            pair = (self.placement.slots[unit], self.placement.slots[memory])
            if pair not in self.network.posts:
                name = self.graph.units[memory].name
                yield f"changes counts of {name}, to which its slot does not post", f"unit {unit}"

    def pin(self, end: End, output: bool) -> tuple[int, int]:
        slot = self.placement.slots[end[0]]
        return slot, pin_of(self.graph, self.network, slot, end, output)

    def wire(self, net: Net, number: int) -> Iterator[tuple[str, str]]:
        where = self.unit(net.src)
        if not net.alone:
            yield "takes a wire, but has several ends", where
        if not 0 <= number < len(self.network.wires):
            yield f"takes the wire {number}, which is not there", where
            return
        wire = self.network.wires[number]
        if wire.src != self.pin(net.src, True) or wire.dst != self.pin(net.leaves[0].dst, False):
            yield f"takes wire {number}, which joins other slots", where

    def route(self, net: Net, route: Route) -> Iterator[tuple[str, str]]:
        where = self.unit(net.src)
        expected = self.network.injection(*self.pin(net.src, True))
        reached: list[int] = []
        ahead = {expected}
        for hop in route.hops:
            if hop.input not in ahead:
                yield f"has a hop at switch input {hop.input}, to which it does not lead", where
                return
            ahead.remove(hop.input)
            if hop.input in self.inputs:
                yield f"has a hop at switch input {hop.input} of another route", where
            self.inputs.add(hop.input)
            into = self.network.inputs[hop.input]
            if not hop.outputs:
                yield f"ends in the switch, at {into.name}", where
            for number in hop.outputs:
                out = self.network.outputs[number]
                if out.plane != net.plane or not self.network.may_turn(into, out):
                    yield f"turns from {into.name} to {out.name}", where
                if number in self.outputs:
                    yield f"shares the track or pin {out.name}", where
                self.outputs.add(number)
                if out.side:
                    ahead.add(self.network.leads_to[number])
                else:
                    reached.append(number)
        if ahead:
            yield "leads to a switch where it has no hop", where
        ends = [self.network.ejection(*self.pin(leaf.dst, False)) for leaf in net.leaves]
        if sorted(reached) != sorted(-1 if e is None else e for e in ends):
            yield "does not lead to each of its ends once", where

    def places(self, net: Net, hops: int) -> Iterator[tuple[str, str]]:
        for leaf in net.leaves:
            where = f"channel {self.graph.channels[leaf.channel].name}"
            held = self.placement.places.get(leaf.channel, 0)
            slot = self.network.slots[self.placement.slots[leaf.dst[0]]]
            if not 1 <= held <= slot.slot.places:
                yield f"has {held} places at slot {slot.name}", where
            way = HOP_PLACES * hops if net.alone else 0
            if held + way < leaf.places:
                yield f"holds {held + way} beats, {leaf.places} in the program", where
