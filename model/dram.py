"""The off-chip memory's timing (docs/timing.md section 5.1): one class
for the fast model and for the RTL test bench.

The compiled functions work on one flat int64 array, so that the model's
hot loop calls them without crossing into Python and a test bench in C++
calls :func:`Dram.callback` once a cycle. A line is an opaque integer
here; whoever asks keeps its data: memory is read and written in the
cycle in which the line reaches the model.
"""

from __future__ import annotations

import numpy as np
from numba import cfunc, types
from numba.np.numpy_support import carray

from ..machine.config import Dram as DramConfig
from ..machine.config import Machine
from ..machine.kinds import kind_of
from ..machine.limits import STORE_TILES
from ..machine.unitgraph import UnitGraph
from . import hbm2
from .compiling import jit
from .hbm2_state import (
    ADVANCE,
    AT,
    EARLIEST,
    ENTER,
    FULL,
    IN_FLIGHT,
    KIND,
    NEVER,
    SHARED,
    commands,
    counters,
)
from .records import ENDLESS, call_words

# State: a header, then per channel (last service start, oldest node, newest node), then nodes
# (ready, line, next). `hbm2` shares the first words.
CHANNELS, INTERVAL, DELAY, OFFSET, FREE, HEADER = range(SHARED, SHARED + 6)
LAST, OLDEST, NEWEST, CHANNEL_WORDS = range(4)
READY, LINE, NEXT, NODE_WORDS = range(4)
IDEAL = 0
PIPE = 1
HBM2 = 2


@jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def accept(state, h, line, index, count, address, write):
    """Line `index` of the `count` that reach the memory in cycle `h`;
    returns the cycle in which to look at it again (for `pipe` and
    `ideal` that of its delivery), or FULL.
    """
    if state[KIND] == HBM2:
        return call_words(state[ENTER], (state[AT], line, address, write, h))
    channels = state[CHANNELS]
    channel = 0
    if state[KIND] == PIPE:
        state[OFFSET] += index
        channel = state[OFFSET] & (channels - 1)
        if index == count - 1:
            state[OFFSET] = (state[OFFSET] + count) & (channels - 1)
    at = HEADER + channel * CHANNEL_WORDS
    ready = h + state[DELAY]
    if state[KIND] == PIPE:
        start = max(state[at + LAST] + state[INTERVAL], h + 1)
        state[at + LAST] = start
        ready = start + state[DELAY]
    node = state[FREE]
    if node < 0:
        return FULL
    state[FREE] = state[node + NEXT]
    state[node + READY] = ready
    state[node + LINE] = line
    state[node + NEXT] = -1
    if state[at + OLDEST] < 0:
        state[at + OLDEST] = node
    else:
        state[state[at + NEWEST] + NEXT] = node
    state[at + NEWEST] = node
    state[IN_FLIGHT] += 1
    return ready


@jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def deliver(state, d, out):
    """Write the lines delivered in cycle `d` to `out` and return how many.

    Called for every cycle in which one is ready.

    ``state[EARLIEST]`` is then the next cycle in which a line that
    waits now may be ready (NEVER: none waits).
    """
    if state[KIND] == HBM2:
        return call_words(state[ADVANCE], (state[AT], d, out.ctypes.data))
    n = 0
    earliest = NEVER
    at = HEADER
    for _ in range(state[CHANNELS]):
        node = state[at + OLDEST]
        while node >= 0 and state[node + READY] <= d:
            out[n] = state[node + LINE]
            n += 1
            following = state[node + NEXT]
            state[node + NEXT] = state[FREE]
            state[FREE] = node
            node = following
            if state[KIND] == PIPE:
                break
        state[at + OLDEST] = node
        if node >= 0 and state[node + READY] < earliest:
            earliest = state[node + READY]
        at += CHANNEL_WORDS
    state[EARLIEST] = max(earliest, d + 1)
    state[IN_FLIGHT] -= n
    return n


@jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def step(state, h, lines, n, addresses, writes, out):
    """The `n` lines that reach the memory in `h` go in; those delivered in `h + 1` come out.

    Returns their number, or FULL.
    """
    for i in range(n):
        if accept(state, h, lines[i], i, n, addresses[i], writes[i]) == FULL:
            return FULL
    if state[IN_FLIGHT] == 0:
        return 0
    return deliver(state, h + 1, out)


_SIGNATURE = types.int64(
    types.int64,
    types.int64,
    types.CPointer(types.int64),
    types.CPointer(types.int64),
    types.CPointer(types.uint8),
    types.CPointer(types.int64),
    types.CPointer(types.int64),
)


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
        int64 array for :func:`accept`, :func:`deliver`, :func:`step`; its address is the callback's
        last argument.

    """

    def __init__(self, config: DramConfig, lines: int = 1 << 16, room: int = 0):
        channels = config.channels if config.kind == "pipe" else 1
        first = HEADER + channels * CHANNEL_WORDS
        self.lines = lines
        if config.kind == "hbm2":
            self.state = hbm2.state_of(config.hbm2, config.ratio, lines, HBM2, room)
            return
        self.state = s = np.full(first + lines * NODE_WORDS, -1, np.int64)
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
        nodes = s[first:].reshape(lines, NODE_WORDS)
        nodes[:-1, NEXT] = first + NODE_WORDS * np.arange(1, lines)

    @property
    def counters(self) -> dict[str, list[int]] | None:
        """Of each channel; None where the kind counts nothing."""
        return counters(self.state) if self.state[KIND] == HBM2 else None

    @property
    def commands(self) -> np.ndarray | None:
        """Those that were kept, by tick; None where the kind has none."""
        return commands(self.state) if self.state[KIND] == HBM2 else None

    @staticmethod
    def callback():
        """A C function `int64 (now, n, lines, addresses, writes, out,
        state)`: :func:`step` with plain pointers.

        `addresses` are bytes; `writes` say which lines are written.
        Keep the returned object; its `.address` is the function's.
        `out` needs room for as many lines as can be delivered in a
        cycle (:meth:`penstock.machine.config.Machine.response_lanes`).
        """
        return _callback()


_kept = []


def _callback():
    if not _kept:

        @cfunc(_SIGNATURE, cache=False)
        def dram_step(now, n, lines, addresses, writes, out, state):
            return step(
                carray(state, ENDLESS),
                now,
                carray(lines, ENDLESS),
                n,
                carray(addresses, ENDLESS),
                carray(writes, ENDLESS),
                carray(out, ENDLESS),
            )

        _kept.append(dram_step)
    return _kept[0]


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
