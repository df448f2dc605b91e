"""`load` (docs/timing.md section 5): a generator of requests and an assembly of tiles walk the same
loop nest.
"""

from __future__ import annotations

import math

import numpy as np

from ...machine import limits
from ...machine.errors import RunError
from ..records import fast, halves, record, singles, table
from .offchip import (
    Placed,
    begin_port,
    block_at,
    clamp,
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
    acts,
    fail,
    head,
    is_done,
    push_bare,
    push_done,
    push_tile,
    ready,
    source,
    take,
    target,
    visible,
    wake,
)
from .tiles import copy_values

BY_REF, BY_ADDRESS = range(1, 3)
TRIGGER_RING = 32
GROUP_BITS = 8
"""Bits of a line's tag below its group: the line within it."""


@record
class Group:
    """A chunk of lines that were requested."""

    missing: int  # lines that are not here yet
    sequence: int  # number of the first


@record
class LoadLoop:
    """A loop dimension of the walk."""

    trips: int
    rows: int  # step of the origin
    cols: int


@record
class Walk:
    """A position in the walk, and values derived from it."""

    done: int
    row: int  # origin of the logical tile
    col: int
    tile: int  # its number
    indices: int  # of the loops
    band: int
    step: int
    chunk: int
    valid_rows: int  # v, C', k, n, S: of the band
    valid_cols: int
    skip: int
    lines: int
    steps: int
    chunks: int  # of a line
    stop: int  # at the end of the band
    # triggered: the queue, whether its head is being walked, and the head's stop
    queued: int
    at: int
    holds: int
    above: int


@port
class Load:
    """State of a `load`."""

    begun: int
    rank: int
    loops: int  # `LoadLoop`s
    generator: int  # `Walk`s
    assembler: int
    ring: int  # `Group`s: `used` of them, the oldest at `ring_first`
    groups: int
    used: int
    ring_first: int
    ring_end: int
    ring_value: int
    lines_value: int  # the line of a band at hand, and that before it
    tile: int  # tiles of the first block that have left
    done: int  # Done has left
    trigger: int
    empty: int  # the loop nest has no trip
    ending: int  # Done was taken
    triggers: int  # `Placed`s, for generator and assembly each at its own pace
    triggers_end: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        _check(u)
        own = begin_port(layout, u, layout.graph.outputs(u.id)[0].payload)
        t = layout.graph.t
        lanes = layout.machine.port_lanes
        groups = layout.machine.load_lines // lanes
        loops = zip(p.shape, p.row_step, p.col_step, strict=True)
        trigger = p.trigger
        empty = 0 in p.shape or p.rows <= 0 or p.cols <= 0
        row, col = p.order[0] if p.order else (0, 0)
        walks = layout.records(
            Walk,
            [
                {
                    "done": empty or bool(trigger),
                    "row": row,
                    "col": col,
                    "indices": layout.alloc(p.rank),
                }
                for _ in range(2)
            ],
        )
        return own | {
            "rank": p.rank,
            "loops": layout.put([x for loop in loops for x in loop]),
            "generator": walks,
            "assembler": walks + Walk.words,
            "ring": layout.alloc(groups * Group.words),
            "groups": groups,
            "ring_value": layout.alloc_values(groups * lanes * own["line"]),
            "lines_value": layout.alloc_values(2 * t * own["line"]),
            "done": bool(trigger),
            "trigger": {"ref": BY_REF, "address": BY_ADDRESS}.get(trigger, 0),
            "empty": empty,
            "triggers": layout.alloc(TRIGGER_RING * Placed.words if trigger else 0),
        }


def _check(u) -> None:
    p = u.kind
    if p.rank != len(p.shape):
        raise RunError(
            f"has {len(p.shape)} loop dimensions, rank {p.rank}", u.name, "rank is their number"
        )
    if p.order and len(p.order) != math.prod(p.shape):
        raise RunError(
            f"lists {len(p.order)} places for {math.prod(p.shape)} logical tiles",
            u.name,
            "an order has one place per tile of the walk",
        )


