"""Image of a dataflow graph on an overlay: partition, place, schedule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ...machine.errors import ConfigError
from ...overlay.core.config import Overlay
from ...overlay.core.dataflow import DataflowGraph
from ...overlay.core.image import Image
from ...overlay.core.ops import Op, format_of
from ...overlay.model import simulate
from .bounds import Bounds, bounds
from .check import check
from .copies import Placed, with_copies
from .dynamic import dynamic_image
from .edges import Task, edges
from .floors import Floor, floor
from .hybrid import hybrid_image, program_image, with_regions
from .partition import OBJECTIVES, objective_of, place
from .program import Program, Segment, program
from .schedule import Schedule, schedule
from .search import Effort, find, scheduled
from .specialise import specialise
from .static import static_image

TIME = "time"
METHODS = (*OBJECTIVES, TIME)
"""Objectives of placements: few edges or pairs between PEs, or a short static schedule."""
MEAN = "mean"
"""Objective where inputs vary: few cycles in the mean over the outcomes of conditions."""
PARTITIONED = 3000
"""Nodes up to which partitions are tried where no effort is asked for."""
FEW = 4
FEW_NODES = 100_000
"""PEs up to which a partition by connectivity is tried nevertheless, of graphs of up to so many
nodes: there the saved copies decide.
"""
PER_SECOND = 1000
"""Nodes for each of `--seconds` up to which a partition by connectivity is tried, which nothing
interrupts.
"""


def methods_of(overlay: Overlay) -> tuple[str, ...]:
    """Methods of which the one with the fewest cycles is taken by default."""
    return (objective_of(overlay), TIME) if overlay.pe == "dynamic" else (TIME,)


@dataclass
class Mapped:
    """A graph on an overlay."""

    # graph, overlay, seed, objective: what was mapped, and how
    graph: DataflowGraph
    overlay: Overlay
    seed: int
    objective: str
    image: Image  # what is loaded
    schedule: Schedule | None  # of static PEs; else None
    bounds: Bounds  # lower bounds on the cycles of this placement
    floor: Floor | None  # of static PEs: lower bounds on the cycles of any placement; else None
    # cut, pairs: edges between PEs; (value, foreign PE) pairs
    cut: int
    pairs: int
    program: Program | None = None  # of hybrid PEs: segments, where regions are conditional
    # wall clock by step: place, image. A placement for time is made with its schedule.
    seconds: dict = field(default_factory=dict)

    @property
    def pe(self) -> np.ndarray:
        """PE of each node."""
        return self.image.node_pe

    @property
    def cycles(self) -> int:
        """Cycles of a run: the schedule's, or the model's."""
        return self.schedule.length if self.schedule else simulate(self.image).cycles

    def onto(self, overlay: Overlay) -> np.ndarray | Schedule:
        """The same placement, with its schedule, in the corner of a larger mesh."""
        if self.schedule is None:
            return self._corner(self.pe, overlay)
        s = self.schedule
        values = np.zeros(overlay.pes, np.int32)
        values[self._corner(np.arange(len(s.values)), overlay)] = s.values
        places = {name: self._corner(getattr(s, name), overlay) for name in ("pe", "copy_pe")}
        return replace(s, overlay=overlay, values=values, **places)

    def program_onto(self, overlay: Overlay) -> Program | None:
        """The segments in the corner of a larger mesh."""
        if self.program is None:
            return None

        def moved(one: Segment) -> Segment:
            s = one.schedule
            places = {name: self._corner(getattr(s, name), overlay) for name in ("pe", "copy_pe")}
            decides = [(n, int(self._corner(np.array(p), overlay)), c) for n, p, c in one.decides]
            task = replace(one.task, overlay=overlay)
            return replace(
                one, task=task, schedule=replace(s, overlay=overlay, **places), decides=decides
            )

        segments = [[moved(one) for one in stage] for stage in self.program.segments]
        return Program(segments, self.program.at, self._corner(self.program.pe, overlay))

    def _corner(self, pe: np.ndarray, overlay: Overlay) -> np.ndarray:
        y, x = np.divmod(pe, self.overlay.cols)
        return (y * overlay.cols + x).astype(np.int32)


def source_bits(graph: DataflowGraph, overlay: Overlay, inputs=None) -> np.ndarray:
    """uint64 [nodes]: bits of the sources' values (operations: 0)."""
    return (
        graph.sources(inputs, overlay.format).view(format_of(overlay.format).word).astype(np.uint64)
    )


Placements = dict[tuple, "np.ndarray | Schedule"]
"""Placements that were made, by all that they depend on."""


