"""HBM2 by command: banks, row buffers, the timing constraints of its commands, queues, refresh.

A channel's controller issues one command a tick. Its rules, in the
order of a tick `k`, are those of docs/timing.md section 5.2; the
organisation and the numbers are the configuration's
(:class:`penstock.machine.hbm2.Hbm2`).

Nothing is stepped while nothing can happen: each channel knows its next
tick. Functions of compiled code see the whole memory as a
:class:`Memory`, which lies at the first word of the state.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from pathlib import Path

import numpy as np
from numba import types
from numba.core import sigutils
from numba.core.ccallback import CFunc

from ..machine.hbm2 import Hbm2
from .compiling import address_of, stamp
from .records import WORD, Words, at_address, digest_of, fast, record, table, words

NEVER = 1 << 62
FULL = -1
"""What `accept` of a memory says that has no room for a line."""
LONG_AGO = -(1 << 40)
"""A tick before all others."""
CLOSED = -1
NONE = -1
ACTIVATIONS = 4
"""Activations that a window of nFAW may have."""

ACTIVATE, PRECHARGE, COLUMN = range(3)


@record
class Memory:
    """What the memory has once."""

    # what a memory of every kind begins with
    kind: int
    in_flight: int  # lines
    earliest: int  # the next cycle in which something may happen
    # by which model/dram.py calls this memory
    at: int  # its address
    enter: int  # functions: their addresses
    advance: int
    # ticks in a cycle: a fraction
    up: int
    down: int
    channels: int
    first: int  # the first channel
    queue: int  # requests that a queue of a channel holds
    write_mode_above: int
    write_mode_below: int
    refresh: int  # ticks between refreshes; NEVER: none
    read_latency: int  # from the command to the last data
    # where an address has its fields: the lowest bit, and a mask
    channel_at: int
    channel_mask: int
    pseudo_at: int
    pseudo_mask: int
    group_at: int
    group_mask: int
    bank_at: int
    bank_mask: int
    row_at: int
    row_mask: int
    groups: int  # bank groups of a pseudo-channel
    banks: int  # banks of a bank group
    # least ticks from one command to the next: in a channel
    activate_to_row: int
    # in a pseudo-channel
    activate_to_activate: int
    window: int  # from an activation to the fourth after it
    read_to_read: int
    read_to_write: int
    write_to_write: int
    write_to_read: int
    # in a bank group
    group_activate_to_activate: int
    group_read_to_read: int
    group_write_to_write: int
    group_write_to_read: int
    # in a bank
    bank_activate_to_activate: int
    activate_to_read: int
    activate_to_write: int
    activate_to_precharge: int
    precharge_to_activate: int
    read_to_precharge: int
    write_to_precharge: int
    refresh_to_activate: int
    # requests: those that are due go to the fabric in order, so many a cycle
    responses: int
    due: int
    due_last: int
    free: int  # the first of the free ones
    next: int  # the next tick in which something may happen


@record
class Channel:
    """A channel: its controller, its queues, and what it has counted."""

    next: int  # its next tick
    now: int  # the tick that was last
    row_from: int  # the first tick of an activation or a precharge
    write_mode: int
    next_refresh: int
    refreshing: int  # pseudo-channels that wait for a refresh, a bit each
    # lists of requests: what has not been accepted, reads whose data come, written lines
    feed: int
    feed_last: int
    returns: int
    returns_last: int
    written: int
    # queues, in the order of arrival: a list of requests each
    n_reads: int
    n_writes: int
    n_active: int
    reads: int
    writes: int
    active: int
    pseudos: int
    groups: int
    banks: int
    # counters
    hits: int
    misses: int
    conflicts: int
    read: int
    wrote: int
    forwarded: int
    activations: int
    precharges: int
    refreshes: int


@record
class Pseudo:
    """A pseudo-channel: the first ticks of its commands."""

    activate_from: int
    read_from: int
    write_from: int
    # the last activations, the oldest at `oldest`
    oldest: int
    activated: int
    activated_1: int
    activated_2: int
    activated_3: int
    ALIASES = (("window", ("activated", ACTIVATIONS)),)


@record
class Group:
    """A bank group."""

    activate_from: int
    read_from: int
    write_from: int


@record
class Bank:
    """A bank."""

    row: int  # the open one
    activate_from: int
    read_from: int
    write_from: int
    precharge_from: int


@record
class Request:
    """A line on its way."""

    line: int  # whose it is
    address: int
    write: int
    pseudo: int
    group: int  # of the channel
    bank: int  # of the channel
    row: int
    reached: int  # ticks that were over when it reached the memory
    arrived: int  # ticks that were over when the controller accepted it
    ready: int  # tick of its data
    seen: int  # whether a command has been issued for it
    row_then: int  # its bank's open row when a command of it was last looked at
    first: int  # the first tick that the command had then: with that row it is no sooner
    next: int  # in a list


see = at_address(Memory)
KIND, IN_FLIGHT, EARLIEST, AT, ENTER, ADVANCE = (
    Memory.offsets[name] for name in ("kind", "in_flight", "earliest", "at", "enter", "advance")
)
SHARED = AT
"""Words that a memory of every kind begins with."""


@fast
def channel_of(m, i):
    return Channel(m, m.first, i)


@fast
def request_at(m, at):
    return Request(m, at, 0)


@fast
def linked(m, first, last, at):
    """Put a request at the end of a list (`first` to `last`); the list's first one."""
    request_at(m, at).next = NONE
    if first < 0:
        return at
    request_at(m, last).next = at
    return first


