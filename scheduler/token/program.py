"""Programs of segments for hybrid PEs: conditional regions in segments of contexts, of which a run
takes those whose conditions hold (docs/overlay.md section 7.1).

Conditions that are known at the same time make a group; behind the segment that computes them lies
one segment for each of their outcomes. What waits for no region fills what a segment leaves free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...machine.errors import ConfigError
from ...overlay.core.config import DECISION, DECISIONS
from ...overlay.core.dataflow import DataflowGraph
from ...overlay.core.ops import Op
from .edges import Task, edges, tails
from .schedule import Schedule
from .search import Effort, Search

FIRST = 1e6
"""Added to the turn of what a segment must compute."""


@dataclass(frozen=True)
class Segment:
    """Contexts of a segment.

    Attributes
    ----------
    nodes
        Nodes of the graph, those of ``task``: what is computed, and operands from elsewhere.
    task, schedule
        Of them.
    there
        Sources that need no issue.
    decides
        Node, PE and cycle of each condition that is sent to decide, by its place in the group.
    length
        Contexts.
    """

    nodes: np.ndarray
    task: Task
    schedule: Schedule
    there: np.ndarray | None = None
    decides: Sequence[tuple[int, int, int]] = ()

    @property
    def length(self) -> int:
        return max([self.schedule.length, *(cycle + DECISION for _, _, cycle in self.decides)])


@dataclass(frozen=True)
class Program:
    """Segments of a graph.

    Attributes
    ----------
    segments
        By stage: one for each outcome of the conditions decided before it, the first one lowest.
    at
        int [nodes]: the node at whose place each node's value is; nodes with a place have their
        own number.
    pe
        int [nodes]: PE of each such node.
    """

    segments: list[list[Segment]]
    at: np.ndarray
    pe: np.ndarray

    def cycles(self, over: Callable[[list[int]], float]) -> float:
        """Cycles of a run, those of each stage over its outcomes: ``max`` or :func:`numpy.mean`."""
        return sum(over([one.length for one in stage]) for stage in self.segments)


@dataclass
class _Planner:
    """The plan so far."""

    graph: DataflowGraph
    task: Task
    seed: int
    effort: Effort | None
    speculates: bool  # sides of regions fill segments before their decision
    place: np.ndarray  # whose place each value has
    pe: np.ndarray  # by place, -1: none yet
    stage: int = 0
    groups: Groups = field(init=False)
    done: np.ndarray = field(init=False)  # computed on every way to here
    issued: np.ndarray = field(init=False)  # sources that have issued

    def __post_init__(self):
        n = len(self.place)
        self.groups = groups(self.graph)
        self.done = self.task.source.copy()
        self.issued = np.zeros(n, bool)
        op = self.task.op
        self.switches = np.flatnonzero(op >= Op.THEN).tolist()
        self.work = (op >= Op.ADD) & (op < Op.THEN)
        self.tail = tails(self.task.a, self.task.b, self.task.latency)
        merges = np.flatnonzero(op == Op.MERGE)
        self.defines = np.zeros(n, bool)  # a side of a merge
        self.defines[self.task.a[merges]] = self.defines[self.task.b[merges]] = True

    def seen(self, known: Mapping[int, bool]) -> np.ndarray:
        """The node that computes each node's value, where conditions are known."""
        t = self.task
        seen = np.arange(len(t.op))
        merges = self.graph.regions.merges
        for n in self.switches:
            if t.op[n] != Op.MERGE:
                seen[n] = seen[t.b[n]]
            elif not self.done[n] and self.groups.of[n] == self.stage:
                condition, there, otherwise = merges[n]
                seen[n] = seen[there if known[condition] else otherwise]
        return seen

    def segment(
        self,
        mine: np.ndarray,
        known: Mapping[int, bool],
        decide: Sequence[int] = (),
        first: np.ndarray | None = None,
    ) -> Segment:
        """A segment of the nodes ``mine``; places what has no PE. Where some come ``first``, others
        follow by their paths to an end of the graph.
        """
        seen = self.seen(known)
        t = self.task
        operands = np.concatenate([of[mine] for of in (t.a, t.b)])
        inside = mine.copy()
        inside[seen[operands[operands >= 0]]] = True
        inside[seen[list(decide)]] = True
        inside[0] |= not inside.any()
        nodes = np.flatnonzero(inside)
        new = np.full(len(seen) + 1, -1)
        new[nodes] = np.arange(len(nodes))
        source = ~mine[nodes]
        there = np.where(t.op[nodes] < Op.ADD, self.issued[nodes], source)
        op = np.where(source, np.uint8(0), t.op[nodes])
        a, b = (
            np.where(source | (x[nodes] < 0), -1, new[seen[x[nodes]]]).astype(np.int32)
            for x in (t.a, t.b)
        )
        latency = np.where(source, 1, t.latency[nodes]).astype(np.int32)
        part = Task(t.overlay, op, source, a, b, edges(op, a, b), latency)
        search = Search(part, self.seed, self.effort, given=self.pe[self.place[nodes]], there=there)
        if first is not None:
            turn = self.tail[nodes] + FIRST * first[nodes]
            order = np.argsort(-turn, kind="stable")
            search.order = order[~source[order]]
        search.ladder()
        if first is None:
            search.better()
        s = search.best()
        used = ~source | (np.diff(part.e.start) > 0)
        self.pe[self.place[nodes[used]]] = s.pe[used]
        for c in decide:  # a condition that nothing computes or reads here
            k = new[seen[c]]
            self.pe[self.place[seen[c]]] = s.pe[k]
        return self._deciding(Segment(nodes, part, s, there), [int(seen[c]) for c in decide], new)

    def _deciding(self, one: Segment, decide: Sequence[int], new: np.ndarray) -> Segment:
        """A segment that sends its conditions, each as early as can be."""
        s = one.schedule
        taken = {(int(s.pe[n]), int(c)) for n, c in zip(s.send_node, s.send_cycle, strict=True)}
        decides = []
        for c in decide:
            k = int(new[c])
            pe = int(s.pe[k])
            cycle = 0 if one.task.source[k] else int(s.issue[k] + one.task.latency[k])
            while (pe, cycle) in taken:
                cycle += 1
            taken.add((pe, cycle))
            decides.append((c, pe, cycle))
        return replace(one, decides=tuple(decides))

    def in_time(self, one: Segment, wanted: np.ndarray) -> np.ndarray:
        """Nodes of a segment whose results are written before the last one of ``wanted``, or the
        first cycle behind its decisions.
        """
        s = one.schedule
        own = ~one.task.source
        end = s.issue + one.task.latency
        must = end[own & wanted[one.nodes]].max(initial=0)
        cycles = max([must, *(cycle + DECISION for _, _, cycle in one.decides)])
        found = np.zeros(len(self.place), bool)
        found[one.nodes[own & (end <= cycles)]] = True
        return found

    def ready(self, seen: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """Nodes of ``allowed`` that can be computed, among them sides of undecided regions."""
        t = self.task
        found = self.done.copy()
        for n in np.flatnonzero(allowed & ~self.done).tolist():
            found[n] = found[seen[t.a[n]]] and (t.b[n] < 0 or found[seen[t.b[n]]])
        return found & ~self.done

    def before(self, wanted: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Nodes of ``wanted``, and those that they need, that are not computed yet."""
        t = self.task
        needed = wanted.copy()
        for n in range(len(needed) - 1, -1, -1):
            if needed[n] and self.work[n] and not self.done[n]:
                for u in (t.a[n], t.b[n]):
                    if u >= 0:
                        needed[seen[u]] = True
            elif needed[n] and seen[n] != n:
                needed[seen[n]] = True
        return needed & self.work & ~self.done


@dataclass(frozen=True)
class Groups:
    """Decisions of a graph.

    Attributes
    ----------
    conditions
        By stage but the first: those that are decided before it.
    of
        int [nodes]: of a node of a region, and of a merge, the stage of its region; else -1.
    level
        int [nodes]: the stage in which each node can be computed at the earliest.
    """

    conditions: list[list[int]]
    of: np.ndarray
    level: np.ndarray


def groups(graph: DataflowGraph) -> Groups:
    """The largest regions come first among those that can be decided at one time; ConfigError where
    regions wait for one another.
    """
    outermost = graph.regions.outermost
    region = np.where(graph.op == Op.MERGE, outermost[graph.a], outermost)
    switches = np.flatnonzero((graph.op == Op.THEN) | (graph.op == Op.ELSE))
    conditions, sizes = np.unique(outermost[outermost >= 0], return_counts=True)
    largest = conditions[np.argsort(-sizes, kind="stable")].tolist()
    entries = {c: graph.b[switches[outermost[switches] == c]] for c in largest}
    stage: dict[int, int] = {}
    found: list[list[int]] = []
    never = len(largest) + 1
    while True:
        level = _stages(graph, region, stage, never)
        left = [c for c in largest if c not in stage]
        if not left:
            of = np.array([stage.get(c, -1) for c in region.tolist()])
            return Groups(found, of, level)
        j = len(found) + 1
        group: list[int] = []
        for c in left:
            if level[c] >= j or len(group) == DECISIONS:
                continue
            if (_stages(graph, region, stage | {c: j}, never)[entries[c]] <= j).all():
                stage[c] = j
                group.append(c)
        if not group:
            raise ConfigError(
                f"regions of conditions {sorted(map(graph.label, left))} wait for one another",
                f"dataflow graph {graph.title}",
            )
        found.append(group)


def _stages(
    graph: DataflowGraph, region: np.ndarray, stage: Mapping[int, int], never: int
) -> np.ndarray:
    """The earliest stage of each node, where some regions have one."""
    level: list[int] = [0] * (len(graph) + 1)
    columns = (of.tolist() for of in (graph.op, graph.a, graph.b, region))
    for n, (op, a, b, c) in enumerate(zip(*columns, strict=True)):
        level[n] = max(level[a], level[b])
        if op >= Op.THEN:
            level[n] = max(level[n], stage.get(c, never))
    return np.array(level[:-1])


def program(
    graph: DataflowGraph,
    task: Task,
    seed: int = 0,
    effort: Effort | None = None,
    pe: np.ndarray | None = None,
    speculates: bool = True,
) -> Program:
    """Place and schedule a graph whose regions are all outermost; ``pe``: a placement to use;
    ``speculates``: sides of regions fill what is free before their decision.
    """
    n = len(task.op)
    place = np.arange(n)
    for k in np.flatnonzero(task.op >= Op.THEN).tolist():
        if task.op[k] == Op.MERGE:
            place[[task.a[k], task.b[k]]] = k
        else:
            place[k] = place[task.b[k]]
    given = np.full(n, -1, np.int32) if pe is None else pe.astype(np.int32)
    p = _Planner(graph, task, seed, effort, speculates, place, given)
    stages = [_stage(p, j) for j in range(len(p.groups.conditions) + 1)]
    rest = np.flatnonzero((p.pe < 0) & (place == np.arange(n)))
    p.pe[rest] = np.arange(len(rest)) % task.overlay.pes
    return Program(stages, place, p.pe[place])


def _stage(p: _Planner, j: int) -> list[Segment]:
    """The segments of stage j, one for each outcome of its group."""
    p.stage = j
    group, following = (([], *p.groups.conditions, [])[k] for k in (j, j + 1))
    outermost = p.graph.regions.outermost
    inside = outermost >= 0
    here = p.groups.of == j
    side = np.array(p.graph.regions.side)[p.graph.regions.of]
    outcomes = [{c: bool(k >> i & 1) for i, c in enumerate(group)} for k in range(1 << len(group))]
    regions = []
    for known in outcomes:
        mine = np.zeros(len(side), bool)
        for c, taken in known.items():
            mine |= (outermost == c) & (side == taken)
        regions.append(mine & here & p.work & ~p.done)
    views = [p.seen(known) for known in outcomes]
    needs = []
    for mine, seen in zip(regions, views, strict=True):
        wanted = mine.copy()
        wanted[following] = True
        needs.append(p.before(wanted, seen) & ~inside)
    common = np.logical_or.reduce(needs)
    ranked = sorted(range(len(outcomes)), key=lambda k: int(regions[k].sum()))
    order = ranked if following else ranked[::-1]
    if following:
        k = ranked[0]
        one = p.segment(regions[k] | common, outcomes[k], following)
        early = ~p.defines if p.speculates else np.False_
        more = p.ready(views[k], p.work & ~here & (~inside | early) | regions[k]) & ~here
        wanted = regions[k] | common
        one = p.segment(wanted | more, outcomes[k], following, wanted)
        common = common | (p.in_time(one, wanted) & more)
    else:
        common = p.work & ~inside & ~p.done
    if len(order) > 1:  # the opposite outcome is the next one: then every region has its places
        other = len(outcomes) - 1 - order[0]
        order = [order[0], other, *(k for k in order[1:] if k != other)]
    found: dict[int, Segment] = {}
    for k in order:
        first = regions[k] | needs[k] if following else None
        found[k] = p.segment(regions[k] | common, outcomes[k], following, first)
    read = [np.isin(np.arange(len(side)), one.nodes) for one in found.values()]
    p.issued |= p.task.source & np.logical_and.reduce(read)
    p.done |= common | (here & (p.task.op == Op.MERGE))
    return [found[k] for k in range(len(outcomes))]
