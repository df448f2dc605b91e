"""The off-chip memory's timing (docs/timing.md section 5.1), compiled: one for the fast model and
for the RTL test bench.

The functions work on the state of a :class:`.dram_state.Dram`, so that the model's hot loop calls
them without crossing into Python, and a test bench in C++ calls :func:`step` once a cycle
(:mod:`.dram_step`). A line is an opaque integer here; whoever asks keeps its data: memory is read
and written in the cycle in which the line reaches the model.
"""

from __future__ import annotations

from .compiling import jit
from .dram_state import (
    ANSWERED,
    ASKED,
    AT_ADDRESS,
    AT_DELIVERED,
    AT_LINE,
    AT_TAKEN,
    AT_WRITE,
    CHANNEL_WORDS,
    CHANNELS,
    DELAY,
    FREE,
    HBM2,
    HEADER,
    INTERVAL,
    LAST,
    LINE,
    NEWEST,
    NEXT,
    NODE_WORDS,
    OFFSET,
    OLDEST,
    PIPE,
    READY,
    ROW_WORDS,
    ROWS,
    TRACE,
    TRACE_HEADER,
)
from .dram_words import EARLIEST, FULL, IN_FLIGHT, KIND, MISFIT, NEVER, TAKEN
from .hbm2_state import ADVANCE, AT, ENTER
from .records import call_words


@jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def accept_recorded(state, h, line, index, address, write):
    """Accept a line of a `trace` when the recorded one was, in `h` at the earliest; a chunk's lines
    together. Returns the cycle of its delivery, or MISFIT.
    """
    if state[ASKED] == state[ROWS]:
        return MISFIT
    at = TRACE_HEADER + ROW_WORDS * state[ASKED]
    taken = state[at + AT_TAKEN]
    together = taken == state[TAKEN] if index else taken > state[TAKEN]
    if not together or taken < h:
        return MISFIT
    if state[at + AT_ADDRESS] != address or state[at + AT_WRITE] != write:
        return MISFIT
    state[TAKEN] = taken
    state[at + AT_LINE] = line
    state[ASKED] += 1
    state[IN_FLIGHT] += 1
    return state[at + AT_DELIVERED]


@jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def deliver_recorded(state, d, out):
    """:func:`deliver` of a `trace`."""
    n = 0
    order = TRACE_HEADER + ROW_WORDS * state[ROWS]
    state[EARLIEST] = NEVER
    while state[ANSWERED] < state[ROWS]:
        at = TRACE_HEADER + ROW_WORDS * state[order + state[ANSWERED]]
        if state[at + AT_LINE] < 0:  # it has not been asked for: whoever asks is told when
            break
        if state[at + AT_DELIVERED] > d:
            state[EARLIEST] = state[at + AT_DELIVERED]
            break
        out[n] = state[at + AT_LINE]
        n += 1
        state[ANSWERED] += 1
    state[IN_FLIGHT] -= n
    return n


@jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def accept(state, h, line, index, count, address, write):
    """Line `index` of the `count` that reach the memory in cycle `h`; returns the cycle in which to
    look at it again (but for `hbm2` that of its delivery), FULL or MISFIT.
    """
    if state[KIND] == TRACE:
        return accept_recorded(state, h, line, index, address, write)
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
    following = state[node + NEXT]
    state[FREE] = following if following else node + NODE_WORDS
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

    ``state[EARLIEST]`` is then the next cycle in which a line that waits now may be ready (NEVER:
    none waits).
    """
    if state[KIND] == HBM2:
        return call_words(state[ADVANCE], (state[AT], d, out.ctypes.data))
    if state[KIND] == TRACE:
        return deliver_recorded(state, d, out)
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

    Returns their number, FULL or MISFIT.
    """
    for i in range(n):
        at = accept(state, h, lines[i], i, n, addresses[i], writes[i])
        if at < 0:
            return at
    if state[IN_FLIGHT] == 0:
        return 0
    return deliver(state, h + 1, out)