@fast
def enter(m, line, address, write, reached):
    """A line reaches the memory after `reached` ticks; False if there is no room for it."""
    at = m.free
    if at < 0:
        return False
    r = request_at(m, at)
    m.free = r.next
    m.in_flight += 1
    r.line = line
    r.address = address
    r.write = write
    r.pseudo = (address >> m.pseudo_at) & m.pseudo_mask
    r.group = r.pseudo * m.groups + ((address >> m.group_at) & m.group_mask)
    r.bank = r.group * m.banks + ((address >> m.bank_at) & m.bank_mask)
    r.row = (address >> m.row_at) & m.row_mask
    r.reached = reached
    r.seen = 0
    r.first = 0
    ch = channel_of(m, (address >> m.channel_at) & m.channel_mask)
    ch.feed = linked(m, ch.feed, ch.feed_last, at)
    ch.feed_last = at
    ch.next = min(ch.next, reached + 1)
    m.next = min(m.next, ch.next)
    return True


@fast
def release(m, at):
    """A request is done."""
    r = request_at(m, at)
    r.next = m.free
    m.free = at
    m.in_flight -= 1


@fast
def returns(m, ch, at, ready):
    """A read's data come in tick `ready`, or after those of the reads before it."""
    request_at(m, at).ready = ready
    ch.returns = linked(m, ch.returns, ch.returns_last, at)
    ch.returns_last = at


@fast
def is_written(m, ch, address):
    """Whether a queued write has this address."""
    writes = table(m, ch.writes)
    for i in range(ch.n_writes):
        if request_at(m, writes[i]).address == address:
            return True
    return False


@fast
def accept(m, ch, k):
    """The controller takes what reached it before tick `k`, in order, while there is room."""
    while ch.feed >= 0:
        at = ch.feed
        r = request_at(m, at)
        if r.reached >= k:
            return
        following = r.next
        if r.write:
            if ch.n_writes == m.queue:
                return
            table(m, ch.writes)[ch.n_writes] = at
            ch.n_writes += 1
        elif is_written(m, ch, r.address):
            ch.forwarded += 1
            returns(m, ch, at, k)
        else:
            if ch.n_reads == m.queue:
                return
            table(m, ch.reads)[ch.n_reads] = at
            ch.n_reads += 1
        r.arrived = k - 1
        ch.feed = following


@fast
def next_command(m, ch, r):
    """What a request needs next."""
    row = Bank(m, ch.banks, r.bank).row
    if row == r.row:
        return COLUMN
    return ACTIVATE if row == CLOSED else PRECHARGE


