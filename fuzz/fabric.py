"""Many unit graphs side by side in one fabric: one simulator build, one run, and the view of each
one's part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph


@dataclass(frozen=True)
class Part:
    """Part of the whole that is one graph's."""

    graph: UnitGraph  # the graph by itself
    # unit, channel, port: its first unit, channel and off-chip port there. Its tensors have its
    # ``prefix``.
    unit: int
    channel: int
    port: int
    prefix: str


def side_by_side(graphs: Sequence[UnitGraph], name: str) -> tuple[UnitGraph, list[Part]]:
    """One graph of disjoint parts, its off-chip ports in the order of the parts."""
    units = []
    channels = []
    tensors = []
    ports = []
    parts = []
    used = 0
    for k, g in enumerate(graphs):
        part = Part(g, len(units), len(channels), len(ports), f"p{k}_")
        parts.append(part)
        for u in g.units:
            kind = u.kind
            if (memory := kind.posts_to()) is not None:
                kind = kind.but(**{kind.posts: memory + part.unit})
            if kind.offchip:
                kind = kind.but(tensor=part.prefix + kind.tensor, base=kind.base + used)
            units.append(replace(u, id=u.id + part.unit, name=f"p{k}_{u.name}", kind=kind, node=""))
        channels += [
            replace(
                c,
                id=c.id + part.channel,
                name=f"p{k}_{c.name}",
                src=(c.src[0] + part.unit, c.src[1]),
                dst=(c.dst[0] + part.unit, c.dst[1]),
            )
            for c in g.channels
        ]
        tensors += [replace(x, name=part.prefix + x.name, base=x.base + used) for x in g.tensors]
        ports += [u + part.unit for u in g.ports]
        used += g.memory_bytes
    return UnitGraph(
        name, graphs[0].t, tuple(units), tuple(channels), tuple(tensors), tuple(ports), used
    ), parts


def view(part: Part, run: Run) -> Run:
    """One part's share of a run of the whole: its channels, ports, outputs and counters."""
    g = part.graph
    units = slice(part.unit, part.unit + len(g.units))
    channels = slice(part.channel, part.channel + len(g.channels))
    out = Run(run.backend, run.cycles, run.first_request)
    out.channels = run.channels[channels]
    out.ports = run.ports[part.port : part.port + len(g.ports)]
    out.outputs = {
        n.removeprefix(part.prefix): a
        for n, a in (run.outputs or {}).items()
        if n.startswith(part.prefix)
    }
    out.busy = run.busy[units]
    out.blocked = run.blocked[units]
    out.starved = run.starved[units]
    out.peak_pages = {u: run.peak_pages[u + part.unit] for u in g.memories()}
    return out


def simulate(points: list, config, stage=None) -> list:
    """Run points of one structure on the RTL; of each its run or its error."""
    from ..tb import api

    return api.run_many(points, config, keep_going=True, stage=stage)