@acts(Load, "load")
def load(net, u, c):
    generator = Walk(net, u.generator, 0)
    assembler = Walk(net, u.assembler, 0)
    if not u.begun:
        u.begun = 1
        walk_band(net, u, generator)
        walk_band(net, u, assembler)
    ending = u.ending
    flags = 0
    if u.trigger:
        next_trigger(net, u, generator, c)
        next_trigger(net, u, assembler, c)
        flags = take_trigger(net, u, c, generator, assembler)
    flags |= request(net, u, generator)
    blocks = u.n_blocks
    assembled = assembler.done
    if not assembled:
        flags |= assemble(net, u, assembler, blocks)
    if blocks:
        return flags | emit(net, u, c)
    if assembled and not u.done and (ending or not u.trigger):
        return flags | emit_done(net, u, c)
    return flags | BLOCKED if u.presents else flags


# ---- the walk


@fast
def walk_band(net, u, walk):
    """Derive a band's counts from its position."""
    t = net.t
    rows = clamp(u.tensor_rows - walk.row, u.rows)
    walk.valid_rows = clamp(rows - walk.band * t, t)
    walk.valid_cols = clamp(u.tensor_cols - walk.col, u.cols)
    walk.skip = walk.col % u.line
    walk.lines = 0
    if walk.valid_rows and walk.valid_cols:
        walk.lines = (walk.skip + walk.valid_cols + u.line - 1) // u.line
    walk.steps = (u.cols + u.line - 1) // u.line + (1 if walk.skip else 0)
    walk.chunks = (walk.valid_rows + net.lanes - 1) // net.lanes
    walk.step = 0
    walk.chunk = 0
    walk.stop = 1
    if (walk.band + 1) * t >= u.rows:
        walk.stop = 2
        for d in range(u.rank - 1, -1, -1):
            if table(net, walk.indices)[d] + 1 < LoadLoop(net, u.loops, d).trips:
                break
            walk.stop += 1


@fast
def walk_on(net, u, walk):
    """Move to the next band."""
    walk.band += 1
    if walk.band * net.t >= u.rows:
        walk.band = 0
        if not next_tile(net, u, walk):
            walk.done = 1
            return
        if u.order_length:
            walk.tile += 1
            place = u.order + 2 * walk.tile
            walk.row = table(net, place)[0]
            walk.col = table(net, place)[1]
    walk_band(net, u, walk)


@fast
def next_tile(net, u, walk):
    """Move to the next logical tile of the loop nest; False: there is none."""
    indices = table(net, walk.indices)
    for d in range(u.rank - 1, -1, -1):
        loop = LoadLoop(net, u.loops, d)
        indices[d] += 1
        walk.row += loop.rows
        walk.col += loop.cols
        if indices[d] < loop.trips:
            return True
        indices[d] = 0
        walk.row -= loop.trips * loop.rows
        walk.col -= loop.trips * loop.cols
    return False


# ---- triggers


@fast
def next_trigger(net, u, walk, c):
    """Let a walk that has come to its end go on with the head of its queue, which may have to pass
    a register first.
    """
    if not walk.done:
        return
    if walk.holds:
        walk.queued -= 1
        walk.at = (walk.at + 1) & (TRIGGER_RING - 1)
        walk.holds = 0
    if walk.queued:
        trigger = Placed(net, u.triggers, walk.at)
        if staged(u) and trigger.taken == c - 1:
            return
        walk.holds = 1
        walk.done = 0
        walk.above = trigger.stop
        walk.row = trigger.row
        walk.col = trigger.col
        walk.tile = 0
        walk_band(net, u, walk)
        if trigger.hollow:
            walk.lines = 0
            walk.steps = 0
            walk.chunk = 0


@fast
def staged(u):
    """True if a register is between each queue of triggers and its walk."""
    return u.ahead > 0 and u.trigger == BY_ADDRESS