@fast
def first_tick(m, ch, r, k):
    """The first tick in which the next command of a request can be
    issued, or a tick between `k` and that one.
    """
    row = Bank(m, ch.banks, r.bank).row
    if r.first <= k or r.row_then != row:
        r.first = command_from(m, ch, r, next_command(m, ch, r))
        r.row_then = row
    return r.first


@fast
def command_from(m, ch, r, command):
    """The first tick in which the command of a request can be issued."""
    bank = Bank(m, ch.banks, r.bank)
    if command == PRECHARGE:
        return max(bank.precharge_from, ch.row_from)
    pseudo = Pseudo(m, ch.pseudos, r.pseudo)
    group = Group(m, ch.groups, r.group)
    if command == ACTIVATE:
        first = max(bank.activate_from, group.activate_from)
        return max(first, max(pseudo.activate_from, ch.row_from))
    if r.write:
        return max(bank.write_from, max(group.write_from, pseudo.write_from))
    return max(bank.read_from, max(group.read_from, pseudo.read_from))


@fast
def oldest_ready(m, ch, queue, n, k):
    """Place in a queue of the oldest request whose command can be
    issued in tick `k`, or NONE; and a later tick, no later than the
    first in which another's can.
    """
    requests = table(m, queue)
    found = NONE
    arrived = NEVER
    later = NEVER
    for i in range(n):
        r = request_at(m, requests[i])
        first = first_tick(m, ch, r, k)
        if first > k:
            later = min(later, first)
        elif r.arrived < arrived:
            found = i
            arrived = r.arrived
    return found, later


@fast
def first_ready(m, ch, queue, n, k):
    """As :func:`oldest_ready`, of a queue in the order of arrival: it
    looks no further than the place, so the later tick is for those who
    find none.
    """
    requests = table(m, queue)
    later = NEVER
    for i in range(n):
        r = request_at(m, requests[i])
        first = first_tick(m, ch, r, k)
        if first <= k:
            return i, later
        later = min(later, first)
    return NONE, later


@fast
def is_active(m, ch, bank):
    """Whether a request waits for its column command at a bank that was opened for it."""
    active = table(m, ch.active)
    for i in range(ch.n_active):
        if request_at(m, active[i]).bank == bank:
            return True
    return False


@fast
def remove(m, queue, n, i):
    """Take a request out of a queue."""
    requests = table(m, queue)
    for j in range(i, n - 1):
        requests[j] = requests[j + 1]


@fast
def activate(m, ch, r, k):
    bank = Bank(m, ch.banks, r.bank)
    group = Group(m, ch.groups, r.group)
    pseudo = Pseudo(m, ch.pseudos, r.pseudo)
    ch.activations += 1
    ch.row_from = k + m.activate_to_row
    bank.row = r.row
    bank.activate_from = k + m.bank_activate_to_activate
    bank.read_from = max(bank.read_from, k + m.activate_to_read)
    bank.write_from = max(bank.write_from, k + m.activate_to_write)
    bank.precharge_from = max(bank.precharge_from, k + m.activate_to_precharge)
    group.activate_from = max(group.activate_from, k + m.group_activate_to_activate)
    window = pseudo.window
    window[pseudo.oldest] = k
    pseudo.oldest = (pseudo.oldest + 1) % ACTIVATIONS
    fourth = window[pseudo.oldest] + m.window
    pseudo.activate_from = max(pseudo.activate_from, max(k + m.activate_to_activate, fourth))


@fast
def close(m, bank, k):
    """A precharge of a bank."""
    bank.row = CLOSED
    bank.activate_from = max(bank.activate_from, k + m.precharge_to_activate)


