"""The off-chip memory, empty: its state as one flat int64 array, made without Numba.

What happens in it is compiled (:mod:`.dram`).
"""

from __future__ import annotations

import numpy as np

from ..machine.config import Dram as DramConfig
from ..machine.config import Machine
from ..machine.kinds import kind_of
from ..machine.limits import STORE_TILES
from ..machine.unitgraph import UnitGraph
from .dram_words import EARLIEST, IN_FLIGHT, KIND, NEVER, SHARED

# A header, then per channel (last service start, oldest node, newest node), then nodes (ready,
# line, next; 0 before the first use, when the one behind it is the next). `hbm2` shares the first
# words.
CHANNELS, INTERVAL, DELAY, OFFSET, FREE, HEADER = range(SHARED, SHARED + 6)
LAST, OLDEST, NEWEST, CHANNEL_WORDS = range(4)
READY, LINE, NEXT, NODE_WORDS = range(4)
IDEAL = 0
PIPE = 1
HBM2 = 2


class Dram:
    """An off-chip memory of one kind, empty.

    Parameters
    ----------
    config
        The `[machine.dram]` table.
    lines
        Most lines in flight at once.
    room
        Commands of an `hbm2` that are kept, for a timeline.

    Attributes
    ----------
    state
        int64 array for the functions of :mod:`.dram`; its address is the last argument of
        :func:`.dram_step.load`'s function.

    """

    def __init__(self, config: DramConfig, lines: int = 1 << 16, room: int = 0):
        channels = config.channels if config.kind == "pipe" else 1
        first = HEADER + channels * CHANNEL_WORDS
        self.lines = lines
        if config.kind == "hbm2":
            from .hbm2 import state_of

            self.state = state_of(config.hbm2, config.ratio, lines, HBM2, room)
            return
        # Nodes are written when they are first used, and take no memory before.
        self.state = s = np.zeros(first + lines * NODE_WORDS, np.int64)
        s[:first] = -1
        delay = config.latency + (config.start_up if config.kind == "pipe" else 0)
        s[KIND] = PIPE if config.kind == "pipe" else IDEAL
        s[IN_FLIGHT] = 0
        s[EARLIEST] = NEVER
        s[CHANNELS] = channels
        s[INTERVAL] = config.interval
        s[DELAY] = delay
        s[OFFSET] = 0
        s[FREE] = first
        s[HEADER:first:CHANNEL_WORDS] = -config.interval
        s[NEXT - NODE_WORDS] = -1

    @property
    def counters(self) -> dict[str, list[int]] | None:
        """Of each channel; None where the kind counts nothing."""
        if self.state[KIND] != HBM2:
            return None
        from .hbm2_state import counters

        return counters(self.state)

    @property
    def commands(self) -> np.ndarray | None:
        """Those that were kept, by tick; None where the kind has none."""
        if self.state[KIND] != HBM2:
            return None
        from .hbm2_state import commands

        return commands(self.state)


def ranges(graph: UnitGraph) -> np.ndarray:
    """Address range of every port, int64 [ports, 2]: first byte, and first byte after it."""
    r = []
    for u in graph.ports:
        p = graph.units[u].params
        r.append((p["base"], p["base"] + p["tensor_rows"] * p["pitch"]))
    return np.array(r, np.int64).reshape(-1, 2)


def lines_bound(graph: UnitGraph, machine: Machine) -> int:
    """No run of `graph` has more lines in flight than this, as long as
    no store writes its tensor twice.
    """
    total = 64
    for u in graph.ports:
        p = graph.units[u].params
        if kind_of(graph.units[u].kind).offchip == "write":
            pieces = -(-p["tensor_cols"] // p["cols"]) if p["cols"] else 1
            again = STORE_TILES + 1 if graph.units[u].kind == "random_store" else 1
            total += again * p["tensor_rows"] * (p["pitch"] // machine.dram.line_bytes + 2 * pieces)
        else:
            total += machine.load_lines
    return min(total, 1 << 22)