def map_graph(
    graph: DataflowGraph,
    overlay: Overlay,
    seed: int = 0,
    objective: str | None = None,
    inputs=None,
    pe: np.ndarray | Schedule | None = None,
    effort: Effort | None = None,
    tell: Callable[[str], None] | None = None,
    smaller: Iterable[Mapped] = (),
    known: Placements | None = None,
) -> Mapped:
    """Partition, place and (static) schedule.

    Parameters
    ----------
    graph, overlay
        What is mapped, and onto what.
    seed
        Of the placement.
    objective
        One of :data:`METHODS`; by default the one of :func:`methods_of` with the fewest cycles.
        With ``time`` dynamic PEs get the placement of static ones. :data:`MEAN`: as by default, but
        hybrid PEs get the form with the fewest cycles in the mean over the outcomes of conditions,
        each as likely, of those that are on none slower than both sides executed.
    inputs
        Values of the inputs (:meth:`DataflowGraph.sources`).
    pe
        A placement, or a static schedule, to use in place of an own one.
    effort
        How long to improve a placement for time.
    tell
        Is called with what such a search has reached.
    smaller
        The graph on meshes that this one contains, which are tried as well where the objective is
        the default.
    known
        Placements of this graph, of which those that fit are used and to which others are added.

    Raises
    ------
    ConfigError
        Where fixed memories are too small for the graph, naming PE, memory, need and size.
    ProgramError
        For operations that the format does not have.
    """
    graph.check_format(overlay.format)
    known = {} if known is None else known
    varies = objective == MEAN
    objective = None if varies else objective
    if overlay.pe == "static":
        graph = graph.selected()
    if overlay.pe != "hybrid" or not graph.conditional:
        return _mapped(graph, overlay, seed, objective, inputs, pe, effort, tell, smaller, known)
    smaller = list(smaller)
    tried: list[Mapped] = []
    refused: list[ConfigError] = []

    def attempt(make: Callable[[], Mapped]) -> None:
        try:
            tried.append(make())
        except ConfigError as e:
            refused.append(e)

    def both_sides() -> Mapped:
        form, origin = graph.with_regions(())
        given = None if pe is None else _placement(pe)[origin]
        rest = effort, tell, smaller, known
        return _mapped(form, overlay, seed, objective, inputs, given, *rest)

    for form, origin in with_regions(graph) if pe is None else with_regions(graph)[-1:]:
        given = None if pe is None else _placement(pe)[origin]
        for speculates in (True, False):
            how = {"seed": seed, "effort": effort, "pe": given, "speculates": speculates}
            make = partial(program, form, task_of(form, overlay), **how)
            attempt(partial(_with_program, form, overlay, seed, inputs, make))
    for one in smaller if pe is None and objective is None else ():
        moved = one.program_onto(overlay)
        if moved is not None:
            attempt(partial(_with_program, one.graph, overlay, seed, inputs, lambda p=moved: p))
    if pe is None or not tried:
        attempt(both_sides)
    if not tried:
        raise refused[0]
    if not varies:
        return min(tried, key=lambda m: m.cycles)

    def over(m: Mapped, outcomes: Callable[[list[int]], float]) -> float:
        return m.program.cycles(outcomes) if m.program else m.cycles

    most = min((m.cycles for m in tried if m.program is None), default=np.inf)
    bounded = [m for m in tried if over(m, max) <= most]
    return min(bounded, key=lambda m: (over(m, np.mean), m.image.sizes.contexts))


def _placement(pe: np.ndarray | Schedule) -> np.ndarray:
    return pe.pe if isinstance(pe, Schedule) else np.asarray(pe)


def _with_program(
    graph: DataflowGraph, overlay: Overlay, seed: int, inputs, make: Callable[[], Program]
) -> Mapped:
    """A graph with conditional regions on hybrid PEs, by the segments that are made."""
    begun = time.perf_counter()
    task = task_of(graph, overlay)
    bits = source_bits(graph, overlay, inputs)
    found = make()
    placed_at = time.perf_counter()
    image = program_image(task, bits, found)
    image.memories()
    fired = _taken(graph, task, bits)
    return Mapped(
        graph,
        overlay,
        seed,
        TIME,
        image,
        None,
        bounds(fired, found.pe),
        floor(fired),
        *_apart(fired, found.pe),
        found,
        {"place": placed_at - begun, "image": time.perf_counter() - placed_at},
    )


def _apart(task: Task, pe: np.ndarray) -> tuple[int, int]:
    """Edges between PEs, and (value, foreign PE) pairs."""
    e = task.e
    away = pe[e.src] != pe[e.dst]
    pairs = np.unique(e.src[away].astype(np.int64) * task.overlay.pes + pe[e.dst[away]])
    return int(np.count_nonzero(away)), len(pairs)