@fast
def column(m, ch, r, k):
    """A read or a write."""
    bank = Bank(m, ch.banks, r.bank)
    group = Group(m, ch.groups, r.group)
    pseudo = Pseudo(m, ch.pseudos, r.pseudo)
    if r.write:
        bank.precharge_from = max(bank.precharge_from, k + m.write_to_precharge)
        pseudo.write_from = max(pseudo.write_from, k + m.write_to_write)
        pseudo.read_from = max(pseudo.read_from, k + m.write_to_read)
        group.write_from = max(group.write_from, k + m.group_write_to_write)
        group.read_from = max(group.read_from, k + m.group_write_to_read)
    else:
        bank.precharge_from = max(bank.precharge_from, k + m.read_to_precharge)
        pseudo.read_from = max(pseudo.read_from, k + m.read_to_read)
        pseudo.write_from = max(pseudo.write_from, k + m.read_to_write)
        group.read_from = max(group.read_from, k + m.group_read_to_read)


@fast
def note_row(ch, r, command):
    """Count how a request finds its row, when its first command is issued."""
    if r.seen:
        return
    r.seen = 1
    if command == COLUMN:
        ch.hits += 1
    elif command == ACTIVATE:
        ch.misses += 1
    else:
        ch.conflicts += 1


@fast
def issue(m, ch, at, command, k):
    """Issue a request's command; whether the request leaves its queue."""
    r = request_at(m, at)
    note_row(ch, r, command)
    if command == PRECHARGE:
        close(m, Bank(m, ch.banks, r.bank), k)
        ch.precharges += 1
        return False
    if command == ACTIVATE:
        activate(m, ch, r, k)
        if ch.n_active == m.queue:
            return False
        table(m, ch.active)[ch.n_active] = at
        ch.n_active += 1
        return True
    column(m, ch, r, k)
    if r.write:
        ch.wrote += 1
        ch.written = at
    else:
        ch.read += 1
        returns(m, ch, at, k + m.read_latency)
    return True


@fast
def set_mode(m, ch):
    """Whether writes or reads are served."""
    if ch.write_mode:
        if ch.n_writes < m.write_mode_below and ch.n_reads > 0:
            ch.write_mode = 0
    elif ch.n_writes > m.write_mode_above or ch.n_reads == 0:
        ch.write_mode = 1


@fast
def schedule(m, ch, k):
    """Issue at most one command in tick `k`; the next tick in which one may be issued."""
    i, later = oldest_ready(m, ch, ch.active, ch.n_active, k)
    if i >= 0:
        issue(m, ch, table(m, ch.active)[i], COLUMN, k)
        ch.n_active -= 1
        remove(m, ch.active, ch.n_active + 1, i)
        return k + 1
    if ch.refreshing:
        return min(later, refresh(m, ch, k))
    set_mode(m, ch)
    queue = ch.writes if ch.write_mode else ch.reads
    n = ch.n_writes if ch.write_mode else ch.n_reads
    i, after = first_ready(m, ch, queue, n, k)
    later = min(later, after)
    if i < 0:
        return later
    at = table(m, queue)[i]
    r = request_at(m, at)
    command = next_command(m, ch, r)
    if command == PRECHARGE and is_active(m, ch, r.bank):
        # It is refused until the request at that bank has been served; what is not ready is looked
        # at again when it is.
        _, after = oldest_ready(m, ch, queue, n, k)
        return min(later, after)
    if issue(m, ch, at, command, k):
        remove(m, queue, n, i)
        if ch.write_mode:
            ch.n_writes -= 1
        else:
            ch.n_reads -= 1
    return k + 1


@fast
def refresh(m, ch, k):
    """Work on the refresh of the first pseudo-channel that waits for one: close its banks, refresh.

    No other request is served meanwhile, but those whose row is open
    for them. Returns the next tick in which something may be issued.
    """
    pseudo = 0
    while not (ch.refreshing >> pseudo) & 1:
        pseudo += 1
    per = m.groups * m.banks
    is_open = False
    first = ch.row_from
    for i in range(pseudo * per, (pseudo + 1) * per):
        bank = Bank(m, ch.banks, i)
        if bank.row != CLOSED:
            is_open = True
            first = max(first, bank.precharge_from)
            if is_active(m, ch, i):
                return NEVER  # it is served first
    if not is_open:
        for i in range(pseudo * per, (pseudo + 1) * per):
            first = max(first, Bank(m, ch.banks, i).activate_from)
    if first > k:
        return first
    if is_open:
        for i in range(pseudo * per, (pseudo + 1) * per):
            close(m, Bank(m, ch.banks, i), k)
        ch.precharges += 1
    else:
        wait = Pseudo(m, ch.pseudos, pseudo)
        wait.activate_from = max(wait.activate_from, k + m.refresh_to_activate)
        ch.refreshing &= ~(1 << pseudo)
        ch.refreshes += 1
    return k + 1


