"""Many units in one fabric, each between sources and sinks, with the streams that it is fed.

One build serves many cases: streams, stall patterns and run-time parameters differ from point to
point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..machine.beat import Payload
from ..machine.builder import Builder, End
from ..machine.config import Machine
from ..machine.kinds import Kind
from ..machine.spilling import spilling
from ..machine.stimulus import Point
from ..machine.unitgraph import UnitGraph
from .beats import beats
from .patterns import PATTERNS, SINK_PATTERNS, releases
from .stimulus import Draw, Items


class Zoo(Builder):
    """A unit graph in the making, with the streams of its sources.

    ``add`` puts a unit between new sources and sinks; what cannot be a chain is joined with
    ``unit`` and ``join``. ``runtime`` has, by unit, what draws its run-time parameters;
    ``machine``, where its scratchpads spill, how far.
    """

    machine = Machine()

    def __init__(self, name: str, t: int, depth: int = 2):
        super().__init__(name, t, depth)
        self.streams: dict[int, Callable[[Draw], Items]] = {}
        self.runtime: dict[int, Callable[[np.random.Generator], dict]] = {}

    def source(self, dst: End, payload: Payload, items: Callable[[Draw], Items]) -> int:
        """A source whose beats ``items`` draws."""
        u = super().source(dst, payload)
        self.streams[u] = items
        return u

    def add(
        self,
        kind: Kind,
        ins: Sequence[tuple[Payload, Callable]],
        outs: Sequence[Payload],
        runtime: Callable[[np.random.Generator], dict] | None = None,
    ) -> int:
        """A unit with a source before every input and a sink behind every output."""
        u = self.unit(kind)
        if runtime:
            self.runtime[u] = runtime
        for i, (payload, items) in enumerate(ins):
            self.source((u, i), payload, items)
        for o, payload in enumerate(outs):
            self.sink((u, o), payload)
        return u

    def graph(self, seed: int = 0) -> UnitGraph:
        """The graph, with the run-time parameters of ``seed``."""
        graph = spilling(super().graph(), self.machine)
        drawn = {u: f(np.random.default_rng([seed, u])) for u, f in self.runtime.items()}
        return replace(
            graph,
            units=tuple(
                replace(u, kind=u.kind.but(**drawn[u.id])) if u.id in drawn else u
                for u in graph.units
            ),
        )

    def point(self, seed: int, source: str = "always", sink: str = "always") -> Point:
        """One case: streams, run-time parameters and stall patterns from a seed."""
        graph = self.graph(seed)
        sources = {}
        sinks = {}
        for u in graph.units:
            if u.kind.name == "source":
                payload = graph.outputs(u.id)[0].payload
                items = self.streams[u.id](
                    Draw([seed, *self.seed_of(u.id)], graph.outputs(u.id)[0].dst[1])
                )
                sources[u.id] = beats(
                    payload, items, releases(len(items) + 1, source, seed * 100 + u.id)
                )
            if u.kind.name == "sink":
                sinks[u.id] = releases(200, sink, seed * 100 + u.id)
        rng = np.random.default_rng([seed, 7])
        tensors = {
            x.name: rng.standard_normal((x.rows, x.cols)).astype(np.float32)
            for x in graph.tensors
            if x.role in ("input", "inout")
        }
        return Point(graph, tensors, sources, sinks)

    def seed_of(self, unit: int) -> tuple[int, ...]:
        """Streams that must agree (the inputs of one unit) share the seed of that unit."""
        return (next(c.dst[0] for c in self.channels if c.src[0] == unit),)

    def points(self, seed: int = 0) -> list[Point]:
        """Every source pattern with {always, random, late} sinks."""
        return [
            self.point(seed + i * 3 + j, source, sink)
            for i, source in enumerate(PATTERNS)
            for j, sink in enumerate(SINK_PATTERNS)
        ]


def unit(kind: Kind, ins: Sequence[Payload], outs: Sequence[Payload], t: int = 2) -> UnitGraph:
    """Unit 0 of ``kind``; units 1, 2, .. are the sources of its inputs, then come its sinks."""
    z = Zoo("unit", t)
    z.add(kind, [(payload, lambda _: ()) for payload in ins], outs)
    return z.graph()
