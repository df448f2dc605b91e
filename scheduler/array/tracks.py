"""Placement from slots and trees: wires, hops and their tracks."""

from __future__ import annotations

import numpy as np

from ...machine.array.netlist import Net
from ...machine.array.network import SIDES, Network
from ...machine.array.placed import NO_SLOT, Hop, Route, pin_of
from ...machine.errors import LoweringError
from ...machine.unitgraph import UnitGraph
from .problem import Problem
from .route import Trees, Wish


def slots_by_unit(problem: Problem, slot_of: np.ndarray) -> tuple[int, ...]:
    """The slot of each unit of the graph."""
    slots = [NO_SLOT] * len(problem.graph.units)
    for cell, slot in zip(problem.cells, slot_of, strict=True):
        slots[cell] = int(slot)
    return tuple(slots)


class Layout:
    """Nets of a graph whose units have their slots: which take a wire, and what the others need."""

    def __init__(self, graph: UnitGraph, network: Network, nets: list[Net], slots: tuple[int, ...]):
        self.graph = graph
        self.network = network
        self.nets = nets
        self.slots = slots

    def source(self, net: Net) -> tuple[int, int]:
        """Slot and output pin of a net's source."""
        slot = self.slots[net.src[0]]
        return slot, pin_of(self.graph, self.network, slot, net.src, output=True)

    def ends(self, net: Net) -> list[tuple[int, int]]:
        """Slot and input pin of each end of a net."""
        found = []
        for leaf in net.leaves:
            slot = self.slots[leaf.dst[0]]
            found.append((slot, pin_of(self.graph, self.network, slot, leaf.dst, output=False)))
        return found

    def wires(self, most: int) -> dict[int, int]:
        """Nets on wires, and the wire of each; ``most``: places of a wire's FIFO."""
        found = {}
        for k, net in enumerate(self.nets):
            if net.alone and net.leaves[0].places <= most:
                wire = self.network.wires_between(self.source(net), self.ends(net)[0])
                if wire is not None:
                    found[k] = wire.id
        return found

    def wishes(self, wired: dict[int, int]) -> list[Wish]:
        """The other nets, as the router sees them."""
        cols = self.network.array.cols
        found = []
        for k, net in enumerate(self.nets):
            if k not in wired:
                pins = [self.source(net), *self.ends(net)]
                self._reached(net, pins)
                places = [self.network.slots[s] for s, _ in pins]
                root, *ends = (p.row * cols + p.col for p in places)
                found.append(Wish(k, net.plane, root, tuple(ends)))
        return found

    def _reached(self, net: Net, pins: list[tuple[int, int]]) -> None:
        lost = self.network.injection(*pins[0]) is None
        lost |= any(self.network.ejection(*p) is None for p in pins[1:])
        if lost:
            name = self.graph.channels[net.leaves[0].channel].name
            raise LoweringError(
                "finds no wire, and no switch reaches it",
                f"channel {name}",
                "a local port of a slot is reached by wires of its site only",
                "use an array with more sites that hold both its units",
            )

    def routes(self, wishes: list[Wish], trees: Trees) -> tuple[Route, ...]:
        """The hops of every tree, with tracks in the order of the nets."""
        taken: dict[tuple[str, int], int] = {}
        found = []
        for w in wishes:
            tracks = {}
            for link in np.flatnonzero(trees.links[w.net]):
                key = (w.plane, int(link))
                tracks[int(link)] = taken.get(key, 0)
                taken[key] = tracks[int(link)] + 1
            found.append(self._route(w, tracks))
        return tuple(found)

    def _route(self, wish: Wish, tracks: dict[int, int]) -> Route:
        net = self.nets[wish.net]
        cols = self.network.array.cols
        ends: dict[int, list[int]] = {}
        for slot, pin in self.ends(net):
            place = self.network.slots[slot]
            output = self.network.ejection(slot, pin)
            assert output is not None
            ends.setdefault(place.row * cols + place.col, []).append(output)
        first = self.network.injection(*self.source(net))
        assert first is not None
        hops = []
        todo = [(wish.root, first)]
        for node, into in todo:
            row, col = divmod(node, cols)
            outputs = []
            for side, name in enumerate(SIDES):
                link = 4 * node + side
                if link in tracks:
                    out = self.network.link(wish.plane, row, col, name, tracks[link])
                    outputs.append(out)
                    place = self.network.neighbour(row, col, name)
                    assert place is not None
                    todo.append((place[0] * cols + place[1], self.network.leads_to[out]))
            hops.append(Hop(into, (*outputs, *ends.get(node, ()))))
        return Route(net.src, tuple(hops))