@fast
def take_trigger(net, u, c, generator, assembler):
    """One cycle of the trigger input, with both walks as at its start."""
    flags = 0
    if (generator.queued and not generator.holds) or (assembler.queued and not assembler.holds):
        flags = ACTIVE  # its head is on the way through the register
    channel = source(net, u, 0)
    if not visible(net, channel, c) or u.ending:
        return flags
    beat = head(net, channel)
    ahead = generator.queued
    behind = assembler.queued
    if is_done(beat):
        if ahead or behind:
            return flags
        u.ending = 1
        u.done = 0
    else:
        if staged(u):
            ahead -= generator.holds
            behind -= assembler.holds
        if ahead == limits.TRIGGERS_AHEAD or behind == limits.TRIGGERS_BEHIND:
            return flags
        trigger = Placed(net, u.triggers, u.triggers_end)
        u.triggers_end = (u.triggers_end + 1) & (TRIGGER_RING - 1)
        trigger.row = 0
        trigger.col = 0
        if u.trigger == BY_ADDRESS:
            locate(net, u, beat, trigger)
        elif u.order_length:
            trigger.row = table(net, u.order)[0]
            trigger.col = table(net, u.order)[1]
        trigger.stop = beat.stop
        trigger.hollow = u.empty | (1 - beat.data)
        trigger.taken = c
        Walk(net, u.generator, 0).queued += 1
        Walk(net, u.assembler, 0).queued += 1
    take(net, channel, c)
    return BUSY


# ---- requests (rule 1)


@fast
def request(net, u, walk):
    """Present the next chunk; put another one in the queue before the port."""
    waits = u.n_chunks
    if waits and not u.presents and u.used < u.groups:
        present(net, u)
    if walk.done or (u.presents and not u.ahead):
        return 0
    if walk.lines == 0:
        if walk.steps:
            walk_on(net, u, walk)
        else:
            walk.done = 1
        return ACTIVE
    if waits < u.ahead:
        ask(net, u, walk)
        return ACTIVE
    if not u.ahead and u.used < u.groups:
        present(net, u)
    return 0


@fast
def ask(net, u, walk):
    """The chunk at hand, and on to the next."""
    chunk = next_chunk(net, u)
    first = walk.chunk * net.lanes
    row = walk.row + walk.band * net.t + first
    column = walk.col - walk.skip + walk.step * u.line
    chunk.address = u.base + row * u.pitch + column * u.size
    chunk.count = min(net.lanes, walk.valid_rows - first)
    walk.chunk += 1
    if walk.chunk == walk.chunks:
        walk.chunk = 0
        walk.step += 1
        if walk.step == walk.lines:
            walk_on(net, u, walk)


@fast
def grant_load(net, u, c):
    """The chunk that is presented goes to the memory."""
    if not u.ahead:
        ask(net, u, Walk(net, u.generator, 0))
    chunk = first_chunk(net, u)
    address = chunk.address
    count = chunk.count
    number = u.ring_end
    group = Group(net, u.ring, number)
    group.missing = count
    group.sequence = u.sequence
    for i in range(count):
        if address < u.low or address + u.line * u.size > u.high:
            fail(net, u, FAULT_ADDRESS, address)
            return
        send(net, u, c, address, number << GROUP_BITS | i, i, count)
        if net.has_values:
            read_line(net, u, address, u.ring_value + (number * net.lanes + i) * u.line)
        address += u.pitch
    u.sequence += count
    net.lines_read += count
    u.ring_end = number + 1 if number + 1 < u.groups else 0
    u.used += 1


@fast
def read_line(net, u, address, to):
    """The values of a line: bf16, or fp32 in two halves."""
    memory = halves(net.memory)
    values = singles(net.values)
    at = address >> 1
    line = u.line
    if u.size == 4:
        for j in range(line):
            low = np.uint32(memory[at + 2 * j])
            values[to + j] = low | np.uint32(memory[at + 2 * j + 1]) << np.uint32(16)
    else:
        for j in range(line):
            values[to + j] = np.uint32(memory[at + j]) << np.uint32(16)


@fast
def delivered_load(net, u, tag, c):
    """A line is here; returns its number."""
    group = Group(net, u.ring, tag >> GROUP_BITS)
    group.missing -= 1
    if group.missing == 0:
        wake(net, u.id, c + 1)
    return group.sequence + (tag & ((1 << GROUP_BITS) - 1))