@fast
def refresh_due(m, ch, k):
    """From tick `k` on, its pseudo-channels wait for the refresh that is due in it."""
    if ch.next_refresh <= k:
        ch.refreshing = (1 << (m.pseudo_mask + 1)) - 1
        ch.next_refresh += m.refresh


@fast
def catch_up(m, ch, k):
    """The refreshes of the ticks before `k`, in which nothing was asked of the channel."""
    at = ch.now + 1
    while True:
        if not ch.refreshing:
            at = max(at, ch.next_refresh)
        if at >= k:
            return
        refresh_due(m, ch, at)
        at = refresh(m, ch, at)


@fast
def deliver(m, at):
    """A request is answered: it joins those that go to the fabric, in order."""
    m.due = linked(m, m.due, m.due_last, at)
    m.due_last = at


@fast
def tick(m, ch, k):
    """Tick `k` of a channel."""
    if k > ch.now + 1:
        catch_up(m, ch, k)
    accept(m, ch, k)
    at = ch.returns
    if at >= 0 and request_at(m, at).ready <= k:
        ch.returns = request_at(m, at).next
        deliver(m, at)
    if ch.written >= 0:  # the write of the tick before
        deliver(m, ch.written)
        ch.written = NONE
    refresh_due(m, ch, k)
    following = schedule(m, ch, k)
    if ch.returns >= 0:
        following = min(following, max(request_at(m, ch.returns).ready, k + 1))
    if ch.written >= 0:
        following = k + 1
    if ch.feed >= 0:
        reached = request_at(m, ch.feed).reached
        if reached >= k:
            following = min(following, reached + 1)
    if following < NEVER:
        following = min(following, ch.next_refresh)
    ch.next = max(following, k + 1)
    ch.now = k


@fast
def advance(m, k):
    """Go to the end of tick `k`.

    Within a tick channels come in their order; of a channel first what was read.
    """
    while m.next <= k:
        now = m.next
        following = NEVER
        for i in range(m.channels):
            ch = channel_of(m, i)
            if ch.next <= now:
                tick(m, ch, now)
            following = min(following, ch.next)
        m.next = following


@fast
def take(m, most, out):
    """The first lines that are due, at most so many; their number, with the lines in `out`."""
    n = 0
    while m.due >= 0 and n < most:
        at = m.due
        out[n] = request_at(m, at).line
        n += 1
        m.due = request_at(m, at).next
        release(m, at)
    return n


_INT = types.int64


