"""Parts that the compiled units share: the records of a run, and channels.

A function of a unit is called in a cycle in which its unit may act; it decides on registered state
only (a beat accepted in this cycle carries this cycle's number and is not visible, a slot freed in
this cycle is not ready), so the order of calls within a cycle does not matter. It returns flags.

Values lie apart, as the bit patterns of float32; a record's ``value`` counts them from the first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...machine import limits
from ...machine.beat import STOP_DONE
from ...machine.faults import Fault
from ..records import Record, fast, record, table
from .digest import digest
from .tiles import copy_values

# took or delivered a beat; offers one that is not accepted; state changed otherwise
BUSY = 1
BLOCKED = 2
ACTIVE = 4

FAULT_STOP = int(Fault.STOP)
FAULT_ACCUMULATORS = int(Fault.ACCUMULATORS)
FAULT_REFERENCES = int(Fault.REFERENCES)
FAULT_STRAY = int(Fault.STRAY)
FAULT_EMPTY = int(Fault.EMPTY)
FAULT_ADDRESS = int(Fault.ADDRESS)
FAULT_ROWS = int(Fault.ROWS)
FAULT_FLIGHT = int(Fault.FLIGHT)
FAULT_RECORDED = int(Fault.RECORDED)

RING = 8
"""Slots with which the ring of a channel begins."""
LONG_AGO = -(1 << 40)
"""A cycle before all others."""


@record
class Net:
    """State that a run has once; it lies at word 0."""

    now: int  # the cycle
    t: int  # edge of a tile
    lanes: int  # lines of a chunk
    has_values: int
    values: int  # address of the values
    memory: int  # address of the off-chip memory's image, in halves of 16 bits
    dram: int  # address of the off-chip memory's state
    # the ends: stores, sinks, reassembles that wait for a Done
    open: int
    had_open: int
    # the wheel: for each of the next cycles a bit a unit, set where it is to be evaluated
    wheel: int
    wheel_mask: int  # its cycles - 1
    wheel_words: int  # words a cycle
    # units
    units: int
    unit_words: int  # from one to the next
    n_units: int
    evaluations: int
    # interconnect
    ports: int  # offset of each port's unit
    n_ports: int
    presented: int  # ports that present a chunk
    grant: int  # the port to look at first
    round_robin: int
    dram_unit: int  # the bit of the memory in the wheel
    delivered: int  # room for the lines of a cycle
    first_request: int
    lines_read: int
    lines_written: int
    events: int
    # the first fault (1 + its number), where and when
    fault: int
    fault_unit: int
    fault_at: int
    # what is kept for Python, and when there is no room for another cycle
    traced: int
    log: int  # `Logged`
    logged: int
    log_room: int
    sunk: int  # `Sunk`s of `sunk_words`
    sunk_count: int
    sunk_room: int
    sunk_words: int
    sunk_value: int
    sunk_values: int  # values a record
    recorded: int  # most beats of a recorded channel
    record_room: int


@record
class Logged:
    """A line of the trace."""

    what: int  # ACCEPTED, TAKEN, SENT, DELIVERED, POSTED
    where: int  # channel; port; unit
    cycle: int
    about: int  # stop and data << 8; address; number of the line; page
    digest: int  # of a beat, of what is written; change of a count


ACCEPTED, TAKEN, SENT, DELIVERED, POSTED = range(5)


@record
class Channel:
    """A channel, with counters for its trace."""

    id: int
    depth: int
    level: int
    head: int
    tail: int
    slots: int  # `Beat`s of `slot_words`, of which the ring has the first `size`
    slot_words: int
    size: int
    places: int  # most that it can have
    n_numbers: int
    n_values: int
    leaves: int  # `Leaf` for each two numbers
    producer: int
    consumer: int
    last_take: int
    held: int  # cycles that beats have waited
    missed: int  # last cycle in which the consumer looked for a beat in vain
    refused: int  # last cycle in which the producer looked for a slot in vain
    record: int  # where its beats are kept, of `record_words` each; 0: nowhere
    record_words: int
    recorded: int
    # the shape of its stream
    beats: int  # all so far
    ended: int  # those up to the last that ends a group
    bare: int  # those without data, but for Done
    ragged: int  # whether groups of a level differ
    trips: int  # `Trips` of each level, the innermost first


@record
class Trips:
    """Groups of one level of a stream, or its beats."""

    size: int  # of the first group
    since: int  # in the group that is open


@record
class Beat:
    """A slot of a channel, an entry of a queue: a beat of one member; further numbers follow."""

    accepted: int  # cycle
    stop: int
    data: int
    value: int
    rows: int
    cols: int
    ALIASES = (
        ("due", "accepted"),  # in a queue: from which cycle it may leave
        ("page", "rows"),
        ("tiles", "cols"),
        ("low", "rows"),
        ("high", "cols"),
        ("numbers", ("rows", 2)),
    )


@record
class Sunk:
    """A beat that a sink took; numbers follow."""

    unit: int
    cycle: int
    stop: int
    data: int
    first: int
    second: int
    ALIASES = (("numbers", ("first", 2)),)


@record
class Counts:
    """Reference counts of a memory unit."""

    unit: int  # its offset
    zeros: int  # changes to zero that have not been looked at
    page: int  # of the last of them
    pages: int  # `Count` of each page


@record
class Count:
    """References to the buffer that starts at a page."""

    references: int
    zero_at: int  # cycle of the last change to zero; -1: looked at


@record
class Unit:
    """A unit; state of its kind follows."""

    id: int
    act: int  # address of its function; 0: the engine's own
    ins: int  # offset of each input's channel
    outs: int
    n_ins: int
    n_outs: int
    port: int
    busy: int
    blocked: int
    busy_at: int  # last cycle counted as busy
    evaluated: int  # last cycle of an evaluation
    waits: int  # whether it left its unit blocked


KINDS: dict[str, tuple[Record, Callable]] = {}
"""Kind -> record, compiled function."""


def unit(declared: type) -> Record:
    """Declares the state of a unit.

    Its ``begin(layout, unit)`` gives the words that do not begin as 0, by name.
    """
    return record(declared, Unit)


def acts(state: Record, *kinds: str):
    """Registers the function of units of some kinds: (net, unit, cycle) -> flags."""

    def register(function):
        compiled = fast(function)
        KINDS.update(dict.fromkeys(kinds, (state, compiled)))
        return compiled

    return register


# ---- wakes, faults


@fast
def wake(net, unit, cycle):
    """Evaluate `unit` in `cycle`; a cycle beyond the wheel is replaced by an earlier one, in which
    the unit asks again.
    """
    cycle = min(cycle, net.now + net.wheel_mask)
    at = net.wheel + (cycle & net.wheel_mask) * net.wheel_words + (unit >> 6)
    table(net, at)[0] |= np.int64(1) << (unit & 63)


@fast
def fail(net, u, fault, at):
    """The first fault ends the run."""
    if net.fault == 0:
        net.fault = fault + 1
        net.fault_unit = u.id
        net.fault_at = at


@fast
def note(net, what, where, cycle, about):
    """Another line of the trace."""
    line = Logged(net, net.log, net.logged)
    net.logged += 1
    line.what = what
    line.where = where
    line.cycle = cycle
    line.about = about
    line.digest = 0  # the line may have been another's
    return line


# ---- channels


@fast
def source(net, u, i):
    """The channel at input `i`."""
    return Channel(net, table(net, u.ins)[i], 0)


@fast
def target(net, u, i):
    """The channel at output `i`."""
    return Channel(net, table(net, u.outs)[i], 0)


@fast
def head(net, channel):
    """The first beat, where there is one."""
    return Beat(net, channel.slots + channel.head * channel.slot_words, 0)


@fast
def visible(net, channel, c):
    """True if there is a beat to be seen in `c`."""
    if channel.level == 0:
        channel.missed = c
        return False
    return head(net, channel).accepted < c


@fast
def both_visible(net, a, b, c):
    """True if both channels have a beat to be seen in `c`."""
    first = visible(net, a, c)
    return visible(net, b, c) and first


@fast
def ready(channel, c):
    """True if a slot was free at the start of `c`; nothing has been accepted yet in `c`."""
    level = channel.level
    if channel.last_take == c:
        level += 1
    if level < channel.depth:
        return True
    channel.refused = c
    return False


@fast
def take(net, channel, c):
    """Take the first beat; its slot keeps it until the end of the cycle."""
    channel.held += c - head(net, channel).accepted
    if channel.level == channel.depth:
        wake(net, channel.producer, c + 1)
    at = channel.head + 1
    channel.head = 0 if at == channel.size else at
    channel.level -= 1
    channel.last_take = c
    net.events += 1
    if net.traced:
        note(net, TAKEN, channel.id, c, 0)


@fast
def restart(channel):
    """The ring of an empty channel begins anew, apart from the slot that was taken last: a deep
    channel that holds few beats uses few slots, which stay in the processor's cache.
    """
    if channel.tail > 1:
        channel.head = 0
        channel.tail = 0
        channel.size = min(channel.places, RING)


@fast
def grow(net, channel):
    """The ring has twice as many slots: those before the head move behind the last one, and leave
    it their places for values.
    """
    for i in range(channel.tail if channel.tail <= channel.head else 0):
        old = Beat(net, channel.slots + i * channel.slot_words, 0)
        new = Beat(net, channel.slots + (channel.size + i) * channel.slot_words, 0)
        value = new.value
        new.accepted = old.accepted
        new.stop = old.stop
        new.data = old.data
        new.value = old.value
        old.value = value
        for k in range(channel.n_numbers):
            new.numbers[k] = old.numbers[k]
    if channel.tail <= channel.head:
        channel.tail += channel.size
    channel.size *= 2


@fast
def push(net, channel, c, stop, data):
    """Accept a beat in `c`; the caller fills in the numbers and values of the slot returned, then
    calls `commit`.
    """
    if channel.level == 0:
        restart(channel)
    elif channel.level + 1 >= channel.size and channel.size < channel.places:
        grow(net, channel)
    beat = Beat(net, channel.slots + channel.tail * channel.slot_words, 0)
    beat.accepted = c
    beat.stop = stop
    beat.data = data
    at = channel.tail + 1
    channel.tail = 0 if at == channel.size else at
    if channel.level == 0:
        wake(net, channel.consumer, c + 1)
    channel.level += 1
    return beat


@fast
def commit(net, channel, beat, c):
    """The beat is whole: the trace has it."""
    channel.beats += 1
    if beat.stop or not beat.data:
        end_groups(net, channel, beat)
    if net.traced:
        line = note(net, ACCEPTED, channel.id, c, beat.stop | beat.data << 8)
        if net.has_values:
            to = channel.record
            if to:
                to += channel.recorded * channel.record_words
                channel.recorded += 1
                net.recorded = max(net.recorded, channel.recorded)
            line.digest = np.int64(digest(net, channel, beat, to))


@fast
def is_done(beat):
    return beat.stop == STOP_DONE and not beat.data


@fast
def end_groups(net, channel, beat):
    """Groups end with a beat: whether those of a level are of one size."""
    if is_done(beat):
        return
    channel.bare += 1 - beat.data
    since = channel.beats - channel.ended
    channel.ended = channel.beats
    for level in range(beat.stop):
        group = Trips(net, channel.trips, level)
        if group.size == 0:
            group.size = since
        elif group.size != since:
            channel.ragged = 1
        group.since = 0
        outer = Trips(net, channel.trips, level + 1)
        outer.since += 1
        since = outer.since


@fast
def push_bare(net, channel, c, stop):
    """Accept a beat that is only a stop."""
    commit(net, channel, push(net, channel, c, stop, 0), c)


@fast
def push_done(net, channel, c):
    push_bare(net, channel, c, STOP_DONE)


@fast
def push_pair(net, channel, c, stop, first, second):
    """Accept a beat of two numbers: a reference, a scalar, or a selector of up to 128 bits."""
    beat = push(net, channel, c, stop, 1)
    beat.low = first
    beat.high = second
    commit(net, channel, beat, c)


@fast
def push_target(net, channel, c, stop, k):
    """Accept a selector of target `k`; -1: of none."""
    beat = push(net, channel, c, stop, 1)
    for i in range(channel.n_numbers):
        beat.numbers[i] = np.int64(1) << (k & 63) if k >> 6 == i else np.int64(0)
    commit(net, channel, beat, c)


@fast
def push_tile(net, channel, c, stop, rows, cols, value):
    beat = push(net, channel, c, stop, 1)
    beat.rows = rows
    beat.cols = cols
    copy_values(net, value, beat.value, channel.n_values)
    commit(net, channel, beat, c)


@fast
def push_entry(net, channel, c, entry):
    """Accept an entry of a queue of tiles."""
    if entry.data:
        push_tile(net, channel, c, entry.stop, entry.rows, entry.cols, entry.value)
    else:
        push_bare(net, channel, c, entry.stop)


@fast
def copy_beat(net, beat, to, channel):
    """Copy the numbers and values of a beat of a channel."""
    for i in range(channel.n_numbers):
        to.numbers[i] = beat.numbers[i]
    copy_values(net, beat.value, to.value, channel.n_values)


@fast
def forward(net, beat, channel, c, stop):
    """Accept a copy of the beat, with another stop."""
    slot = push(net, channel, c, stop, beat.data)
    copy_beat(net, beat, slot, channel)
    commit(net, channel, slot, c)


@fast
def all_ready(net, u, c):
    """True if every output has a free slot."""
    for i in range(u.n_outs):
        if not ready(target(net, u, i), c):
            return False
    return True


@fast
def agree(x, y):
    """True if two beats have equal stops, and both or neither data."""
    return x.stop == y.stop and x.data == y.data


# ---- references to buffers


@fast
def post(net, u, page, change):
    """A unit that is no memory changes the references to the buffer that starts at `page`, if its
    stream is one of references.
    """
    if u.counts < 0:
        return
    if net.traced:
        note(net, POSTED, u.id, net.now, page).digest = change
    count_references(net, u.counts, page, change)


@fast
def count_references(net, counts, page, change):
    """Change the references to the buffer that starts at `page`; `counts`: offset of the memory's
    `Counts`.
    """
    all_counts = Counts(net, counts, 0)
    count = Count(net, all_counts.pages, page)
    memory = Unit(net, all_counts.unit, 0)
    count.references += change
    if count.references >> limits.COUNT_BITS:
        fail(net, memory, FAULT_REFERENCES, net.now + 1)
    if count.references == 0:  # looked at in the next cycle: another change may follow
        count.zero_at = net.now
        all_counts.zeros += 1
        all_counts.page = page
        wake(net, memory.id, net.now + 1)
