"""The off-chip memory, empty: its state as one flat int64 array, made without Numba.

What happens in it is compiled (:mod:`.dram`).
"""

from __future__ import annotations

import numpy as np

from ..machine.config import Dram as DramConfig
from ..machine.config import Machine
from ..machine.deliveries import Deliveries
from ..machine.errors import ConfigError, RunError
from ..machine.faults import Fault
from ..machine.limits import STORE_TILES
from ..machine.unitgraph import UnitGraph
from .dram_words import EARLIEST, IN_FLIGHT, KIND, NEVER, SHARED, TAKEN

# A header, then per channel (last service start, oldest node, newest node), then nodes (ready,
# line, next; 0 before the first use, when the one behind it is the next). `hbm2` shares the first
# words.
CHANNELS, INTERVAL, DELAY, OFFSET, FREE, HEADER = range(SHARED, SHARED + 6)
LAST, OLDEST, NEWEST, CHANNEL_WORDS = range(4)
READY, LINE, NEXT, NODE_WORDS = range(4)
IDEAL = 0
PIPE = 1
HBM2 = 2
TRACE = 3
# Of `trace` behind its header: rows (taken, delivered, address, write, the line that was accepted;
# -1: none), then the rows in the order of their deliveries.
ROWS, ASKED, ANSWERED, TRACE_HEADER = range(SHARED, SHARED + 4)
AT_TAKEN, AT_DELIVERED, AT_ADDRESS, AT_WRITE, AT_LINE, ROW_WORDS = range(6)


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
        if config.kind == "trace":
            self.state = _recorded(config)
            return
        # Nodes are written when they are first used, and take no memory before.
        self.state = s = np.zeros(first + lines * NODE_WORDS, np.int64)
        s[:first] = -1
        delay = config.latency + (config.start_up if config.kind == "pipe" else 0)
        s[KIND] = PIPE if config.kind == "pipe" else IDEAL
        s[IN_FLIGHT] = 0
        s[TAKEN] = 0
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
        """Counters of each channel; None where the kind counts nothing."""
        if self.state[KIND] != HBM2:
            return None
        from .hbm2_state import counters

        return counters(self.state)

    def misfit(self, where: str, cycles: int | None = None) -> RunError | None:
        """Difference of a run from the recorded one; None where there is none.

        `where`: the run; `cycles`: of one that has ended.
        """
        s = self.state
        if s[KIND] != TRACE or (cycles is not None and s[ASKED] == s[ROWS]):
            return None
        row = s[TRACE_HEADER + ROW_WORDS * s[ASKED] :][:ROW_WORDS]
        line = (
            f"line {s[ASKED] + 1} of {s[ROWS]}, a {'write' if row[AT_WRITE] else 'read'} of "
            f"{row[AT_ADDRESS]:#x} taken in cycle {row[AT_TAKEN]}"
        )
        if s[ASKED] == s[ROWS]:
            does = f"asks for more than {s[ROWS]} lines"
        elif cycles is None:
            does = f"does not ask next for {line}"
        else:
            does = f"ends after {cycles} cycles without {line}"
        return RunError(
            f"{Fault.RECORDED.what}: it {does}",
            where,
            remedy="record deliveries of this program, its inputs and its configuration",
        )

    @property
    def commands(self) -> np.ndarray | None:
        """Recorded commands by tick; None for a kind without commands."""
        if self.state[KIND] != HBM2:
            return None
        from .hbm2_state import commands

        return commands(self.state)


def _recorded(config: DramConfig) -> np.ndarray:
    """The state of a `trace` before its first line."""
    found = Deliveries.read(config.deliveries)
    if found.lanes > config.channels:
        raise ConfigError(
            f"{found.lanes} lines are delivered in a cycle, and dram.channels is {config.channels}",
            config.deliveries,
        )
    n = len(found.rows)
    s = np.full(TRACE_HEADER + n * (ROW_WORDS + 1), -1, np.int64)
    s[KIND] = TRACE
    s[IN_FLIGHT] = s[TAKEN] = s[ASKED] = s[ANSWERED] = 0
    s[EARLIEST] = NEVER
    s[ROWS] = n
    s[TRACE_HEADER : TRACE_HEADER + n * ROW_WORDS].reshape(n, ROW_WORDS)[:, :AT_LINE] = found.rows
    s[TRACE_HEADER + n * ROW_WORDS :] = np.argsort(found.delivered, kind="stable")
    return s


def ranges(graph: UnitGraph) -> np.ndarray:
    """Address range of every port, int64 [ports, 2]: first byte, and first byte after it."""
    r = []
    for u in graph.ports:
        p = graph.units[u].kind
        r.append((p.base, p.base + p.tensor_rows * p.pitch))
    return np.array(r, np.int64).reshape(-1, 2)


def lines_bound(graph: UnitGraph, machine: Machine) -> int:
    """No run of `graph` has more lines in flight than this, as long as no store writes its tensor
    twice.
    """
    total = 64
    for u in graph.ports:
        p = graph.units[u].kind
        if graph.units[u].kind.offchip == "write":
            pieces = -(-p.tensor_cols // p.cols) if p.cols else 1
            again = STORE_TILES + 1 if graph.units[u].kind.name == "random_store" else 1
            total += again * p.tensor_rows * (p.pitch // machine.dram.line_bytes + 2 * pieces)
        else:
            total += machine.load_lines
    return min(total, 1 << 22)
