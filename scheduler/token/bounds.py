"""Lower bounds on the cycles of a placed graph (docs/overlay.md section
9), reported beside every result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numba

from .edges import Task, tails
from .schedule import route


@dataclass(frozen=True)
class Bounds:
    """Cycles that no run of the placed graph can beat, by cause."""

    depth: int
    work: int
    link: int

    @property
    def best(self) -> int:
        return max(self.depth, self.work, self.link)


def bounds(task: Task, pe: np.ndarray) -> Bounds:
    """The bounds of a placement."""
    overlay = task.overlay
    source = task.source
    e = task.e
    latency = task.latency
    pes = overlay.pes
    dynamic = overlay.pe == "dynamic"
    if not (~source).any():
        return Bounds(0, 0, 0)
    forwards = overlay.forwards
    tokens = dynamic and not forwards
    per_level = np.where(source, 1, latency + 1 if tokens else latency).astype(np.int32)
    # a source is selected, or fires, in a cycle of its own; its token takes another
    begin = 1 + forwards
    depth = int(tails(task.a, task.b, per_level).max() + begin)

    def count(where: np.ndarray) -> np.ndarray:
        return np.bincount(where, minlength=pes)

    away = pe[e.src] != pe[e.dst]
    key = np.stack(
        [
            pe[e.src],
            pe[e.dst],
            e.src,
            np.arange(len(e.src)) if tokens else np.zeros(len(e.src), np.int64),
        ],
        1,
    )
    pairs = np.unique(key[away], axis=0)
    if dynamic:
        # what is forwarded is not generated
        made = count(np.unique(key[away] if forwards else key, axis=0)[:, 0])
        work = 2 + int(
            max(
                (-(-count(pe[e.dst]) // overlay.banks)).max(initial=0),
                made.max(initial=0),
                count(pe[~source]).max(),
            )
        )
    elif overlay.pe == "hybrid":
        work = int(count(pe[~source]).max())
    else:
        issues = count(pe[~source | (np.diff(e.start) > 0)])
        writes = count(pe[~source]) + count(pairs[:, 1])
        sent = np.unique(pairs[:, [0, 2]], axis=0)
        # the last thing that a PE does may be a source's issue or a send that others wait for
        work = int(max(issues.max(), writes.max(), count(sent[:, 0]).max(initial=0)))
    link = 0
    if len(pairs) and overlay.network == "mesh":
        order = np.lexsort((pairs[:, 1], pairs[:, 2]))
        link = int(
            _loads(
                overlay.cols, pes, pairs[order, 0], pairs[order, 1], pairs[order, 2], not dynamic
            ).max()
        )
    return Bounds(depth, work, link)


@numba.njit(cache=True)
def _loads(cols, pes, frm, to, value, shared):
    """Values over each link (switch * 4 + output) with XY routes; ``shared``: those of one value
    count once.
    """
    load = np.zeros(4 * pes, np.int64)
    last = np.full(4 * pes, -1, np.int64)
    way = np.empty(64, np.int64)
    for k in range(len(frm)):
        for x in range(route(cols, frm[k], to[k], way)):
            if not shared or last[way[x]] != value[k]:
                load[way[x]] += 1
                last[way[x]] = value[k]
    return load