def _taken(graph: DataflowGraph, task: Task, value: np.ndarray) -> Task:
    """Task of the nodes that a run must compute, without switches and merges."""
    f = format_of(task.overlay.format)
    given = value[graph.inputs].astype(f.word).view(f.dtype)
    fires, _ = graph.regions.taken(graph.evaluate(given, f.name))
    seen = np.arange(len(task.op))
    for n in np.flatnonzero(task.op >= Op.THEN).tolist():
        left = task.op[n] == Op.MERGE and fires[task.a[n]]
        seen[n] = seen[task.a[n] if left else task.b[n]]
    live = fires & (task.op >= Op.ADD) & (task.op < Op.THEN)
    a, b = (np.where(live & (of >= 0), seen[of], -1).astype(np.int32) for of in (task.a, task.b))
    latency = np.where(live, task.latency, 1).astype(np.int32)
    return replace(task, source=~live, a=a, b=b, e=edges(task.op, a, b), latency=latency)


def _mapped(
    graph: DataflowGraph,
    overlay: Overlay,
    seed: int,
    objective: str | None,
    inputs,
    pe: np.ndarray | Schedule | None,
    effort: Effort | None,
    tell: Callable[[str], None] | None,
    smaller: Iterable[Mapped],
    known: Placements,
) -> Mapped:
    """A graph as it is, on the better of its placements."""
    task = task_of(graph, overlay)
    bits = source_bits(graph, overlay, inputs)
    certain = overlay.pe != "dynamic" and not graph.conditional
    least = floor(task) if certain else None
    tried: list[Mapped] = []
    refused: list[ConfigError] = []

    def attempt(way: str, given: np.ndarray | Schedule | None) -> None:
        begun = time.perf_counter()
        place, plan = _placed(task, way, seed, given, effort, tell, least, known)
        try:
            tried.append(_image(graph, task, bits, place, plan, least, way, seed, begun))
        except ConfigError as e:
            refused.append(e)

    for way in (objective,) if objective else methods_of(overlay):
        attempt(way, pe)
        if pe is not None:
            break
    if not objective and pe is None and overlay.kinds == "homogeneous":
        for one in smaller:
            if _form(one.graph) == _form(graph):
                attempt(one.objective, one.onto(overlay))
    if not tried:
        raise refused[0]
    return tried[0] if len(tried) == 1 else min(tried, key=lambda m: m.cycles)


def _image(
    graph: DataflowGraph,
    task: Task,
    bits: np.ndarray,
    pe: np.ndarray,
    plan: Schedule | None,
    least: Floor | None,
    objective: str,
    seed: int,
    begun: float,
) -> Mapped:
    """A placed graph; ``begun``: the time at which its placement was begun."""
    overlay = task.overlay
    placed_at = time.perf_counter()
    if overlay.pe == "static":
        plan = plan or (scheduled(task, pe) if objective == TIME else schedule(task, pe))
        check(plan, task)
        image = static_image(plan, task, bits)
        least_here = bounds(task, pe)
    else:
        placed = with_copies(task, bits, pe)
        if overlay.pe == "hybrid":
            image = hybrid_image(task, bits, pe, plan)
            plan = None
        else:
            image = dynamic_image(placed)
        least_here = bounds(_fired(graph, placed), placed.pe)
    image.memories()
    return Mapped(
        graph,
        overlay,
        seed,
        objective,
        image,
        plan,
        least_here,
        least,
        *_apart(task, pe),
        None,
        {"place": placed_at - begun, "image": time.perf_counter() - placed_at},
    )


def task_of(graph: DataflowGraph, overlay: Overlay) -> Task:
    """Task of a placement."""
    op = graph.op
    source = op < Op.ADD
    latency = np.where(source, 1, overlay.latencies()[op]).astype(np.int32)
    return Task(overlay, op, source, graph.a, graph.b, edges(op, graph.a, graph.b), latency)


