"""`store` and `random_store` (docs/timing.md section 5)."""

from __future__ import annotations

import numpy as np

from ...machine import limits
from ...machine.beat import FNV_OFFSET, STOP_DONE
from ..records import fast, halves, record, singles, table
from .digest import put_word
from .offchip import (
    Placed,
    begin_port,
    block_at,
    first_chunk,
    locate,
    next_chunk,
    pop_block,
    port,
    present,
    send,
)
from .state import (
    ACTIVE,
    BLOCKED,
    BUSY,
    FAULT_ADDRESS,
    FAULT_ROWS,
    FAULT_STOP,
    Logged,
    acts,
    commit,
    fail,
    head,
    is_done,
    push,
    ready,
    source,
    take,
    target,
    visible,
    wake,
)
from .tiles import copy_values

SLOT_BITS = 40
"""Bits of a line's tag below the acknowledgement that it is for."""


@record
class Due:
    """An acknowledgement of a tile, or a beat without one."""

    stop: int
    data: int
    lines: int  # in flight


@port
class Store:
    """State of a `store` or a `random_store`."""

    row: int  # origin of the logical tile
    col: int
    band: int
    step: int
    chunk: int  # of a step
    chunks_of_step: int
    carries: int  # the carry step of a misaligned row is open
    carry_rows: int
    carry_cols: int  # elements of the block before that belong to the next line
    carry_stop: int
    carry_value: int
    gathered: int  # tiles of the block that is being taken
    in_flight: int  # lines without acknowledgement
    done: int  # Done was taken; and all is acknowledged
    closed: int
    # a random store: queues of addresses and of acknowledgements
    random: int
    addresses: int
    first_address: int
    n_addresses: int
    dues: int
    first_due: int
    n_dues: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        random = u.kind.name == "random_store"
        own = begin_port(layout, u, layout.graph.inputs(u.id)[random].payload)
        if not random and p.order:
            own["row"], own["col"] = p.order[0]
        return own | {
            "carry_value": layout.alloc_values(layout.graph.t * own["line"]),
            "random": random,
            "addresses": layout.alloc(limits.STORE_ADDRESSES * Placed.words if random else 0),
            "dues": layout.alloc(limits.STORE_TILES * Due.words if random else 0),
        }


@acts(Store, "store")
def store(net, u, c):
    return store_cycle(net, u, c, True, True)


@acts(Store, "random_store")
def random_store(net, u, c):
    """The steps of a store, each with its address; acknowledgements leave in order."""
    queued = u.n_addresses
    dues = u.n_dues
    due = Due(net, u.dues, u.first_due)
    offered = dues > 0 and due.lines == 0
    address = Placed(net, u.addresses, u.first_address)
    new = Placed(net, u.addresses, (u.first_address + queued) % limits.STORE_ADDRESSES)
    flags = 0
    goes_on = queued > 0 and not address.hollow and dues < limits.STORE_TILES
    if goes_on:
        u.row = address.row
        u.col = address.col
    elif queued and address.hollow and dues < limits.STORE_TILES:
        make_due(net, u, 0)
        flags = ACTIVE
    channel = source(net, u, 0)
    ends = False
    if visible(net, channel, c):
        beat = head(net, channel)
        ends = is_done(beat)
        if not ends and queued < limits.STORE_ADDRESSES:
            locate(net, u, beat, new)
            u.n_addresses += 1
            take(net, channel, c)
            flags |= BUSY
    flags |= store_cycle(net, u, c, goes_on, ends and not queued and not dues)
    if offered:
        flags |= acknowledge(net, u, due, c)
    return flags


@fast
def acknowledge(net, u, due, c):
    """The oldest acknowledgement leaves."""
    out = target(net, u, 0)
    if not ready(out, c):
        return BLOCKED
    beat = push(net, out, c, due.stop, due.data)
    beat.low = 1
    beat.high = 0
    commit(net, out, beat, c)
    u.first_due = (u.first_due + 1) % limits.STORE_TILES
    u.n_dues -= 1
    return BUSY


@fast
def due_number(u):
    """The place of the acknowledgement of the tile at the head of the addresses."""
    return (u.first_due + u.n_dues) % limits.STORE_TILES


@fast
def push_due(net, u, stop, data):
    due = Due(net, u.dues, due_number(u))
    due.stop = stop
    due.data = data
    u.n_dues += 1


