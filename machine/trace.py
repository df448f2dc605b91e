"""Trace of one run, the same for model and RTL: beats per channel, lines per port, counters,
outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class ChannelTrace:
    """Every beat of one channel, in order."""

    # accept, take: int64 [beats]: cycle in which the beat entered and left the channel (-1: never
    # left)
    accept: np.ndarray
    take: np.ndarray
    # stop, data: uint8 [beats]
    stop: np.ndarray
    data: np.ndarray
    # uint64 [beats]: FNV-1a of the whole beat's bits (docs/timing.md section 6); empty where values
    # were not computed
    digest: np.ndarray


@dataclass(frozen=True)
class Shape:
    """The beats of one channel, Done left out."""

    count: int  # how many there are
    plain: bool  # whether each has data
    # those of a regular stream, outermost first; None where it is not regular
    trips: tuple[int, ...] | None


@dataclass
class PortTrace:
    """Every line of one off-chip port, in request order."""

    # accept, deliver: int64 [lines]: cycle in which the line's chunk was granted, and in which data
    # (or acknowledgement) was delivered
    accept: np.ndarray
    deliver: np.ndarray
    address: np.ndarray  # int64 [lines]: byte address
    # uint64 [lines]: FNV-1a of what is written, 16 words of data (bytes that are not written are 0)
    # and two of byte mask; 0 for what is read, and where values were not computed
    digest: np.ndarray


POST = np.dtype([(name, np.int64) for name in ("cycle", "unit", "page", "change")])
"""A change of the references to a buffer: when, by which unit, the buffer's first page, by how much
(docs/timing.md section 4).
"""


COMMAND = np.dtype(
    [
        *((name, np.int64) for name in ("cycle", "channel", "bank", "row")),
        ("what", "U9"),
        ("first", bool),
    ]
)
"""A command of an `hbm2` memory: the cycle at whose end it is issued, channel, bank of the channel
(of a refresh the first one of the pseudo-channel; a precharge of all is one of each open bank),
row, what it is, and whether it is the first one of a request.
"""


@dataclass
class SourceBeats:
    """The beats of one `source` unit, Done among them."""

    release: np.ndarray  # int64 [beats]: cycle from which beat i is offered
    # stop, data: uint8 [beats]; Done is data 0, stop 15
    stop: np.ndarray
    data: np.ndarray
    # uint32 [beats, words]: payload bits, least significant first (docs/timing.md section 6);
    # ignored where data is 0
    payload: np.ndarray


@dataclass
class SinkBeats:
    """Beats that one `sink` unit took, each with the first cycle of its stay there."""

    take: np.ndarray  # int64 [beats]
    # stop, data: uint8 [beats]
    stop: np.ndarray
    data: np.ndarray
    # int64 [beats, 2 x members]: rows and cols of a tile, page and tiles of a reference
    numbers: np.ndarray
    # float32 [beats, elements]; None where values were not computed
    values: np.ndarray | None = None


def _nothing() -> np.ndarray:
    return np.zeros(0, np.int64)


COUNTERS = {
    "busy": "busy cycles",
    "blocked": "blocked cycles",
    "starved": "starved cycles",
    "peak_pages": "peak pages",
}
"""Counters of a unit in the order of their addresses, by the attribute of a run that has them."""


@dataclass
class Run:
    """The outcome of one run on one backend."""

    backend: str
    # 1 + the first cycle in which every store is done and every sink has its Done visible
    cycles: int
    first_request: int = -1  # cycle in which the first chunk was granted (-1: none)
    # output tensors by name, float32 arrays (None where values were not computed)
    outputs: dict[str, np.ndarray] | None = None
    # channels, ports: traces by channel id and by port index; empty unless asked for
    channels: list[ChannelTrace] = field(default_factory=list)
    ports: list[PortTrace] = field(default_factory=list)
    # :data:`POST` [posts]: what units that are no scratchpad posted, by cycle, then unit; empty
    # unless traces were asked for
    posts: np.ndarray = field(default_factory=lambda: np.zeros(0, POST))
    # busy, blocked, starved: int64 [units]: docs/timing.md section 7
    busy: np.ndarray = field(default_factory=_nothing)
    blocked: np.ndarray = field(default_factory=_nothing)
    starved: np.ndarray = field(default_factory=_nothing)
    # float64 [channels]: mean beats held over the run; empty in `stepsim` timing
    occupancy: np.ndarray = field(default_factory=_nothing)
    # lines_read, lines_written, port_lines: lines that crossed the DRAM interface; int64 [ports]:
    # those of each port
    lines_read: int = 0
    lines_written: int = 0
    port_lines: np.ndarray = field(default_factory=_nothing)
    # scratchpad unit id -> most pages in use at once
    peak_pages: dict[int, int] = field(default_factory=dict)
    # counters of an `hbm2` memory: name -> one number a channel (docs/timing.md section 5.2)
    dram: dict[str, list[int]] | None = None
    # its commands, :data:`COMMAND` [commands]; None unless a timeline was asked for
    commands: np.ndarray | None = None
    events: int = 0  # beats taken + memory lines
    wall_s: float = 0.0
    setup_s: float = 0.0
    sink_beats: dict[int, SinkBeats] = field(default_factory=dict)
    # of each channel, by id; empty where the backend does not tell them
    shapes: list[Shape] = field(default_factory=list)
    # whether its machine has counters: without them the next ones and ``peak_pages`` are empty
    counted: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def counters(self, unit: int) -> dict[str, int]:
        """Counters of a unit as `COUNTERS` names and orders them; 0 pages where it has none."""
        *cycles, pages = COUNTERS
        counted = {COUNTERS[name]: int(getattr(self, name)[unit]) for name in cycles}
        return counted | {COUNTERS[pages]: self.peak_pages.get(unit, 0)}