def _placed(
    task: Task,
    objective: str,
    seed: int,
    pe: np.ndarray | Schedule | None,
    effort: Effort | None,
    tell: Callable[[str], None] | None,
    least: Floor | None,
    known: Placements,
) -> tuple[np.ndarray, Schedule | None]:
    """The placement that is given, known or made, and its schedule if it was made with one."""
    overlay = task.overlay
    nodes = len(task.op)
    if objective not in METHODS:
        raise ConfigError(
            f"objective must be one of {', '.join(METHODS)}, not {objective!r}", "placement"
        )
    if pe is None:
        o = _static(task).overlay if objective == TIME else overlay
        memories = o.memories if objective == TIME else ()
        form = _form(task)
        key = (objective, seed, o.rows, o.cols, o.alu, o.format, o.kinds, memories, form)
        if key not in known:
            if objective == TIME:
                bound = least.best if least else 0
                starts = _starts(task, seed, effort)
                known[key] = find(_static(task), starts, seed, effort, bound, tell)
            else:
                known[key] = _partitioned(task, objective, seed)
        pe = known[key]
    if isinstance(pe, Schedule):
        plan = replace(pe, overlay=overlay) if overlay.pe != "dynamic" else None
        return pe.pe.astype(np.int32), plan
    pe = np.asarray(pe, np.int32)
    if pe.shape != (nodes,) or pe.min(initial=0) < 0 or pe.max(initial=0) >= overlay.pes:
        raise ConfigError(
            f"a placement gives each of the {nodes} nodes a PE from 0 to {overlay.pes - 1}",
            "placement",
        )
    return pe, None


def _fired(graph: DataflowGraph, placed: Placed) -> Task:
    """The part of a placed graph that fires: its bounds are those of a run."""
    task = placed.task
    if not graph.conditional:
        return task
    f = format_of(task.overlay.format)
    bits = placed.value[placed.at][graph.inputs]
    fires, sends = graph.regions.taken(graph.evaluate(bits.astype(f.word).view(f.dtype), f.name))
    sent = np.zeros(len(task.op) + 1, bool)
    sent[placed.at] = sends
    sent[placed.copies] = sends[placed.copied]
    live = np.zeros(len(task.op), bool)
    live[placed.at] = fires & (graph.op >= Op.ADD)
    live[placed.copies] = sends[placed.copied]
    merge = task.op == Op.MERGE
    a = np.where(live, np.where(merge & ~sent[task.a], task.b, task.a), -1)
    b = np.where(live & ~merge, task.b, -1)
    return replace(
        task,
        source=~live,
        a=a,
        b=b,
        e=edges(task.op, a, b),
        latency=np.where(live, task.latency, 1),
    )


def _form(graph: DataflowGraph | Task) -> int:
    """Number of a graph's nodes and edges: it has several forms, which differ in their regions."""
    return hash(tuple(np.asarray(x, np.int32).tobytes() for x in (graph.op, graph.a, graph.b)))


def _static(task: Task) -> Task:
    """The same for static PEs; those that dynamic ones are compared with send by multicast."""
    if task.overlay.pe == "static":
        return task
    return replace(task, overlay=replace(task.overlay, pe="static", memories=()))


def _partitioned(task: Task, objective: str, seed: int) -> np.ndarray:
    overlay = task.overlay
    nodes = len(task.op)
    pe = place(nodes, task.e, np.ones(nodes, np.int64), overlay.rows, overlay.cols, objective, seed)
    if overlay.kinds == "specialised":
        return specialise(overlay, task.op, pe)
    return pe


def _starts(task: Task, seed: int, effort: Effort | None) -> list[Callable[[], np.ndarray]]:
    """Placements that a search tries beside its lists."""
    nodes = len(task.op)
    if nodes > PARTITIONED and not (effort and effort.asked):
        few = 1 < task.overlay.pes <= FEW and nodes <= FEW_NODES
        return [partial(_partitioned, task, "connectivity", seed)] if few else []

    def dealt() -> np.ndarray:
        pe = np.arange(nodes, dtype=np.int32) % task.overlay.pes
        special = task.overlay.kinds == "specialised"
        return specialise(task.overlay, task.op, pe) if special else pe

    limit = effort.seconds if effort else None
    long = nodes > PER_SECOND * limit if limit is not None else not (effort and effort.asked)
    methods = ("cut",) if long else OBJECTIVES
    partitions = [lambda o=o: _partitioned(task, o, seed) for o in methods]
    return [*partitions, dealt, *_corners(task, seed)]


def _corners(task: Task, seed: int) -> list[Callable[[], np.ndarray]]:
    """Partitions by cut onto a corner of the mesh, halved again and again: where paths decide,
    fewer PEs may be better.
    """
    o = task.overlay
    found = []
    rows = o.rows
    cols = o.cols
    while rows * cols > 4 and o.kinds == "homogeneous":
        rows = -(-rows // 2)
        cols = -(-cols // 2)
        found.append(partial(_corner, task, rows, cols, seed))
    return found


def _corner(task: Task, rows: int, cols: int, seed: int) -> np.ndarray:
    small = replace(task.overlay, rows=rows, cols=cols)
    pe = _partitioned(replace(task, overlay=small), "cut", seed)
    return pe // small.cols * task.overlay.cols + pe % small.cols
