"""Everything a run knows, in arrays: the network, the tokens in flight, the units' registers."""

from typing import NamedTuple

import numpy as np
from numba import njit

IDLE = 1 << 62
"""A time that never comes."""


class Net(NamedTuple):
    """State of one run. u: units, c: channels, s: slots of all channels.

    A token is a stop level and two words: a tile (see `tile`), a pair of tiles, or a buffer (first entry, length).
    """

    g: np.ndarray  # scalars, columns G_*
    # units
    kind: np.ndarray  # [u] code of the kind, KIND_*
    par: np.ndarray  # [u, PARAMS] parameters, columns of the kind's own module
    reg: np.ndarray  # [u, REGS] registers, columns of the kind's own module; PHASE is common
    clock: np.ndarray  # [u] local time at which the unit last stopped
    why: np.ndarray  # [u] what it waits for: OWN, STARVED, BLOCKED
    on: np.ndarray  # [u] channel it waits on
    spent: np.ndarray  # [u, 3] cycles by reason
    finish: np.ndarray  # [u] final local time, -1 while it runs
    in_at: np.ndarray  # [u + 1] first entry in ins
    ins: np.ndarray  # channel ids by unit and input port
    out_at: np.ndarray
    outs: np.ndarray
    aux: np.ndarray  # lists that parameters point to
    # calendar of wake-ups
    due: np.ndarray  # [u] cycle of the unit's wake-up, IDLE for none
    after: np.ndarray  # [u] next unit of the same bucket
    bucket: np.ndarray  # first unit of each bucket; the last bucket is for times beyond the others
    # channels
    src: np.ndarray  # [c] unit ids
    dst: np.ndarray
    base: np.ndarray  # [c] first slot
    depth: np.ndarray  # [c]
    head: np.ndarray  # [c] slot of the first token, from base
    count: np.ndarray  # [c] tokens held
    closed: np.ndarray  # [c] cycle in which the sender ended, -1 while it runs
    wants: np.ndarray  # [c] 1: receiver waits for a token, 2: sender waits for room
    # slots
    visible: np.ndarray  # [s] cycle from which the token can be seen
    free: np.ndarray  # [s] cycle from which the slot can be filled again
    sent: np.ndarray  # [s] cycle in which the token entered
    stop: np.ndarray  # [s]
    word: np.ndarray  # [s]
    word2: np.ndarray  # [s]
    # HBM node
    lines_left: np.ndarray  # [port] lines not yet taken
    port_par: np.ndarray  # [port] lines a chunk
    port_ready: np.ndarray  # [port] latest response of the transfer under way
    port_unit: np.ndarray  # [port]
    active: np.ndarray  # ports with a transfer under way, ascending
    served: np.ndarray  # [HBM channel] last service start
    # buffers and the log
    store: np.ndarray  # [entries, 4] word, word2, stop of a buffered token, and the next entry of its buffer (-1: last)
    log: np.ndarray  # [entries, 6] channel, sent, taken, stop, word, word2 of tokens taken


(G_NOW, G_NEAR, G_FAR_MIN, G_FAULT, G_FAULT_UNIT, G_TOKENS, G_READ, G_WRITTEN, G_ACTIVE, G_OFFSET, G_FIRST,
 G_STORED, G_LOGGED, G_SLACK_STORE, G_SLACK_LOG, G_ELEMENT, G_ONCHIP, G_INTERVAL, G_LATENCY, G_LOGGING, SCALARS) = range(21)

OWN, STARVED, BLOCKED = range(3)
PARAMS, REGS = 12, 12
PHASE = 0

# faults that end a run
(OK, GROW, STOPS_DIFFER, ENDS_EARLY, SHAPES_DIFFER, PARTIAL_CHUNK) = range(6)


def plain(function):
    """The Python function behind a compiled one (itself where compilation is switched off)."""
    return getattr(function, "py_func", function)


@njit
def fail(net, u, fault):
    net.g[G_FAULT] = fault
    net.g[G_FAULT_UNIT] = u


# A tile in one word: rows, columns, valid rows (20 bits each), and whether it lies in a memory unit.

@njit
def tile(rows, cols, valid, in_memory):
    return (rows << 41) | (cols << 21) | (valid << 1) | in_memory


@njit
def tile_rows(word):
    return word >> 41


@njit
def tile_cols(word):
    return (word >> 21) & 0xFFFFF


@njit
def tile_valid(word):
    return (word >> 1) & 0xFFFFF


@njit
def in_memory(word):
    return word & 1


@njit
def tile_bytes(net, word):
    return tile_rows(word) * tile_cols(word) * net.g[G_ELEMENT]


@njit
def ceil_div(a, b):
    return (a + b - 1) // b
