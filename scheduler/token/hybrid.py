"""Images of hybrid PEs: which nodes are static and in which segment, their schedules, and both
halves in one image (docs/overlay.md section 7.1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numba

from ...overlay.core.config import WRITE_NONE, memories
from ...overlay.core.dataflow import DataflowGraph
from ...overlay.core.image import HybridImage
from ...overlay.core.ops import Op
from ...overlay.model import simulate
from .check import check
from .copies import Placed
from .dynamic import dynamic_image
from .edges import Task, edges, tails
from .schedule import Schedule, ranks
from .search import scheduled
from .static import static_image

TRIES = 8
"""Numbers of barriers that are tried at most."""
PARTS = (2, 8, 1 << 20)
"""Shares of the regions that stay dynamic, and one region."""


def with_fewer_regions(graph: DataflowGraph) -> list[DataflowGraph]:
    """The graph, and forms that execute both sides of some or all regions and select. The largest
    regions stay, or the one whose longest path is shortest, or none.
    """
    outermost = graph.regions.outermost
    conditions, region, sizes = np.unique(
        outermost[outermost >= 0], return_inverse=True, return_counts=True
    )
    through = graph.level + tails(graph.a, graph.b, np.ones(len(graph), np.int32))
    longest = np.zeros(len(conditions), int)
    np.maximum.at(longest, region, through[outermost >= 0])
    largest = conditions[np.argsort(-sizes, kind="stable")].tolist()
    counts = sorted({max(1, len(largest) // part) for part in PARTS} - {len(largest)})
    kept = [largest[:count] for count in counts]
    apart = [int(conditions[np.argmin(longest)])]
    kept += [apart] if kept and apart not in kept else []
    return [graph, *map(graph.selected, kept), graph.selected()]


class _Part(NamedTuple):
    """A segment: its nodes in the graph, operands from elsewhere among them; the task of them; its
    schedule.
    """

    nodes: np.ndarray
    task: Task
    schedule: Schedule


def hybrid_image(
    graph: DataflowGraph, task: Task, value: np.ndarray, pe: np.ndarray, plan: Schedule | None
) -> HybridImage:
    """The image with the fewest cycles among several numbers of barriers.

    Parameters
    ----------
    graph, task
        What is placed.
    value
        Bits of the sources' values.
    pe
        PE of each node.
    plan
        A schedule of the whole graph, which is taken where no node is dynamic.
    """
    conditional = np.zeros(len(pe), bool)
    if graph.conditional:
        conditional = (task.op >= Op.THEN) | (graph.regions.of > 0)
    level = _levels(task.a, task.b, conditional)
    tries = np.unique(np.linspace(0, level.max(initial=0), TRIES).astype(int))
    found = [
        _fitting(task, value, pe, conditional | (level > barriers), level, plan)
        for barriers in tries.tolist()
    ]
    return found[0] if len(found) == 1 else min(found, key=lambda image: simulate(image).cycles)


@numba.njit(cache=True)
def _levels(a, b, conditional):
    """Barriers before each node, if all others are static: one for each conditional node that
    another one waits for.
    """
    level = np.zeros(len(a), np.int64)
    for n in range(len(a)):
        for u in (a[n], b[n]):
            if u >= 0:
                level[n] = max(level[n], level[u] + (conditional[u] and not conditional[n]))
    return level


def _fitting(
    task: Task,
    value: np.ndarray,
    pe: np.ndarray,
    dynamic: np.ndarray,
    level: np.ndarray,
    plan: Schedule | None,
) -> HybridImage:
    """An image; where the context memory is too short, what would issue last is dynamic."""
    fixed = dict(task.overlay.memories)
    room = min((fixed[name] for name in ("context", "switch") if name in fixed), default=None)
    while True:
        parts = _parts(task, pe, dynamic, level, plan)
        over = sum(_length(part) for part in parts) - room if room is not None else 0
        if over <= 0:
            return _assembled(task, value, pe, dynamic, parts)
        nodes, of, s = parts[-1]
        late = ~of.source & (s.issue + of.latency > s.length - over)
        dynamic = dynamic.copy()
        dynamic[nodes[late]] = True


def _parts(
    task: Task, pe: np.ndarray, dynamic: np.ndarray, level: np.ndarray, plan: Schedule | None
) -> list[_Part]:
    """The segments."""
    if task.source.all():
        return []
    if not dynamic.any():
        return [_Part(np.arange(len(pe)), task, plan or scheduled(task, pe))]
    static = ~dynamic & ~task.source
    parts = []
    for k in range(1 + int(level[static].max(initial=-1))):
        nodes, part = _segment(task, static & (level == k))
        parts.append(_Part(nodes, part, scheduled(part, pe[nodes])))
    return parts


def _segment(task: Task, mine: np.ndarray) -> tuple[np.ndarray, Task]:
    """The nodes of ``mine`` and their operands, and the task of them: operands from elsewhere are
    sources.
    """
    operands = np.concatenate([task.a[mine], task.b[mine]])
    inside = mine.copy()
    inside[operands[operands >= 0]] = True
    inside[0] |= not inside.any()  # of a segment that only waits
    nodes = np.flatnonzero(inside)
    new = np.full(len(mine) + 1, -1)
    new[nodes] = np.arange(len(nodes))
    source = ~mine[nodes]
    op, latency = (np.where(source, s, of[nodes]) for s, of in ((0, task.op), (1, task.latency)))
    a, b = (np.where(source, -1, new[of[nodes]]) for of in (task.a, task.b))
    latency = latency.astype(np.int32)
    return nodes, Task(task.overlay, op, source, a, b, edges(op, a, b), latency)


def _length(part: _Part) -> int:
    """Contexts of a segment, at least one: behind its last stands the barrier."""
    return max(1, part.schedule.length)


def _assembled(
    task: Task, value: np.ndarray, pe: np.ndarray, dynamic: np.ndarray, parts: list[_Part]
) -> HybridImage:
    """The image of the segments and of the dynamic nodes."""
    overlay = task.overlay
    pes = overlay.pes
    a, b = (np.where(dynamic, of, -1) for of in (task.a, task.b))
    fed = replace(task, a=a, b=b, e=edges(task.op, a, b))
    none = np.zeros(0, np.int64)
    half = dynamic_image(Placed(fed, value, pe, np.arange(len(pe)), none, none))

    copies = [(p.nodes[p.schedule.send_node[p.schedule.copy_send]], p.schedule) for p in parts]
    copy_node = np.concatenate([none, *(node for node, _ in copies)]).astype(np.int32)
    copy_pe = np.concatenate([none, *(s.copy_pe for _, s in copies)])
    own = np.bincount(pe, minlength=pes)
    copy_address = own[copy_pe] + ranks(copy_pe, pes)
    values = own + np.bincount(copy_pe, minlength=pes)
    base = np.concatenate([[0], np.cumsum(values)]).astype(np.int64)
    at = base[pe] + half.node_address
    op = np.zeros(base[-1], np.uint8)
    op[at] = task.op
    bits = np.zeros(base[-1], np.uint64)
    bits[at] = np.where(task.source, value, np.uint64(0))

    words = []
    made = 0
    for part in parts:
        nodes, of, s = part
        check(s, of)
        address = copy_address[made : made + len(s.copy_pe)]
        made += len(address)
        s = replace(s, length=_length(part), values=values, copy_address=address)
        words.append(_words(replace(s, address=half.node_address[nodes]), of))
    length = sum(map(_length, parts))
    scheduled = {}
    sizes = replace(
        half.sizes,
        nodes=int(values.max(initial=1)),
        contexts=max(1, length),
        matched=1 + int(half.node_address[dynamic].max(initial=0)),
    )
    for k, name in enumerate(("context", "switch")):
        fields = dict(memories(overlay, sizes)[name].layout.fields)
        nothing = np.zeros((pes, 0), np.int32)
        columns = {n: np.concatenate([nothing, *(w[k][n] for w in words)], axis=1) for n in fields}
        scheduled[name] = columns
    more = {"base": base, "op": op, "value": bits, "sizes": sizes}
    more |= {"copy_node": copy_node, "copy_pe": copy_pe, "copy_address": copy_address}
    return HybridImage(**vars(half) | more, length=length, **scheduled)


def _words(s: Schedule, task: Task) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The contexts of a segment, of PEs and of switches: those of static PEs, with what they leave
    free.
    """
    image = static_image(s, task, np.zeros(len(task.op), np.uint64))
    busy = image.context["write"] != WRITE_NONE
    free = np.zeros(busy.shape, np.int64)
    for k, latency in enumerate(s.overlay.ends):
        ends = np.zeros_like(busy)
        ends[:, : max(0, s.length - latency + 1)] = busy[:, latency - 1 :]
        free |= (~ends).astype(np.int64) << k
    last = np.zeros(busy.shape, np.uint8)
    last[:, -1] = 1
    held = np.zeros(busy.shape, np.uint8)
    link, cycle, _ = s.crossings().T
    np.bitwise_or.at(held, (link // 4, cycle), (1 << link % 4).astype(np.uint8))
    return image.context | {"last": last, "free": free}, image.switch | {"held": held}