def _enter(state, line, address, write, cycle):
    """A line reaches the memory in a cycle; the next one to look at the memory, or FULL."""
    m = see(state)
    if not enter(m, line, address, write, cycle * m.up // m.down):
        return FULL
    m.earliest = cycle_of(m, m.next)
    return m.earliest


def _advance(state, cycle, out):
    """To the end of a cycle; the number of lines delivered in it."""
    m = see(state)
    advance(m, cycle * m.up // m.down)
    n = take(m, m.responses, words(out))
    m.earliest = cycle + 1 if m.due >= 0 else max(cycle + 1, cycle_of(m, m.next))
    return n


@fast
def cycle_of(m, tick):
    """The first cycle at whose end a tick is over."""
    if tick >= NEVER:
        return NEVER
    return (tick * m.down + m.up - 1) // m.up


@functools.cache
def compiled() -> tuple[CFunc, CFunc]:
    """`enter` and `advance` as C functions: compiled, or from numba's cache."""
    made = []
    for function, arguments in ((_enter, 5), (_advance, 3)):
        signature = sigutils.normalize_signature(_INT(*[_INT] * arguments))
        options = {"boundscheck": False, "error_model": "numpy"}
        one = CFunc(function, signature, locals={}, options=options)
        one.enable_caching()
        stamp(one, digest_of(Path(__file__)))
        one.compile()
        made.append(one)
    return made[0], made[1]


def fields_of(config: Hbm2) -> dict[str, int]:
    """Where an address has its fields, by the names of :class:`Memory`."""
    at = (config.transaction - 1).bit_length()
    places = {}
    for name in config.mapping.split():
        short = {"pseudo_channel": "pseudo", "bank_group": "group"}.get(name, name)
        size = config.sizes.get(name, 1 << 62 >> at)
        if name != "column":
            places[f"{short}_at"] = at
            places[f"{short}_mask"] = size - 1
        at += (size - 1).bit_length()
    return places


def state_of(config: Hbm2, ratio: Fraction, lines: int, kind: int) -> np.ndarray:
    """The state of an empty memory: a :class:`Memory` and all it has.

    Parameters
    ----------
    config
        Organisation, timing, mapping.
    ratio
        Ticks of the memory in a cycle of the fabric.
    lines
        Most lines in flight.
    kind
        The kind's number.

    """
    made = Words()
    memory = made.alloc(Memory.words)
    channels = made.alloc(config.channels * Channel.words)
    banks = config.bank_groups * config.banks
    for i in range(config.channels):
        pseudos = [_pseudo_channel() for _ in range(config.pseudo_channels)]
        groups = [{}] * (config.pseudo_channels * config.bank_groups)
        closed = [{"row": CLOSED}] * (config.pseudo_channels * banks)
        made.set(
            Channel,
            channels + i * Channel.words,
            {
                "next": NEVER,
                "next_refresh": config.nREFI if config.refresh else NEVER,
                "feed": NONE,
                "returns": NONE,
                "written": NONE,
                "reads": made.alloc(config.queue),
                "writes": made.alloc(config.queue),
                "active": made.alloc(config.queue),
                "pseudos": made.records(Pseudo, pseudos),
                "groups": made.records(Group, groups),
                "banks": made.records(Bank, closed),
            },
        )
    requests = made.alloc(lines * Request.words)
    into, onward = compiled()
    made.set(
        Memory,
        memory,
        {
            "kind": kind,
            "earliest": NEVER,
            "enter": address_of(into),
            "advance": address_of(onward),
            "up": ratio.numerator,
            "down": ratio.denominator,
            "channels": config.channels,
            "first": channels,
            "queue": config.queue,
            "write_mode_above": config.write_mode_above,
            "write_mode_below": config.write_mode_below,
            "refresh": config.nREFI if config.refresh else NEVER,
            "groups": config.bank_groups,
            "banks": config.banks,
            "responses": config.responses,
            "due": NONE,
            "free": requests,
            "next": NEVER,
            **fields_of(config),
            **config.ticks,
        },
    )
    made.fill()
    links = made.every(Request, requests, lines)["next"]
    links[:] = requests + Request.words * np.arange(1, lines + 1)
    links[-1] = NONE
    made.S[AT] = made.address
    return made.S


COUNTED = (
    "hits",
    "misses",
    "conflicts",
    "read",
    "wrote",
    "forwarded",
    "activations",
    "precharges",
    "refreshes",
)


def counters(state: np.ndarray) -> dict[str, list[int]]:
    """What each channel has counted, by name (docs/timing.md section 5.2)."""
    m = Memory.of(state, 0)
    channels = np.ndarray(
        int(m["channels"]), Channel.dtype, state, WORD * int(m["first"]), WORD * Channel.words
    )
    return {name: channels[name].tolist() for name in COUNTED}


def _pseudo_channel() -> dict[str, int]:
    """No activation yet."""
    return dict.fromkeys(("activated", "activated_1", "activated_2", "activated_3"), LONG_AGO)
