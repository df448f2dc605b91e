"""Images of hybrid PEs: a program of segments, or contexts and the tokens of what they have no room
for (docs/overlay.md section 7.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...overlay.core.config import WRITE_NONE, memories
from ...overlay.core.dataflow import DataflowGraph
from ...overlay.core.image import HybridImage
from ...overlay.core.ops import Op
from .check import check
from .copies import Placed
from .dynamic import dynamic_image
from .edges import Task, edges
from .program import Program, Segment
from .schedule import Schedule, ranks
from .search import scheduled
from .static import static_image

KEPT = (1, 2, 3, 4, 6, 9, 12)
"""Numbers of regions that stay conditional, the largest ones, beside all of them."""


def with_regions(graph: DataflowGraph) -> list[tuple[DataflowGraph, np.ndarray]]:
    """Forms of a graph in which all or only the largest regions are conditional, and each of their
    nodes' origin.
    """
    outermost = graph.regions.outermost
    conditions, sizes = np.unique(outermost[outermost >= 0], return_counts=True)
    largest = conditions[np.argsort(-sizes, kind="stable")].tolist()
    counts = sorted({len(largest), *(k for k in KEPT if k < len(largest))})
    return [graph.with_regions(largest[:count]) for count in counts]


def hybrid_image(
    task: Task, value: np.ndarray, pe: np.ndarray, plan: Schedule | None
) -> HybridImage:
    """The image of a graph without conditional regions; where the context memory is too short, what
    would issue last is dynamic.

    Parameters
    ----------
    task
        What is placed.
    value
        Bits of the sources' values.
    pe
        PE of each node.
    plan
        A schedule of the whole graph.
    """
    fixed = dict(task.overlay.memories)
    room = min((fixed[name] for name in ("context", "switch") if name in fixed), default=None)
    dynamic = np.zeros(len(pe), bool)
    while True:
        segment = _certain(task, pe, dynamic, plan)
        over = segment.length - room if room is not None else 0
        if over <= 0:
            break
        s = segment.schedule
        own = ~segment.task.source
        late = own & (s.issue + segment.task.latency > s.length - over)
        dynamic[segment.nodes[late]] = True
        plan = None
    return _assembled(task, value, pe, np.arange(len(pe)), dynamic, [[segment]])


def _certain(task: Task, pe: np.ndarray, dynamic: np.ndarray, plan: Schedule | None) -> Segment:
    """A segment of all that is not dynamic."""
    if not dynamic.any():
        return Segment(np.arange(len(pe)), task, plan or scheduled(task, pe))
    static = ~dynamic & ~task.source
    inside = static.copy()
    for of in (task.a, task.b):
        inside[of[static & (of >= 0)]] = True
    inside[0] |= not inside.any()
    nodes = np.flatnonzero(inside)
    new = np.full(len(pe) + 1, -1)
    new[nodes] = np.arange(len(nodes))
    a, b = (np.where(static[nodes], new[of[nodes]], -1).astype(np.int32) for of in (task.a, task.b))
    op = task.op[nodes]
    part = Task(task.overlay, op, ~static[nodes], a, b, edges(op, a, b), task.latency[nodes])
    return Segment(nodes, part, scheduled(part, pe[nodes]))


def program_image(task: Task, value: np.ndarray, program: Program) -> HybridImage:
    """The image of a program."""
    dynamic = np.zeros(len(program.at), bool)
    return _assembled(task, value, program.pe, program.at, dynamic, program.segments)


def _assembled(
    task: Task,
    value: np.ndarray,
    pe: np.ndarray,
    at: np.ndarray,
    dynamic: np.ndarray,
    stages: Sequence[Sequence[Segment]],
) -> HybridImage:
    """The image of stages of segments and of the dynamic nodes; ``at``: the node that has each
    node's place.
    """
    overlay = task.overlay
    pes = overlay.pes
    places, held_by = np.unique(at, return_inverse=True)
    a, b = (np.where(dynamic, of, -1)[places] for of in (task.a, task.b))
    if dynamic.any():  # every node has a place of its own
        fed = replace(task, a=a, b=b, e=edges(task.op, a, b))
    else:
        op, source = task.op[places], task.source[places]
        fed = Task(overlay, op, source, a, b, edges(op, a, b), task.latency[places])
    none = np.zeros(0, np.int64)
    home = pe[places]
    half = dynamic_image(Placed(fed, value[places], home, np.arange(len(home)), none, none))
    address = half.node_address[held_by]
    own = np.bincount(home, minlength=pes)

    segments = [one for stage in stages for one in stage]
    used = own.copy()
    for one in segments:
        used = np.maximum(used, own + np.bincount(one.schedule.copy_pe, minlength=pes))
    base = np.concatenate([[0], np.cumsum(used)]).astype(np.int64)
    place = base[home] + half.node_address
    op = np.zeros(base[-1], np.uint8)
    op[place] = np.where(fed.op >= Op.THEN, Op.JOIN, fed.op)
    bits = np.zeros(base[-1], np.uint64)
    bits[place] = np.where(fed.source, value[places], np.uint64(0))

    words = []
    for one in segments:
        s = one.schedule
        check(s, one.task, one.there)
        copy_address = (own[s.copy_pe] + ranks(s.copy_pe, pes)).astype(np.int32)
        s = replace(s, length=one.length, values=used, copy_address=copy_address)
        words.append(_words(replace(s, address=address[one.nodes]), one))
    table = _table(stages)
    sizes = replace(
        half.sizes,
        nodes=int(used.max(initial=1)),
        contexts=max(1, sum(one.length for one in segments)),
        matched=1 + int(address[dynamic].max(initial=0)),
        segments=len(table["next"]),
    )
    scheduled = {}
    for k, name in enumerate(("context", "switch")):
        fields = dict(memories(overlay, sizes)[name].layout.fields)
        scheduled[name] = {n: np.concatenate([w[k][n] for w in words], axis=1) for n in fields}
    more = {"base": base, "op": op, "value": bits, "sizes": sizes, "segment": table}
    more |= {"node_pe": pe.astype(np.int32), "node_address": address}
    length = sum(one.length for one in segments)
    return HybridImage(**vars(half) | more, length=length, **scheduled)


def _table(stages: Sequence[Sequence[Segment]]) -> dict[str, np.ndarray]:
    """Words of the sequencer: the first segment, the end, then each stage, from a multiple of its
    number of segments on.
    """
    at = [0]
    size = 2
    for stage in stages[1:]:
        at.append(-(-size // len(stage)) * len(stage))
        size = at[-1] + len(stage)
    table = {name: np.zeros(size, np.int64) for name in ("first", "length", "next")}
    first = 0
    for stage, here, following in zip(stages, at, [*at[1:], 1], strict=True):
        for k, one in enumerate(stage):
            for name, word in (("first", first), ("length", one.length), ("next", following)):
                table[name][here + k] = word
            first += one.length
    return table


def _words(s: Schedule, one: Segment) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The contexts of a segment, of PEs and of switches: those of static PEs, with what they leave
    free, and what they decide.
    """
    image = static_image(s, one.task, np.zeros(len(one.task.op), np.uint64))
    busy = image.context["write"] != WRITE_NONE
    free = np.zeros(busy.shape, np.int64)
    for k, latency in enumerate(s.overlay.ends):
        ends = np.zeros_like(busy)
        ends[:, : max(0, s.length - latency + 1)] = busy[:, latency - 1 :]
        free |= (~ends).astype(np.int64) << k
    decide = np.zeros(busy.shape, np.uint8)
    for k, (node, pe, cycle) in enumerate(one.decides):
        decide[pe, cycle] = k + 1
        image.context["send"][pe, cycle] = s.address[np.searchsorted(one.nodes, node)]
    held = np.zeros(busy.shape, np.uint8)
    link, cycle, _ = s.crossings().T
    np.bitwise_or.at(held, (link // 4, cycle), (1 << link % 4).astype(np.uint8))
    return image.context | {"decide": decide, "free": free}, image.switch | {"held": held}
