"""Stimulus of a run of the RTL: a point, and its streams as words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .beat import STOP_BITS, Payload, beat_words
from .trace import Run, SourceBeats
from .unitgraph import UnitGraph


@dataclass
class Point:
    """One run of a design."""

    # graph, tensors: with this point's run-time parameters; input values by tensor name
    graph: UnitGraph
    tensors: Mapping[str, np.ndarray] | None = None
    # sources, sinks: beats per source unit; release cycles per sink unit (the rest: 0)
    sources: Mapping[int, SourceBeats] = field(default_factory=dict[int, SourceBeats])
    sinks: Mapping[int, Sequence[int] | np.ndarray] = field(
        default_factory=dict[int, "Sequence[int] | np.ndarray"]
    )
    # cycles at which earlier attempts are cut off by a reset, before the run that counts
    resets_at: Sequence[int] = ()
    # keep in the traces what happens after `done` (streams with a second input); the run then lasts
    # until all of it has passed
    whole: bool = False
    # number of the mutant that is on, in a netlist of :mod:`penstock.tb.mutants` (0: none)
    mutant: int = 0
    # by cycle, repeated: whether the memory takes no request in it (RTL alone; the model's never
    # waits)
    memory_waits: Sequence[bool] = ()
    # the model's run of it, with its trace: the RTL's must be equal
    expected: Run | None = None


def whole_beats(payload: Payload, stream: SourceBeats) -> np.ndarray:
    """uint32 [beats, words]: payload, stop and data as docs/timing.md section 6 lays them out."""
    n = beat_words(payload)
    tail = stream.stop.astype(np.uint64) | stream.data.astype(np.uint64) << np.uint64(STOP_BITS)
    out = np.zeros((len(stream.stop), n + 1), np.uint32)
    width = min(n, stream.payload.shape[1])
    out[:, :width] = stream.payload[:, :width] * stream.data[:, None].astype(np.uint32)
    word, shift = divmod(payload.bits, 32)
    if shift:
        out[:, word] &= np.uint32(2**shift - 1)
    else:
        out[:, word] = 0
    placed = tail << np.uint64(shift)
    out[:, word] |= (placed & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    out[:, word + 1] = (placed >> np.uint64(32)).astype(np.uint32)
    return np.ascontiguousarray(out[:, :n])
