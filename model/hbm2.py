"""HBM2 by command: banks, row buffers, the timing constraints of its commands, queues, refresh.

A channel's controller issues one command a tick. Its rules, in the order of a tick `k`, are those
of docs/timing.md section 5.2; the organisation and the numbers are the configuration's
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
from . import hbm2_state
from .compiling import address_of, c_function
from .dram_words import FULL, NEVER
from .hbm2_state import (
    ACTIVATE,
    ACTIVATIONS,
    CLOSED,
    COLUMN,
    NONE,
    PRECHARGE,
    REFRESH,
    Bank,
    Channel,
    Command,
    Group,
    Pseudo,
    Request,
    see,
)
from .records import digest_of, fast, table, words


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
    """True if a queued write has this address."""
    writes = table(m, ch.writes)
    for i in range(ch.n_writes):
        if request_at(m, writes[i]).address == address:
            return True
    return False


@fast
def accept(m, ch, k):
    """Take requests that reached the controller before tick `k`, in order, while there is room."""
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
    """Next command that a request needs."""
    row = Bank(m, ch.banks, r.bank).row
    if row == r.row:
        return COLUMN
    return ACTIVATE if row == CLOSED else PRECHARGE


@fast
def first_tick(m, ch, r, k):
    """The first tick in which the next command of a request can be issued, or a tick between `k`
    and that one.
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
    """Place in a queue of the oldest request whose command can be issued in tick `k`, or NONE; and
    a later tick, no later than the first in which another's can.
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
    """Variant of :func:`oldest_ready` for a queue in the order of arrival: it stops at the place
    found, so the later tick counts only where there is none.
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
    """True if a request waits for its column command at a bank that was opened for it."""
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
def keep(m, ch, k, bank, what, first, row):
    """Another command for the timeline."""
    if m.logged < m.log_room:
        c = Command(m, m.log, m.logged)
        m.logged += 1
        c.tick = k
        c.channel = ch.id
        c.bank = bank
        c.what = what
        c.first = first
        c.row = row


@fast
def issue(m, ch, at, command, k):
    """Issue a request's command; whether the request leaves its queue."""
    r = request_at(m, at)
    keep(m, ch, k, r.bank, command, 1 - r.seen, r.row)
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
    """Choose between serving writes and reads."""
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

    No other request is served meanwhile, but those whose row is open for them. Returns the next
    tick in which something may be issued.
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
            if Bank(m, ch.banks, i).row != CLOSED:
                keep(m, ch, k, i, PRECHARGE, 0, CLOSED)
            close(m, Bank(m, ch.banks, i), k)
        ch.precharges += 1
    else:
        wait = Pseudo(m, ch.pseudos, pseudo)
        wait.activate_from = max(wait.activate_from, k + m.refresh_to_activate)
        ch.refreshing &= ~(1 << pseudo)
        ch.refreshes += 1
        keep(m, ch, k, pseudo * per, REFRESH, 0, CLOSED)
    return k + 1


@fast
def refresh_due(m, ch, k):
    """Begin the refresh that is due at tick `k`: the channel's pseudo-channels wait for it."""
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
    """Advance to the end of a cycle; the number of lines delivered in it."""
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
    digest = digest_of(Path(__file__), Path(hbm2_state.__file__))
    options = {"boundscheck": False, "error_model": "numpy"}
    made = []
    for function, arguments in ((_enter, 5), (_advance, 3)):
        signature = sigutils.normalize_signature(_INT(*[_INT] * arguments))
        made.append(c_function(function, signature, options, digest))
    return made[0], made[1]


def state_of(config: Hbm2, ratio: Fraction, lines: int, kind: int, room: int = 0) -> np.ndarray:
    """The state of an empty memory, as of :func:`.hbm2_state.empty`, with the functions that it is
    called by.
    """
    into, onward = compiled()
    calls = address_of(into), address_of(onward)
    return hbm2_state.empty(config, ratio, lines, kind, calls, room)
