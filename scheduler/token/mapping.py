"""Image of a dataflow graph on an overlay: partition, place, schedule."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ...machine.errors import ConfigError
from ...overlay.core.config import Overlay
from ...overlay.core.dataflow import DataflowGraph
from ...overlay.core.image import Image
from ...overlay.core.ops import Op, format_of
from .bounds import Bounds, bounds
from .check import check
from .copies import with_copies
from .dynamic import dynamic_image
from .edges import Task, edges
from .floors import Floor, floor
from .partition import OBJECTIVES, objective_of, place
from .schedule import Schedule, schedule
from .search import Effort, find, scheduled
from .specialise import specialise
from .static import static_image

TIME = "time"
METHODS = (*OBJECTIVES, TIME)
"""What placements are made for: few edges or pairs between PEs, or a short static schedule."""
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


def method_of(overlay: Overlay) -> str:
    """Method that a placement is made for by default."""
    return TIME if overlay.pe == "static" else objective_of(overlay)


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
    # wall clock by step: place, image. A placement for time is made with its schedule.
    seconds: dict = field(default_factory=dict)

    @property
    def pe(self) -> np.ndarray:
        """PE of each node."""
        return self.image.node_pe


def source_bits(graph: DataflowGraph, overlay: Overlay, inputs=None) -> np.ndarray:
    """uint64 [nodes]: bits of the sources' values (operations: 0)."""
    return (
        graph.sources(inputs, overlay.format).view(format_of(overlay.format).word).astype(np.uint64)
    )


def map_graph(
    graph: DataflowGraph,
    overlay: Overlay,
    seed: int = 0,
    objective: str | None = None,
    inputs=None,
    pe: np.ndarray | Schedule | None = None,
    effort: Effort | None = None,
    tell: Callable[[str], None] | None = None,
) -> Mapped:
    """Partition, place and (static) schedule.

    Parameters
    ----------
    graph, overlay
        What is mapped, and onto what.
    seed
        Of the placement.
    objective
        One of :data:`METHODS`; by default that of :func:`method_of`. With ``time`` dynamic PEs get
        the placement of static ones.
    inputs
        Values of the inputs (:meth:`DataflowGraph.sources`).
    pe
        A placement, or a static schedule, to use in place of an own one.
    effort
        How long to improve a placement for time.
    tell
        Is called with what such a search has reached.

    Raises
    ------
    ConfigError
        Where fixed memories are too small for the graph, naming PE, memory, need and size.
    ProgramError
        For operations that the format does not have.
    """
    graph.check_format(overlay.format)
    t0 = time.perf_counter()
    objective = objective or method_of(overlay)
    task = task_of(graph, overlay)
    least = floor(task) if overlay.pe == "static" else None
    pe, plan = _placed(task, objective, seed, pe, effort, tell, least)
    t1 = time.perf_counter()
    bits = source_bits(graph, overlay, inputs)
    e = task.e
    if overlay.pe == "static":
        plan = plan or (scheduled(task, pe) if objective == TIME else schedule(task, pe))
        check(plan, task)
        image = static_image(plan, task, bits)
        least_here = bounds(task, pe)
    else:
        placed = with_copies(task, bits, pe)
        image = dynamic_image(placed)
        least_here = bounds(placed.task, placed.pe)
    image.memories()
    t2 = time.perf_counter()
    away = pe[e.src] != pe[e.dst]
    pairs = len(np.unique(e.src[away].astype(np.int64) * overlay.pes + pe[e.dst[away]]))
    return Mapped(
        graph,
        overlay,
        seed,
        objective,
        image,
        plan,
        least_here,
        least,
        int(np.count_nonzero(away)),
        pairs,
        {"place": t1 - t0, "image": t2 - t1},
    )


def task_of(graph: DataflowGraph, overlay: Overlay) -> Task:
    """Task of a placement."""
    op = graph.op
    source = op < Op.ADD
    latency = np.where(source, 1, overlay.latencies()[op]).astype(np.int32)
    return Task(overlay, op, source, graph.a, graph.b, edges(graph.a, graph.b), latency)


def _placed(
    task: Task,
    objective: str,
    seed: int,
    pe: np.ndarray | Schedule | None,
    effort: Effort | None,
    tell: Callable[[str], None] | None,
    least: Floor | None,
) -> tuple[np.ndarray, Schedule | None]:
    """The placement that is given or made, and its schedule if it was made with one."""
    overlay = task.overlay
    nodes = len(task.op)
    if objective not in METHODS:
        raise ConfigError(
            f"objective must be one of {', '.join(METHODS)}, not {objective!r}", "placement"
        )
    if isinstance(pe, Schedule):
        return pe.pe, pe
    if pe is None and objective == TIME:
        bound = least.best if least else 0
        plan = find(_static(task), _starts(task, seed, effort), seed, effort, bound, tell)
        return plan.pe.astype(np.int32), plan if overlay.pe == "static" else None
    if pe is None:
        pe = _partitioned(task, objective, seed)
    pe = np.asarray(pe, np.int32)
    if pe.shape != (nodes,) or pe.min(initial=0) < 0 or pe.max(initial=0) >= overlay.pes:
        raise ConfigError(
            f"a placement gives each of the {nodes} nodes a PE from 0 to {overlay.pes - 1}",
            "placement",
        )
    return pe, None


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
