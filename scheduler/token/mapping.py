"""From a dataflow graph and an overlay to an image: partition, place, schedule."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from ...machine.dataflow import DataflowGraph
from ...machine.errors import ConfigError
from ...machine.overlay import Overlay
from ...machine.overlay_image import Image
from ...machine.token_ops import Op, format_of
from . import bounds as _bounds
from .check import check
from .dynamic import dynamic_image
from .edges import edges
from .partition import objective_of, place
from .schedule import Schedule, distances, schedule
from .specialise import specialise
from .static import static_image


@dataclass
class Mapped:
    """A graph on an overlay.

    Attributes
    ----------
    graph, overlay, seed, objective
        What was mapped, and how.
    image
        What is loaded.
    schedule
        Of static PEs; else None.
    bounds
        Lower bounds on the cycles of this placement.
    cut, pairs
        Edges between PEs; (value, foreign PE) pairs.
    seconds
        Wall clock by step: place, image.

    """

    graph: DataflowGraph
    overlay: Overlay
    seed: int
    objective: str
    image: Image
    schedule: Schedule | None
    bounds: _bounds.Bounds
    cut: int
    pairs: int
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
    pe: np.ndarray | None = None,
) -> Mapped:
    """Partition, place and (static) schedule.

    Parameters
    ----------
    graph, overlay
        What is mapped, and onto what.
    seed
        Of the partitioner.
    objective
        ``cut`` or ``connectivity``; by default what suits the overlay's way of sending
        (:func:`.partition.objective_of`).
    inputs
        Values of the inputs (:meth:`DataflowGraph.sources`).
    pe
        A placement to use in place of an own one.

    Raises
    ------
    ConfigError
        Where fixed memories are too small for the graph, naming PE, memory, need and size.
    ProgramError
        For operations that the format does not have.

    """
    graph.check_format(overlay.format)
    t0 = time.perf_counter()
    objective = objective or objective_of(overlay)
    op = graph.op
    a = graph.a
    b = graph.b
    source = op < Op.ADD
    latency = np.where(source, 1, overlay.latencies()[op]).astype(np.int32)
    e = edges(a, b)
    if pe is None:
        pe = place(
            len(op), e, np.ones(len(op), np.int64), overlay.rows, overlay.cols, objective, seed
        )
        if overlay.kinds == "specialised":
            pe = specialise(overlay, op, e, pe)
    pe = np.asarray(pe, np.int32)
    if pe.shape != (len(op),) or pe.min(initial=0) < 0 or pe.max(initial=0) >= overlay.pes:
        raise ConfigError(
            f"a placement gives each of the {len(op)} nodes a PE from 0 to {overlay.pes - 1}",
            "placement",
        )
    t1 = time.perf_counter()
    bits = source_bits(graph, overlay, inputs)
    plan = None
    if overlay.pe == "static":
        plan = schedule(overlay, source, a, b, e, latency, pe)
        check(plan, source, e, latency)
        image = static_image(plan, op, bits, source, e, latency)
    else:
        image = dynamic_image(
            overlay,
            op,
            bits,
            source,
            e,
            latency,
            distances(a, b, latency + 1, pe, overlay.cols),
            pe,
        )
    image.memories()
    t2 = time.perf_counter()
    away = pe[e.src] != pe[e.dst]
    pairs = len(np.unique(e.src[away].astype(np.int64) * overlay.pes + pe[e.dst[away]]))
    bound = _bounds.bounds(overlay, source, a, b, e, latency, pe)
    return Mapped(
        graph,
        overlay,
        seed,
        objective,
        image,
        plan,
        bound,
        int(np.count_nonzero(away)),
        pairs,
        {"place": t1 - t0, "image": t2 - t1},
    )
