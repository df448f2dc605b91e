"""One schedule on many tiles of a larger mesh, an instance of its graph on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...overlay.core.config import Overlay
from .schedule import Schedule


def repeated(s: Schedule, overlay: Overlay, where: Sequence[np.ndarray]) -> Schedule:
    """The schedule of all instances; ``where``: for each, the PE of ``overlay`` that stands for
    each of the schedule's own.
    """
    times = len(where)

    def moved(pe: np.ndarray) -> np.ndarray:
        return np.concatenate([at[pe] for at in where]).astype(np.int32)

    def offset(index: np.ndarray, by: int) -> np.ndarray:
        parts = [np.where(index < 0, -1, index + k * by) for k in range(times)]
        return np.concatenate(parts).astype(np.int32)

    values = np.zeros(overlay.pes, np.int32)
    for at in where:
        values[at] = s.values
    return replace(
        s,
        overlay=overlay,
        pe=moved(s.pe),
        address=np.tile(s.address, times),
        issue=np.tile(s.issue, times),
        send_node=offset(s.send_node, len(s.pe)),
        send_cycle=np.tile(s.send_cycle, times),
        copy_send=offset(s.copy_send, len(s.send_node)),
        copy_pe=moved(s.copy_pe),
        copy_cycle=np.tile(s.copy_cycle, times),
        copy_address=np.tile(s.copy_address, times),
        edge_copy=offset(s.edge_copy, len(s.copy_send)),
        values=values,
    )
