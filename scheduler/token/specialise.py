"""Operator-specialised PEs: which kind each PE is, and a placement moved to PEs that can do each
node.
"""

from __future__ import annotations

import numpy as np
import numba

from ...overlay.core.config import SPECIALISED, Overlay
from ...overlay.core.ops import OP_CLASS, Op

KINDS = tuple(dict.fromkeys(SPECIALISED.values()))
_KIND_OF_OP = np.array(
    [KINDS.index(SPECIALISED[OP_CLASS[op]]) if op in OP_CLASS else -1 for op in Op], np.int8
)


def kinds_of_pes(overlay: Overlay, op: np.ndarray) -> np.ndarray:
    """uint8 [PEs]: bit k is set where a PE does kind k of :data:`KINDS`.

    PEs are shared out by the numbers of operations, spread over the mesh; with fewer PEs than kinds
    in use, the rarest kinds share the last PE.
    """
    pes = overlay.pes
    counts = np.bincount(_KIND_OF_OP[op][_KIND_OF_OP[op] >= 0], minlength=len(KINDS))
    used = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k]]
    out = np.zeros(pes, np.uint8)
    if not used:
        return out
    groups = [[k] for k in used[: pes - 1]] + ([used[pes - 1 :]] if len(used) >= pes else [])
    load = np.array([sum(counts[k] for k in g) for g in groups], float)
    share = np.ones(len(groups), int)
    while share.sum() < pes:
        share[np.argmax(load / share)] += 1
    # spread: the group that lags most behind its share comes next
    given = np.zeros(len(groups), int)
    for p in range(pes):
        g = int(np.argmax((p + 1) * share / pes - given - 1e9 * (given >= share)))
        given[g] += 1
        for k in groups[g]:
            out[p] |= 1 << k
    return out


def kinds_of_nodes(op: np.ndarray) -> np.ndarray:
    """int32 [nodes]: bit k is set where PEs of kind k of :data:`KINDS` do the node; of sources all
    are.
    """
    kind = _KIND_OF_OP[op].astype(np.int32)
    return np.where(kind < 0, (1 << len(KINDS)) - 1, 1 << np.maximum(kind, 0)).astype(np.int32)


def specialise(overlay: Overlay, op: np.ndarray, pe: np.ndarray) -> np.ndarray:
    """A placement in which every operation is on a PE that does it: each moves to the nearest such
    PE with room (sources stay).
    """
    kinds = kinds_of_pes(overlay, op)
    kind = _KIND_OF_OP[op]
    room = np.zeros(overlay.pes, np.int64)
    for k in range(len(KINDS)):
        able = (kinds >> k) & 1 == 1
        if able.any():
            room[able] += -(-int(np.count_nonzero(kind == k)) * 11 // (10 * int(able.sum()))) + 1
    return _move(overlay.cols, kinds, kind, pe.astype(np.int32), room)


@numba.njit(cache=True)
def _move(cols, kinds, kind, pe, room):
    out = pe.copy()
    room = room.copy()
    for n in range(len(pe)):
        if kind[n] < 0:
            continue
        best = -1
        cost = 1 << 30
        for p in range(len(kinds)):
            if kinds[p] >> kind[n] & 1:
                far = (
                    abs(p % cols - pe[n] % cols)
                    + abs(p // cols - pe[n] // cols)
                    + (0 if room[p] > 0 else 1 << 20)
                )
                if far < cost:
                    best = p
                    cost = far
        out[n] = best
        room[best] -= 1
    return out
