"""Certified lower bounds on the cycles of a run in the timing
`machine`, each with the constraint that makes it (docs/bounds.md has
the premises).

A bound uses the program's shapes, the lowered units and the contract of
docs/timing.md, nothing of the model. It is an expression over the sizes
that are known at run time only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx
import sympy

from ...machine.config import Config, Dram
from ...machine.kinds import kind_of
from ...machine.unitgraph import Unit, UnitGraph
from ..graph import Graph, Operator
from ..types import TileType
from .metrics import Analysis, Metric, metric

__all__ = ["Bound", "Bounds", "bounds"]

LINE_BYTES = 64
ENDS = 2
"""Cycles from the last delivery on: it is visible in the next, and `cycles` counts that one."""
REACH = 2
"""Cycles before the memory can begin with a line: it is granted, then it reaches the memory."""


@dataclass(frozen=True)
class Bound:
    """A lower bound on cycles.

    Attributes
    ----------
    constraint
        What makes it, in words.
    cycles
        The bound, over the sizes that are open.

    """

    constraint: str
    cycles: sympy.Expr

    @property
    def value(self) -> int | None:
        """The bound as a number; None while sizes are open."""
        return int(sympy.ceiling(self.cycles)) if self.cycles.is_number else None


@dataclass(frozen=True)
class Bounds:
    """All lower bounds of a program on a machine.

    Attributes
    ----------
    offchip, work, beats
        Bytes, FLOP, and beats of the longest stream, by operator.
    graph, config
        The units and the machine.

    """

    offchip: Metric
    work: Metric
    beats: Metric
    graph: UnitGraph
    config: Config

    def subs(self, values: Mapping, own: Mapping[str, Mapping] | None = None) -> Bounds:
        """With sizes by name; ``own``: by operator, as of :meth:`Metric.subs`."""
        return Bounds(
            self.offchip.subs(values, own),
            self.work.subs(values, own),
            self.beats.subs(values, own),
            self.graph,
            self.config,
        )

    def all(self) -> list[Bound]:
        """Every bound, that of the memory first."""
        return [*self._memory(), *self._work(), *self._streams(), *self._path()]

    def tightest(self) -> Bound:
        """The largest of those that are numbers; a run takes a cycle at least."""
        known = [b for b in self.all() if b.value is not None]
        first = Bound("a run takes a cycle", sympy.Integer(1))
        return max((first, *known), key=lambda b: b.value or 0)

    def _memory(self) -> Iterable[Bound]:
        """Lines over what the memory serves, and over what the interconnect grants."""
        machine = self.config.machine
        lines = sympy.ceiling(self.offchip.total / LINE_BYTES)
        if lines == 0:
            return
        most, interval, latency = _service(machine.dram)
        last = REACH + latency + ENDS
        served = (sympy.ceiling(lines / most) - 1) * interval
        yield Bound("lines over the memory's bandwidth", served + last)
        granted = sympy.ceiling(lines / machine.port_lanes) - 1
        yield Bound("lines over the grants of the interconnect", granted + last)

    def _work(self) -> Iterable[Bound]:
        """The FLOP of each operator over what its units do in a cycle."""
        t = self.config.machine.t
        units: dict[str, list[Unit]] = {}
        for unit in self.graph.units:
            units.setdefault(unit.node, []).append(unit)
        for name, flops in self.work.per_node.items():
            kinds = [kind_of(u.kind).of(u.params) for u in units.get(name, ())]
            rate = sum(k.flops_per_cycle(t) for k in kinds)
            if rate and not any(k.name in UNCOUNTED for k in kinds):
                yield Bound(f"work of {name}", flops / rate)

    def _streams(self) -> Iterable[Bound]:
        """A channel carries one beat a cycle."""
        for name, beats in self.beats.per_node.items():
            yield Bound(f"beats of {name}", beats)

    def _path(self) -> Iterable[Bound]:
        """The longest chain of latencies from a load's first line to the end."""
        if (cycles := _longest(self.graph, self.config, self._loaded())) is not None:
            yield Bound("the longest path of latencies", sympy.Integer(cycles))

    def _loaded(self) -> set[str]:
        """Operators that move a line at least."""
        return {name for name, b in self.offchip.per_node.items() if b.is_number and b > 0}


UNCOUNTED = ("row_reduce",)
"""Kinds that do FLOP of their operator and state no rate."""


SOONER = ("accum",)
"""Kinds whose Done, and what they give of an empty group, may leave before their latency."""


def bounds(graph: Graph, analysis: Analysis, units: UnitGraph, config: Config) -> Bounds:
    """The lower bounds of a program that was lowered for the timing `machine`."""
    t = config.machine.t
    beats = metric(graph, "beats", lambda node: _beats(node, t))
    return Bounds(analysis.offchip, analysis.flops_metric, beats, units, config)


def _beats(node: Operator, t: int) -> sympy.Expr:
    """Beats of an operator's output that has most, tiles of known sizes by their physical ones."""
    found = [sympy.Integer(0)]
    for stream in node:
        each = 1
        if isinstance(stream.element, TileType) and stream.element.static:
            rows, cols = stream.element.static_shape
            each = max(1, -(-rows // t) * -(-cols // t))
        found.append(stream.type.count * each)
    return sympy.Max(*found) if all(f.is_number for f in found) else found[-1]


def _service(dram: Dram) -> tuple[int, sympy.Rational, int]:
    """Lines that the memory serves together at most, the cycles from
    these to the next, and the cycles that a line takes.
    """
    if dram.kind == "pipe":
        return dram.channels, sympy.Integer(dram.interval), dram.start_up + dram.latency
    if dram.kind == "hbm2":
        per_tick = sympy.Rational(dram.hbm2.bytes_per_tick).limit_denominator(1 << 20)
        return 1, LINE_BYTES / (per_tick * sympy.Rational(dram.ratio)), 0
    return 1, sympy.Integer(0), dram.latency - 1


def _longest(graph: UnitGraph, config: Config, loaded: set[str]) -> int | None:
    """Cycle in which a run ends at the earliest, plus one; None where units form a loop.

    A unit waits for all its inputs where it combines them, else for the earliest.
    """
    after = nx.DiGraph()
    after.add_nodes_from(u.id for u in graph.units)
    after.add_edges_from((c.src[0], c.dst[0]) for c in graph.channels)
    if not nx.is_directed_acyclic_graph(after):
        return None
    line = REACH + _service(config.machine.dram)[2] + 1
    seen: dict[int, int] = {}
    end = 0
    for unit in map(graph.units.__getitem__, nx.topological_sort(after)):
        kind = kind_of(unit.kind).of(unit.params)
        inputs = [seen[u] for u in after.predecessors(unit.id)]
        wait = (max if kind.computes else min)(inputs, default=0)
        if kind.offchip and unit.node in loaded:
            wait += line
        latency = 0 if kind.name in SOONER else kind.latency(config.machine.t) or 0
        seen[unit.id] = wait + latency + 1
        if kind.ends_run:
            end = max(end, wait + 1)
    return end
