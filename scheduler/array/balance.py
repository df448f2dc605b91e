"""Places of the FIFOs in front of slots, so that paths that part and join
again hold as much.

A route of h hops adds h cycles. Where two paths from one unit meet in
another, the one with fewer hops has to hold the beats of the
difference, or the join stalls.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from ...machine.array.description import BUFFER_KIND, INPUT_PLACES
from ...machine.array.netlist import Net
from ...machine.unitgraph import UnitGraph


@dataclass(frozen=True)
class Balance:
    """Places by channel, and what of the difference a channel cannot hold,
    where there is such.
    """

    places: dict[int, int]
    short: dict[int, int]


def balance(graph: UnitGraph, nets: list[Net], hops: dict[int, int]) -> Balance:
    """Places for every end of every net.

    Parameters
    ----------
    graph, nets
        With buffers; its nets.
    hops
        By channel into a slot: hops on its way, 0 for a wire.

    """
    flow = nx.DiGraph()
    flow.add_nodes_from(u.id for u in graph.units)
    ends = [(net, leaf) for net in nets for leaf in net.leaves]
    for net, leaf in ends:
        late = max(hops[leaf.channel], flow.get_edge_data(net.src[0], leaf.dst[0], {"w": 0})["w"])
        flow.add_edge(net.src[0], leaf.dst[0], w=late)
    whole = nx.condensation(flow)
    of = whole.graph["mapping"]
    late = dict.fromkeys(whole, 0)
    for part in nx.topological_sort(whole):
        for before in whole.predecessors(part):
            steps = [
                flow[u][v]["w"]
                for u in whole.nodes[before]["members"]
                for v in flow.successors(u)
                if of[v] == part
            ]
            late[part] = max(late[part], late[before] + max(steps))
    places = {}
    short = {}
    for net, leaf in ends:
        source = of[net.src[0]]
        end = of[leaf.dst[0]]
        slack = 0 if source == end else late[end] - late[source] - hops[leaf.channel]
        wanted = leaf.places + slack
        unit = graph.units[leaf.dst[0]]
        most = wanted if unit.kind == BUFFER_KIND else INPUT_PLACES
        places[leaf.channel] = min(wanted, most)
        if wanted > most:
            short[leaf.channel] = wanted - most
    return Balance(places, short)