@fast
def make_due(net, u, data):
    """Pop an address: its acknowledgement is due."""
    push_due(net, u, Placed(net, u.addresses, u.first_address).stop, data)
    u.first_address = (u.first_address + 1) % limits.STORE_ADDRESSES
    u.n_addresses -= 1


@fast
def store_cycle(net, u, c, goes_on, ends):
    """One cycle of a store; whether its steps may go on, and whether its Done may be taken as far
    as others know.
    """
    if u.done and not u.closed and u.in_flight == 0:
        u.closed = 1
        net.open -= 1
    blocks = u.n_blocks
    idle = blocks == 0 and not u.carries
    new = block_at(net, u, blocks)
    flags = 0
    waits = u.n_chunks
    if waits and not u.presents:
        present(net, u)
    if not idle and goes_on and (u.ahead or not u.presents):
        flags = step(net, u, waits)
    channel = source(net, u, u.n_ins - 1)
    if visible(net, channel, c):
        beat = head(net, channel)
        takes = True
        if beat.data:
            takes = blocks < 2
            if takes:
                gather(net, u, beat, new, c)
        elif is_done(beat):
            if u.gathered:
                fail(net, u, FAULT_STOP, c)
            takes = idle and ends
            if takes:
                take_done(net, u, c)
        if takes:
            take(net, channel, c)
            return flags | BUSY
    return flags | BLOCKED if u.presents else flags


# ---- beats into blocks


@fast
def take_done(net, u, c):
    u.done = 1
    if u.random:
        push_due(net, u, STOP_DONE, 0)
        take(net, source(net, u, 0), c)


@fast
def gather(net, u, beat, block, c):
    """A tile into the block that is being taken."""
    t = net.t
    if u.gathered == 0:
        block.rows = beat.rows
        block.cols = 0
    elif beat.cols and (beat.rows != block.rows or block.cols != u.gathered * t):
        fail(net, u, FAULT_ROWS, c)
    block.cols += beat.cols
    if net.has_values:
        values = singles(net.values)
        to = block.value + u.gathered * t
        start = beat.value
        line = u.line
        for r in range(t):
            for q in range(t):
                values[to + r * line + q] = values[start + r * t + q]
    u.gathered += 1
    if beat.stop or u.gathered == u.line // t:
        block.end = beat.stop
        u.n_blocks += 1
        u.gathered = 0


# ---- steps


@fast
def step(net, u, waits):
    """Present a chunk, or put one in the queue before the port, in which some wait; or pass a step
    without one in a cycle.
    """
    block = block_at(net, u, 0)
    rows = u.carry_rows if u.carries else block.rows
    if u.carry_cols == 0 and (u.carries or block.cols == 0):
        rows = np.int64(0)
    if rows == 0:
        step_on(net, u)
        return ACTIVE
    u.chunks_of_step = (rows + net.lanes - 1) // net.lanes
    if waits < u.ahead:
        ask(net, u)
        return ACTIVE
    if not u.ahead:
        present(net, u)
    return 0


@fast
def step_on(net, u):
    """The end of a step."""
    u.chunk = 0
    if u.carries:
        u.carries = 0
        row_on(net, u, u.carry_stop)
        return
    block = block_at(net, u, 0)
    skip = u.col % u.line
    u.step += 1
    u.carry_cols = max(block.cols + skip - u.line, 0)
    u.carry_rows = block.rows
    if skip:
        copy_values(net, block.value, u.carry_value, net.t * u.line)
    if block.end:
        if skip:
            u.carries = 1
            u.carry_stop = block.end
        else:
            row_on(net, u, block.end)
    pop_block(u)


@fast
def row_on(net, u, stop):
    """The next row of tiles: the next band, or the next logical tile."""
    u.step = 0
    u.carry_cols = 0
    u.band += 1
    if stop < 2:
        return
    u.band = 0
    if u.random:
        make_due(net, u, 1)
    elif u.order_length:
        u.order_at = (u.order_at + 1) % u.order_length
        place = u.order + 2 * u.order_at
        u.row = table(net, place)[0]
        u.col = table(net, place)[1]
    else:
        u.col += u.cols
        if u.col >= u.tensor_cols:
            u.col = 0
            u.row += u.rows


