"""Certified lower bounds on the cycles of a run in the timing `machine`, each with the constraint
that makes it (docs/bounds.md has the premises).

A bound uses the program's shapes, the lowered units and the contract of docs/timing.md, nothing of
the model. It is an expression over the sizes that are known at run time only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import sympy

from ...machine.config import Config, Dram
from ...machine.spilling import without
from ...machine.unitgraph import Unit, UnitGraph
from ..graph import Graph, Operator
from ..types import TileType
from .events import Edge, Events, Machine, Port
from .flows import Flow
from .metrics import Analysis, Metric, lines
from .precedence import events

ENDS = 2
"""Cycles from the last delivery on: it is visible in the next, and `cycles` counts that one."""
REACH = 2
"""Cycles before the memory can begin with a line: it is granted, then it reaches the memory."""


@dataclass(frozen=True)
class Bound:
    """A lower bound on cycles."""

    constraint: str  # what makes it, in words
    cycles: sympy.Expr  # the bound, over the sizes that are open

    @property
    def value(self) -> int | None:
        """The bound as a number; None while sizes are open."""
        return int(sympy.ceiling(self.cycles)) if self.cycles.is_number else None


@dataclass(frozen=True)
class Known:
    """Facts about a run's beats beyond those of its program."""

    flows: Mapping[int, Flow] = field(default_factory=dict)  # beats of channels, by id
    # release cycles of sources and sinks, by unit
    releases: Mapping[int, Any] = field(default_factory=dict)
    lines: int | None = None  # how many all ports moved; None where that is not known


class _Client(NamedTuple):
    """Client of a server: the cycle before which it does not begin, its demand, and the cycles from
    its last turn to the run's end.
    """

    head: float
    wants: int
    tail: float


