"""Everything a run knows, in arrays: the network, the tokens in flight, the units' registers."""

from typing import NamedTuple

import numpy as np

from ..compiling import jit

IDLE = 1 << 62
"""A time that never comes."""


class Net(NamedTuple):
    """State of one run: rows are units, channels, slots (of all channels) and off-chip ports;
    columns are named below.

    A token is a stop level and two words: a tile (see `tile`), a scalar, a pair of these, a
    selector (128 bits, target 0 the lowest of the first word), or a buffer (first entry, length).
    """

    g: np.ndarray  # scalars, G_*
    unit: np.ndarray  # [units + 1, U_*]
    par: np.ndarray  # [units, PARAMS] parameters, columns named in the kind's module
    reg: np.ndarray  # [units, REGS] registers, columns named in the kind's module; PHASE is common
    spent: np.ndarray  # [units, 3] cycles by OWN, STARVED, BLOCKED
    ins: np.ndarray  # channels by unit and input port
    outs: np.ndarray  # channels by unit and output port
    aux: np.ndarray  # lists that parameters point to
    bucket: np.ndarray  # first unit due in each bucket of the calendar
    chan: np.ndarray  # [channels, C_*]
    slot: np.ndarray  # [slots, S_*]
    port: np.ndarray  # [ports, P_*]
    active: np.ndarray  # ports with a transfer under way, ascending
    served: np.ndarray  # [HBM channels] last service start
    # [entries, 4] word, word2, stop of a buffered token, and the next entry of its buffer (-1:
    # last)
    store: np.ndarray
    log: np.ndarray  # [entries, 6] channel, sent, taken, stop, word, word2 of tokens taken


# units: kind's code; local time at its last stop, what it waits for and on which channel; final
# local time (-1: runs); first entries in ins and outs (they end where the next unit's begin);
# calendar: cycle due, next unit of the same bucket
U_KIND, U_CLOCK, U_WHY, U_ON, U_FINISH, U_IN_AT, U_OUT_AT, U_DUE, U_AFTER, UNIT_COLUMNS = range(10)
# channels: units; first slot, slots; slot of the first token (from the first slot), tokens held;
# cycle in which the sender
# ended (-1: runs); who waits (1: receiver, for a token; 2: sender, for room)
C_SRC, C_DST, C_BASE, C_DEPTH, C_HEAD, C_COUNT, C_CLOSED, C_WANTS, CHANNEL_COLUMNS = range(9)
# slots: cycle from which the token is seen, from which the slot can be filled again, in which the
# token entered; token
S_VISIBLE, S_FREE, S_SENT, S_STOP, S_WORD, S_WORD2, SLOT_COLUMNS = range(7)
# off-chip ports: lines not yet taken by the HBM node, lines a chunk, latest response so far, unit
P_LINES_LEFT, P_PAR, P_READY, P_UNIT, PORT_COLUMNS = range(5)
(
    G_NOW,
    G_NEAR,
    G_FAR_MIN,
    G_FAULT,
    G_FAULT_UNIT,
    G_TOKENS,
    G_READ,
    G_WRITTEN,
    G_ACTIVE,
    G_OFFSET,
    G_FIRST,
    G_STORED,
    G_LOGGED,
    G_SLACK_STORE,
    G_SLACK_LOG,
    G_ELEMENT,
    G_ONCHIP,
    G_INTERVAL,
    G_LATENCY,
    G_LOGGING,
    G_MOVED,
    SCALARS,
) = range(22)

OWN, STARVED, BLOCKED = range(3)
PARAMS = 12
REGS = 12
PHASE = 0

# faults that end a run
(OK, GROW, STOPS_DIFFER, ENDS_EARLY, SHAPES_DIFFER, PARTIAL_CHUNK, NO_UNIT, EMPTY_DIMENSION) = (
    range(8)
)


inner = jit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Compiles a function that compiled functions call: no entry from Python, which takes half of the
compile time.
"""


def plain(function):
    """The Python function behind a compiled one (itself where compilation is switched off)."""
    return getattr(function, "py_func", function)


@inner
def fail(net, u, fault):
    net.g[G_FAULT] = fault
    net.g[G_FAULT_UNIT] = u


# A tile in one word: rows, columns, valid rows (20 bits each), and whether it lies in a memory
# unit.


@inner
def tile(rows, cols, valid, in_memory):
    return (rows << 41) | (cols << 21) | (valid << 1) | in_memory


@inner
def tile_rows(word):
    return word >> 41


@inner
def tile_cols(word):
    return (word >> 21) & 0xFFFFF


@inner
def tile_valid(word):
    return (word >> 1) & 0xFFFFF


@inner
def in_memory(word):
    return word & 1


@inner
def moved(word, memory):
    """The tile, in a memory unit or not."""
    return (word >> 1 << 1) | memory


@inner
def selected(word, word2, i):
    """True if a selector names target i."""
    return (word >> i) & 1 if i < 64 else (word2 >> (i - 64)) & 1


@inner
def tile_bytes(net, word):
    return tile_rows(word) * tile_cols(word) * net.g[G_ELEMENT]


@inner
def ceil_div(a, b):
    return (a + b - 1) // b


@inner
def transfer_cycles(net, word):
    """Cycles to move a tile into or out of a memory unit."""
    return ceil_div(tile_bytes(net, word), net.g[G_ONCHIP])