# ---- what is granted


@fast
def ask(net, u):
    """The chunk at hand, and on to the next."""
    chunk = next_chunk(net, u)
    block = block_at(net, u, 0)
    first = u.chunk * net.lanes
    rows = u.carry_rows if u.carries else block.rows
    count = min(net.lanes, rows - first)
    skip = u.col % u.line
    size = u.size
    row = u.row + u.band * net.t + first
    chunk.address = u.base + row * u.pitch + (u.col - skip + u.step * u.line) * size
    chunk.count = count
    own = 0 if u.carries else min(block.cols, u.line - skip)
    chunk.low = 0 if u.carry_cols else skip * size
    chunk.high = (skip + own if own else u.carry_cols) * size
    chunk.tag = 0
    if u.random:
        chunk.tag = due_number(u) << SLOT_BITS
        Due(net, u.dues, due_number(u)).lines += count
    u.in_flight += count
    if net.has_values:
        for i in range(count):
            line_of(net, u, block, chunk.value + i * u.line, first + i, skip, own)
    u.chunk += 1
    if u.chunk == u.chunks_of_step:
        step_on(net, u)


@fast
def line_of(net, u, block, to, r, skip, own):
    """The line of row `r` of a step."""
    values = singles(net.values)
    carried = u.carry_value + r * u.line + u.line - skip
    for j in range(u.carry_cols):
        values[to + j] = values[carried + j]
    start = block.value + r * u.line
    for j in range(own):
        values[to + skip + j] = values[start + j]


@fast
def grant_store(net, u, c):
    """The chunk that is presented goes to the memory."""
    if not u.ahead:
        ask(net, u)
    chunk = first_chunk(net, u)
    address = chunk.address
    for i in range(chunk.count):
        if address + chunk.low < u.low or address + chunk.high > u.high:
            fail(net, u, FAULT_ADDRESS, address)
            return
        send(net, u, c, address, chunk.tag | u.sequence + i, i, chunk.count)
        if net.has_values:
            write_line(net, u, chunk, address // u.size, chunk.value + i * u.line)
            if net.traced:  # `send` has just noted the line
                noted = Logged(net, net.log, net.logged - 1)
                noted.digest = np.int64(written_digest(net, u, address, chunk.low, chunk.high))
        address += u.pitch
    u.sequence += chunk.count
    net.lines_written += chunk.count


@fast
def write_line(net, u, chunk, at, start):
    """Write the part of a line that falls into the one that begins with element `at` of the
    memory.
    """
    values = singles(net.values)
    for j in range(chunk.low // u.size, chunk.high // u.size):
        write_element(net, u, at + j, values[start + j])


@fast
def write_element(net, u, at, x):
    """An element: bf16, or fp32 in two halves."""
    memory = halves(net.memory)
    if u.size == 4:
        memory[2 * at] = np.uint16(x & np.uint32(0xFFFF))
        memory[2 * at + 1] = np.uint16(x >> np.uint32(16))
    else:
        memory[at] = np.uint16(x >> np.uint32(16))


@fast
def written_digest(net, u, address, low, high):
    """Digest of the data written to a line (docs/timing.md section 5): the bytes from `low` to
    `high`, the others as 0, and a bit for each byte that is written.
    """
    memory = halves(net.memory)
    h = np.uint64(FNV_OFFSET)
    for word in range(u.line * u.size // 4):
        x = np.uint64(0)
        for half in range(2):
            at = 4 * word + 2 * half
            if low <= at < high:
                x |= np.uint64(memory[(address + at) // 2]) << np.uint64(16 * half)
        h = put_word(net, h, x, 0)
    for part in range((u.line * u.size + 31) // 32):
        x = np.uint64(0)
        for byte in range(32):
            if low <= 32 * part + byte < high:
                x |= np.uint64(1) << np.uint64(byte)
        h = put_word(net, h, x, 0)
    return h


@fast
def delivered_store(net, u, tag, c):
    """A line is acknowledged; returns its number."""
    u.in_flight -= 1
    waits = u.in_flight
    if u.random:
        due = Due(net, u.dues, tag >> SLOT_BITS)
        due.lines -= 1
        waits = due.lines
    if waits == 0:
        wake(net, u.id, c + 1)
    return tag & ((np.int64(1) << SLOT_BITS) - 1)