@dataclass(frozen=True)
class Bounds:
    """All lower bounds of a program on a machine."""

    program: Graph  # its operators and streams
    # offchip, work: lines and FLOP by operator
    offchip: Metric
    work: Metric
    # graph, config, known: the units, the machine, and what is known of beats
    graph: UnitGraph
    config: Config
    known: Known = Known()
    # what :meth:`subs` has been given, in turn
    sizes: tuple[tuple[Mapping, Mapping | None], ...] = ()

    def subs(self, values: Mapping, own: Mapping[str, Mapping] | None = None) -> Bounds:
        """Bounds with sizes substituted by name; ``own``: by operator, as of
        :meth:`Metric.subs`.
        """
        return replace(
            self,
            offchip=self.offchip.subs(values, own),
            work=self.work.subs(values, own),
            sizes=(*self.sizes, (values, own)),
        )

    def all(self) -> list[Bound]:
        """Every bound, that of the memory first."""
        # The events know the beats of a stream that is given.
        given = len(self.known.flows) == len(self.graph.channels)
        streams = () if given else self._streams()
        return [*self._memory(), *self._work(), *streams, *self._paths()]

    def tightest(self) -> Bound:
        """The largest of those that are numbers; a run takes a cycle at least."""
        known = [b for b in self.all() if b.value is not None]
        first = Bound("a run takes a cycle", sympy.Integer(1))
        return max((first, *known), key=lambda b: b.value or 0)

    def least_pages(self) -> dict[int, int]:
        """Pages that each scratchpad has in use at once at least, by unit.

        A buffer has all of its own when its last tile is written, and some buffer has as many tiles
        as the mean of its writer's.
        """
        found = {}
        for unit in self.graph.memories():
            one = self.graph.units[unit]
            kind: Any = one.kind
            ins = self.graph.inputs(unit)
            outs = self.graph.outputs(unit)
            found[unit] = 0
            for w in range(len(kind.writers)):
                tiles = self.events.flows[ins[w].id]
                buffers = self.events.flows[outs[w].id].count
                if tiles.some and buffers:
                    most = -(-(tiles.count or 0) // buffers)
                    found[unit] = max(found[unit], min(kind.pages, -(-most // kind.frames)))
        return found

    def _memory(self) -> Iterable[Bound]:
        """Lines over what the memory serves, and over what the interconnect grants."""
        machine = self.config.machine
        if self.known.lines is None:
            lines = self.offchip.of(self._whole).total
        else:
            lines = sympy.Integer(self.known.lines)
        if lines == 0:
            return
        most, interval, latency = _service(machine.dram)
        last = _queued(self.config) + REACH + latency + ENDS
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
            kinds = [u.kind for u in units.get(name, ())]
            rate = sum(k.flops_per_cycle(t) for k in kinds)
            if rate and not any(k.name in UNCOUNTED for k in kinds):
                yield Bound(f"work of {name}", flops / rate)

    def _streams(self) -> Iterable[Bound]:
        """A channel carries one beat a cycle.

        Of streams whose sizes the run decides: the events know the others.
        """
        t = self.config.machine.t
        open_nodes = [n for n in self.program.nodes if any(s.type.count.free_symbols for s in n)]
        beats = Metric("beats", {n.name: _beats(n, t) for n in open_nodes})
        for values, own in self.sizes:
            beats = beats.subs(values, own)
        for name, count in beats.per_node.items():
            yield Bound(f"beats of {name}", count)

    @cached_property
    def events(self) -> Events:
        """Events of the beats, and their waits for each other."""
        m = self.config.machine
        line = REACH + _service(m.dram)[2] + 1
        groups = m.load_lines // m.port_lanes
        machine = Machine(
            line, line + _queued(self.config), m.port_lanes, groups, m.dram.line_bytes
        )
        return events(self.graph, machine, self.known.flows, self.known.releases)

    def _paths(self) -> Iterable[Bound]:
        """The longest chain of beats that wait for each other, and what is shared on its way."""
        found = self.events
        at, by = found.longest()
        to = found.tails()
        yield Bound(f"path: {_most(found, by)}", sympy.Integer(int(at[found.end]) + 1))
        yield from self._lines(at, to)
        servers = sorted({s.server for s in found.served})
        for unit, what in servers:
            several = [s for s in found.served if s.server == (unit, what)]
            clients = [
                _Client(at[s.before], s.beats, s.cycles + to[s.after])
                for s in several
                if to[s.after] >= 0
            ]
            if len(clients) > 1:
                cycles = int(max(h + n - 1 + t for h, n, t in _sets(clients))) + 1
                name = self.graph.units[unit].name
                yield Bound(f"turns at the {what} port of {name}", sympy.Integer(cycles))

    @cached_property
    def _whole(self) -> set[str]:
        """Operators that move every line of the tiles that the program states: one that is at the
        edge of its tensor, or stored with fewer valid rows, takes fewer lines.
        """
        some = set[str]()
        for port in self.events.ports:
            unit = self.graph.units[port.unit]
            p = unit.kind
            if unit.kind.offchip == "write":
                whole = self.graph.inputs(unit.id)[-1].id in self.events.whole
            else:
                edge = p.tensor_rows % p.rows or p.tensor_cols % p.cols
                whole = not edge or p.trigger != "address"
            if not whole:
                some.add(unit.node)
        return set(self.offchip.per_node) - some

    def claimed(self) -> dict[str, int]:
        """Lines that each operator moves at least."""
        found = {}
        for name, ports in self._ports().items():
            moved = sum(p.moved.lines for p in ports if not p.part)
            share = self.offchip.per_node.get(name, sympy.Integer(0))
            if name in self._whole and share.is_number:
                moved = max(moved, int(share))
            found[name] = moved
        return found

    def _ports(self) -> dict[str, list[Port]]:
        """Ports by operator."""
        nodes: dict[str, list[Port]] = {}
        for port in self.events.ports:
            nodes.setdefault(self.graph.units[port.unit].node, []).append(port)
        return nodes

    def _clients(
        self, at: Sequence[float], to: Sequence[float]
    ) -> tuple[list[_Client], list[_Client]]:
        """Each operator's lines, and its chunks; those of all but the last tile apart from those of
        the last, where these differ.
        """
        lanes = self.config.machine.port_lanes
        lines = []
        chunks = []
        claimed = self.claimed()
        for name, ports in self._ports().items():
            whole = [p for p in ports if not p.part]
            parts = [p for p in ports if p.part]
            moved = claimed[name]
            granted = max(sum(p.moved.chunks for p in whole), -(-moved // lanes))
            early = sum(p.moved.lines for p in parts)
            asked = sum(p.moved.chunks for p in parts)
            for several, n, m in ((parts, early, asked), (whole, moved - early, granted - asked)):
                tail = min((to[p.after] + p.cycles for p in several), default=-inf)
                if n > 0 and tail >= 0:  # else nobody waits for them
                    head = min(at[p.before] for p in several)
                    lines.append(_Client(head, n, tail))
                    chunks.append(_Client(head, m, tail))
        return lines, chunks

    def _lines(self, at: Sequence[float], to: Sequence[float]) -> Iterable[Bound]:
        """Some operators' lines one after the other, between what comes before the first of them
        and after the last.
        """
        machine = self.config.machine
        most, interval, latency = _service(machine.dram)
        lines, chunks = self._clients(at, to)
        last = _queued(self.config) + REACH + latency + 1
        for name, clients, several, each in (
            ("memory, then a path", lines, most, interval),
            ("grants, then a path", chunks, 1, 1),
        ):
            if clients:
                cycles = max(
                    h + int((n - 1) // several * each) + last + t for h, n, t in _sets(clients)
                )
                yield Bound(name, sympy.Integer(int(cycles) + 1))


def _sets(clients: Sequence[_Client]) -> Iterable[_Client]:
    """Sets of clients as one: those of the longest tails, and those of the latest heads."""
    for place in (2, 0):
        head = inf
        wants = 0
        tail = inf
        for c in sorted(clients, key=lambda c: -c[place]):
            head = min(head, c.head)
            wants += c.wants
            tail = min(tail, c.tail)
            yield _Client(head, wants, tail)


def _most(found: Events, by: Sequence[Edge | None]) -> str:
    """The part that takes most of the longest path."""
    most: dict[str, int] = {}
    event = found.end
    for _step in by:
        if (edge := by[event]) is None:
            break
        before, _, cycles, unit, why = edge
        text = "latencies" if why == "latency" else f"{why} of {found.graph.units[unit].name}"
        most[text] = most.get(text, 0) + cycles
        event = before
    return max(most, key=lambda k: most[k], default="latencies")


UNCOUNTED = ("row_reduce",)
"""Kinds that do FLOP of their operator and state no rate."""


def bounds(
    graph: Graph, analysis: Analysis, units: UnitGraph, config: Config, known: Known = Known()
) -> Bounds:
    """The lower bounds of a program that was lowered for the timing `machine`."""
    moved = analysis.lines or lines(graph, config)
    units = without(units)
    flows = {c: flow for c, flow in known.flows.items() if c < len(units.channels)}
    known = replace(known, flows=flows)
    return Bounds(graph, moved, analysis.flops_metric, units, config, known)


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


def _queued(config: Config) -> int:
    """Cycles from a chunk's place in the walk to its first grant."""
    return 1 if config.machine.chunks_ahead else 0


def _service(dram: Dram) -> tuple[int, sympy.Rational, int]:
    """Lines that the memory serves together at most, the cycles from these to the next, and the
    cycles that a line takes.
    """
    if dram.kind == "trace":
        return 1, sympy.Integer(0), 0
    if dram.kind == "pipe":
        return dram.channels, sympy.Integer(dram.interval), dram.start_up + dram.latency
    if dram.kind == "hbm2":
        per_tick = sympy.Rational(dram.hbm2.bytes_per_tick).limit_denominator(1 << 20)
        return 1, dram.line_bytes / (per_tick * sympy.Rational(dram.ratio)), 0
    return 1, sympy.Integer(0), dram.latency - 1
