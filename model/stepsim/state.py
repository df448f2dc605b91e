"""State of a run: the records of `penstock.model.records`, and functions that all units share.

A token is a stop level and two words: a tile (see `tile`), a scalar, a pair of these, a selector
(128 bits, target 0 the lowest of the first word), or a buffer (first entry, length).
"""

from __future__ import annotations

from collections.abc import Callable

from ..records import WORD, Record, at_address, extends, fast, record, table

IDLE = 1 << 62
"""A time that never comes."""

OWN, STARVED, BLOCKED = range(3)

# faults that end a run
(OK, GROW, STOPS_DIFFER, ENDS_EARLY, SHAPES_DIFFER, PARTIAL_CHUNK, NO_UNIT, EMPTY_DIMENSION) = (
    range(8)
)


@record
class Net:
    """State that a run has once; it lies at word 0."""

    now: int  # the cycle
    element: int  # bytes of an element
    onchip: int  # bytes a cycle into or out of a memory unit
    fault: int
    fault_unit: int  # its offset
    # calendar
    buckets: int  # of each the first unit that is due
    near: int  # units due within the calendar's reach
    far_min: int  # the next cycle of those beyond
    # HBM node
    active: int  # the ports with a transfer under way, in their order
    n_active: int
    served: int  # of each channel the last service start
    n_served: int
    offset: int  # of the channel that the next line goes to
    interval: int
    latency: int
    first: int  # cycle of the first request
    # totals
    tokens: int
    read: int  # lines
    written: int
    moved: int  # bytes of all tiles moved off chip
    # grow: addresses of `Entry` and `Logged`, how many are in use, and up to how many a cycle fits
    store: int
    stored: int
    store_room: int
    log: int
    logged: int
    log_room: int
    logging: int


@record
class Channel:
    """A channel, the unit that ended it, and the units that wait for it."""

    src: int  # offset of the sender
    dst: int  # of the receiver
    slots: int  # `depth` of them
    depth: int
    head: int  # slot of the first token
    count: int  # tokens held
    closed: int  # cycle in which the sender ended; -1: runs
    wants: int  # 1: the receiver waits, for a token; 2: the sender, for room


@record
class Slot:
    """A slot of a channel, and its token."""

    visible: int  # cycle from which the token is seen
    free: int  # cycle from which the slot can be filled again
    sent: int  # cycle in which the token entered
    stop: int
    word: int
    word2: int


@record
class Entry:
    """A buffered token."""

    word: int
    word2: int
    stop: int
    next: int  # entry of the same buffer; -1: none


@record
class Logged:
    """A token that was taken."""

    channel: int  # its offset
    sent: int
    taken: int
    stop: int
    word: int
    word2: int


@record
class Unit:
    """A unit; parameters and registers of its kind follow."""

    at: int  # its own offset
    act: int  # address of its function
    ins: int  # offset of each input's channel
    outs: int
    n_ins: int
    n_outs: int
    phase: int
    clock: int  # local time at its last stop
    why: int  # what it waits for
    on: int  # channel that it waits for; 0: none
    finish: int  # final local time; -1: runs
    due: int  # cycle in which it goes on
    after: int  # next unit of the same bucket; 0: none
    own: int  # cycles by why they passed
    starved: int
    blocked: int
    port: int  # offset of its `Port`; 0: none
    ALIASES = (("spent", ("own", 3)),)


@record
class Port:
    """The port of an off-chip unit; they lie in the graph's order."""

    unit: int  # its offset
    par: int  # lines a chunk
    lines: int  # not yet taken by the HBM node
    ready: int  # latest response so far


@extends(Unit)
class Held:
    """A unit that holds a token."""

    stop: int
    word: int
    word2: int


KINDS: dict[str, tuple[Record, Callable]] = {}
"""Kind -> record, compiled function."""


def steps(state: Record, *kinds: str) -> Callable[[Callable], Callable]:
    """Registers the function that lets a unit of some kinds go on until it waits again: (net, unit,
    cycle).

    Words of ``state`` that are named as a parameter of the kind have its value; a list's word is
    its offset. ``begin(layout, unit)`` gives further words that do not begin as 0, by name.
    """

    def register(function: Callable) -> Callable:
        compiled = fast(function)
        KINDS.update(dict.fromkeys(kinds, (state, compiled)))
        return compiled

    return register


_entry_at = at_address(Entry)
_line_at = at_address(Logged)
_ENTRY = WORD * Entry.words
_LINE = WORD * Logged.words


@fast
def entry_of(net, i):
    """The i-th buffered token."""
    return _entry_at(net.store + i * _ENTRY)


@fast
def line_of(net, i):
    """The i-th line of the log."""
    return _line_at(net.log + i * _LINE)


@fast
def source(net, u, i):
    """The channel at input `i`."""
    return Channel(net, table(net, u.ins)[i], 0)


@fast
def target(net, u, i):
    """The channel at output `i`."""
    return Channel(net, table(net, u.outs)[i], 0)


@fast
def fail(net, u, fault):
    net.fault = fault
    net.fault_unit = u.at


# A tile in one word: rows, columns, valid rows (20 bits each), and whether it lies in a memory
# unit.


@fast
def tile(rows, cols, valid, in_memory):
    return (rows << 41) | (cols << 21) | (valid << 1) | in_memory


@fast
def tile_rows(word):
    return word >> 41


@fast
def tile_cols(word):
    return (word >> 21) & 0xFFFFF


@fast
def tile_valid(word):
    return (word >> 1) & 0xFFFFF


@fast
def in_memory(word):
    return word & 1


@fast
def moved(word, memory):
    """The tile, in a memory unit or not."""
    return (word >> 1 << 1) | memory


@fast
def selected(word, word2, i):
    """True if a selector names target i."""
    return (word >> i) & 1 if i < 64 else (word2 >> (i - 64)) & 1


@fast
def tile_bytes(net, word):
    return tile_rows(word) * tile_cols(word) * net.element


@fast
def ceil_div(a, b):
    return (a + b - 1) // b


@fast
def transfer_cycles(net, word):
    """Cycles to move a tile into or out of a memory unit."""
    return ceil_div(tile_bytes(net, word), net.onchip)


def plain(function):
    """The Python function behind a compiled one (itself where compilation is switched off)."""
    return getattr(function, "py_func", function)