# ---- assembly (rule 4)


@fast
def assemble(net, u, walk, blocks):
    """Move the oldest group into its line, and cut a block; `blocks` at the start of the cycle."""
    if walk.steps == 0:  # a trigger of no tile
        if blocks == 2:
            return 0
        block = block_at(net, u, blocks)
        block.tiles = 0
        block.end = 2 + u.rank + walk.above
        u.n_blocks += 1
        walk.done = 1
        return ACTIVE
    moves = walk.step < walk.lines
    last = not moves or walk.chunk == walk.chunks - 1
    pushes = last and (walk.step >= 1 or walk.skip == 0)
    if moves and (u.used == 0 or Group(net, u.ring, u.ring_first).missing > 0):
        return 0
    if pushes and blocks == 2:
        return 0
    if moves:
        move_group(net, u, walk)
    if pushes:
        push_block(net, u, walk, block_at(net, u, blocks))
    if last:
        walk.chunk = 0
        walk.step += 1
        if walk.step == walk.steps:
            walk_on(net, u, walk)
    else:
        walk.chunk += 1
    return ACTIVE


@fast
def line_value(net, u, step):
    """Place of the values of the line of a step, row by row."""
    return u.lines_value + (step & 1) * net.t * u.line


@fast
def move_group(net, u, walk):
    """The values of the oldest group, into their line."""
    first = walk.chunk * net.lanes
    rows = min(net.lanes, net.t - first)
    start = u.ring_value + u.ring_first * net.lanes * u.line
    to = line_value(net, u, walk.step) + first * u.line
    copy_values(net, start, to, rows * u.line)
    u.used -= 1
    u.ring_first = u.ring_first + 1 if u.ring_first + 1 < u.groups else 0


@fast
def push_block(net, u, walk, block):
    """The tiles of a line, from the lines of this step and the one before."""
    t = net.t
    j = walk.step - 1 if walk.skip else walk.step
    tiles = (u.cols + t - 1) // t
    block.first = j * (u.line // t)
    block.tiles = min(u.line // t, tiles - block.first)
    block.rows = walk.valid_rows
    block.cols = walk.valid_cols
    block.end = 0
    if block.first + block.tiles == tiles:
        block.end = walk.stop
        if walk.stop == 2 + u.rank:
            block.end += walk.above
    u.n_blocks += 1
    if net.has_values:
        before = line_value(net, u, walk.step - 1 if walk.skip else walk.step)
        cut(net, u, walk, block, before, line_value(net, u, walk.step))


@fast
def cut(net, u, walk, block, low, high):
    """The elements of a block's tiles: columns from `skip` on of the line at `low`, then those of
    the line at `high`.
    """
    t = net.t
    line = u.line
    skip = walk.skip
    rows = walk.valid_rows
    cols = walk.valid_cols - block.first * t
    values = singles(net.values)
    to = block.value
    for i in range(block.tiles):
        for r in range(t):
            for q in range(t):
                column = i * t + q
                x = np.uint32(0)
                if r < rows and column < cols:
                    at = skip + column
                    if at < line:
                        x = values[low + r * line + at]
                    else:
                        x = values[high + r * line + at - line]
                values[to] = x
                to += 1


# ---- emission (rule 5)


@fast
def emit(net, u, c):
    """The next tile of the first block leaves."""
    out = target(net, u, 0)
    if not ready(out, c):
        return BLOCKED
    t = net.t
    block = block_at(net, u, 0)
    i = u.tile
    last = i + 1 >= block.tiles
    if block.tiles:
        cols = clamp(block.cols - (block.first + i) * t, t)
        stop = block.end if last else 0
        push_tile(net, out, c, stop, block.rows, cols, block.value + i * t * t)
    else:
        push_bare(net, out, c, block.end)
    u.tile = i + 1
    if last:
        u.tile = 0
        pop_block(u)
    return BUSY


@fast
def emit_done(net, u, c):
    out = target(net, u, 0)
    if not ready(out, c):
        return BLOCKED
    push_done(net, out, c)
    u.done = 1
    u.ending = 0
    return BUSY
