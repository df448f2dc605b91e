"""A program on an array, from its unit graph to the placed graph, with a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import networkx as nx

from ...machine.array.description import INPUT_PLACES, Array
from ...machine.array.netlist import Net, nets_of, with_buffers
from ...machine.array.network import Network
from ...machine.array.placed import NO_SLOT, Placement, placed_graph
from ...machine.errors import LoweringError
from ...machine.unitgraph import UnitGraph
from .anneal import anneal, cost_of
from .balance import balance
from .check import check_placement
from .problem import Problem, problem
from .route import Trees, Wish, detours, route
from .tracks import Layout, slots_by_unit

MOST_DETOUR = 1.1
"""Links of a route over those of its least tree, above which another placement is tried."""


@dataclass(frozen=True)
class Loop:
    """A feedback loop: the names of its units, and the hops around it."""

    units: tuple[str, ...]
    hops: int


@dataclass(frozen=True)
class Mapping:
    """A program on an array."""

    program: UnitGraph  # its unit graph with buffers: what the placement is of
    # network, placement: the array, and what lies where
    network: Network
    placement: Placement
    # places that a channel would need to hold the difference of joining paths, and lacks
    short: dict[int, int]
    rounds: int  # of the router
    cost: float  # of the placement, as the annealing sees it
    detour: float  # the most links of a route, as a share of those of its least tree

    @cached_property
    def graph(self) -> UnitGraph:
        """The placed graph."""
        return placed_graph(self.program, self.network, self.placement)

    @cached_property
    def nets(self) -> list[Net]:
        return nets_of(self.program)

    @property
    def slots_by_name(self) -> dict[str, int]:
        """The slot of each unit that has one, by the unit's name."""
        pairs = zip(self.program.units, self.placement.slots, strict=True)
        return {u.name: s for u, s in pairs if s != NO_SLOT}

    @property
    def by_arrival(self) -> list[str]:
        """Units whose order of beats follows that of the arrivals."""
        return [u.name for u in self.program.units if u.kind.by_arrival]

    @property
    def hops(self) -> int:
        """Hops of all routes."""
        return sum(len(r.hops) for r in self.placement.routes)

    def ways(self) -> dict[int, int]:
        """Hops on the way to each slot's input, by channel; 0 on a wire."""
        return ways(self.network, self.nets, self.placement)

    def tracks_used(self) -> Counter[tuple[str, int, int, str]]:
        """Tracks in use of each link, by plane, row, column and side."""
        used: Counter[tuple[str, int, int, str]] = Counter()
        for r in self.placement.routes:
            for hop in r.hops:
                for o in hop.outputs:
                    out = self.network.outputs[o]
                    if out.side:
                        used[out.plane, out.row, out.col, out.side] += 1
        return used

    def loops(self) -> list[Loop]:
        """The shortest feedback loop through each channel that is in one, each loop once."""
        hops = self.ways()
        flow = nx.DiGraph()
        for net in self.nets:
            for leaf in net.leaves:
                way = hops[leaf.channel]
                edge = flow.get_edge_data(net.src[0], leaf.dst[0], {"hops": way})
                least = min(way, edge["hops"])
                flow.add_edge(net.src[0], leaf.dst[0], hops=least)
        found: dict[frozenset[int], Loop] = {}
        for part in nx.strongly_connected_components(flow):
            inside = flow.subgraph(part)
            for u, v in inside.edges:
                around = nx.shortest_path(inside, v, u)
                steps = zip(around, [*around[1:], v], strict=True)
                names = tuple(self.program.units[x].name for x in around)
                total = sum(inside[a][b]["hops"] for a, b in steps)
                found.setdefault(frozenset(around), Loop(names, total))
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        slots = self.network.slots
        return {
            "program": self.program.to_dict(),
            "placement": self.placement.to_dict(),
            "slots": {unit: slots[s].name for unit, s in self.slots_by_name.items()},
        }


def ways(network: Network, nets: list[Net], placement: Placement) -> dict[int, int]:
    """Hops on the way to each slot's input, by channel; 0 on a wire."""
    found = dict.fromkeys(placement.wires, 0)
    of = {r.src: r for r in placement.routes}
    for net in nets:
        route = of.get(net.src)
        if route is None:
            continue
        depth = {route.hops[0].input: 1}
        at_end = {}
        for hop in route.hops:
            for o in hop.outputs:
                ahead = network.leads_to[o]
                if ahead >= 0:
                    depth[ahead] = depth[hop.input] + 1
                else:
                    out = network.outputs[o]
                    at_end[out.slot, out.pin] = depth[hop.input]
        for leaf in net.leaves:
            slot = placement.slots[leaf.dst[0]]
            pins = [at for (s, _), at in at_end.items() if s == slot]
            found[leaf.channel] = max(pins)
    return found


def map_program(
    graph: UnitGraph,
    array: Array,
    *,
    seed: int = 0,
    effort: float = 1.0,
    keep: dict[str, int] | None = None,
    network: Network | None = None,
    progress: Callable[[str], None] | None = None,
) -> Mapping:
    """Place and route a lowered program on an array.

    Parameters
    ----------
    graph
        Of the machine that the array's configuration describes.
    array
        Of the same configuration.
    seed, effort
        Of the annealing.
    keep
        An older placement, as :attr:`Mapping.slots_by_name` has it: units that it names stay where
        they were, as far as that is good.
    network
        Of the array, where it is at hand: it takes a tenth of a second.
    progress
        Called with a line about each stage.

    Raises
    ------
    LoweringError
        What does not fit, with what is missing.
    """
    say = progress or (lambda text: None)
    program = with_buffers(graph)
    network = network or Network(array)
    say("pack units into sites")
    task = problem(program, network, keep)
    say(f"place {len(task.cells)} units")
    found = anneal(task, seed, effort)
    say(f"route {len(task.nets)} nets")
    best = _routed(task, found)
    wires = {task.nets[k].leaves[0].channel: w for k, w in best.wired.items()}
    routes = best.layout.routes(best.wishes, best.trees)
    draft = Placement(array.name, best.layout.slots, wires, routes, {})
    say("balance and check")
    even = balance(program, task.nets, ways(network, task.nets, draft))
    placement = replace(draft, places=even.places)
    check_placement(program, network, placement)
    return Mapping(
        program, network, placement, even.short, best.trees.rounds, best.cost, best.detour
    )


@dataclass(frozen=True)
class _Routed:
    """A placement with its routes."""

    cost: float
    layout: Layout
    wired: dict[int, int]
    wishes: list[Wish]
    trees: Trees
    detour: float


def _routed(task: Problem, placements: list[np.ndarray]) -> _Routed:
    """The first of some placements whose routes are hardly longer than their least trees; else the
    one that comes nearest to that.

    Raises
    ------
    LoweringError
        What the first one lacks, where none has routes.
    """
    best: _Routed | None = None
    lack: LoweringError | None = None
    for slot_of in placements:
        slots = slots_by_unit(task, slot_of)
        layout = Layout(task.graph, task.network, task.nets, slots)
        wired = layout.wires(INPUT_PLACES)
        wishes = layout.wishes(wired)
        try:
            trees = route(task.network.array, wishes)
        except LoweringError as e:
            lack = lack or e
            continue
        detour = max(detours(task.network.array, wishes, trees).values(), default=1.0)
        if best is None or detour < best.detour:
            best = _Routed(cost_of(task, slot_of), layout, wired, wishes, trees, detour)
        if detour <= MOST_DETOUR:
            return best
    if best is None:
        assert lack is not None
        raise lack
    return best
