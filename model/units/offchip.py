"""Parts that `load`, `store` and `random_store` share: tensors, lines and blocks (docs/timing.md
section 5).
"""

from __future__ import annotations

from .. import dram
from ..dram_words import FULL, TAKEN
from ..records import extends, fast, record, words
from .state import FAULT_ADDRESS, FAULT_FLIGHT, FAULT_RECORDED, SENT, Unit, fail, note, wake

TAG_BITS = 44
"""Bits of a line's number in the off-chip memory below its port."""


@record
class Block:
    """The tiles of one line of a row of tiles; no tiles: a bare stop."""

    tiles: int
    first: int  # tiles of the row before it
    rows: int  # valid ones; columns, of the row of tiles (load), of the block (store)
    cols: int
    end: int  # stop of its last tile
    value: int


@record
class Chunk:
    """Lines that an off-chip unit asks for, or writes."""

    address: int  # of the first
    count: int
    low: int  # bytes of each that are written: the first one, and the first one after them
    high: int
    tag: int
    value: int  # what is written, a line behind the other


@record
class Placed:
    """A trigger of a load, an address of a store: where a logical tile lies."""

    stop: int
    hollow: int  # there is none
    row: int
    col: int
    taken: int  # the cycle


@extends(Unit)
class Port:
    """State of an off-chip unit."""

    loads: int
    base: int  # of the tensor, a byte address
    pitch: int  # bytes from a row to the next
    low: int  # byte addresses of the tensor: the first, and the first one after it
    high: int
    tensor_rows: int
    tensor_cols: int
    rows: int  # of a logical tile
    cols: int
    line: int  # elements of a line
    size: int  # bytes of an element
    shift: int  # bits of an address that number the tiles of a row
    order: int  # row and column of each logical tile, where they are listed
    order_length: int
    order_at: int
    presents: int  # a chunk
    sequence: int  # lines granted
    ahead: int  # chunks that may wait before the port; 0: they are presented at once
    chunks: int  # `Chunk`s: `n_chunks` wait, the first at `first_chunk`
    first_chunk: int
    n_chunks: int
    blocks: int  # two `Block`s: `n_blocks` in use, the first at `first_block`
    first_block: int
    n_blocks: int


port = extends(Port)
"""Declares the state of an off-chip unit."""


def begin_port(layout, u, payload) -> dict:
    """The words of a port that do not begin as 0."""
    p = u.kind
    line = layout.machine.widths.line // payload.element_bits
    listed = getattr(p, "order", None) or []
    size = layout.graph.t * line
    chunk = 0 if u.kind.name == "load" else layout.machine.port_lanes * line
    chunks = [
        {"value": layout.alloc_values(chunk)} for _ in range(max(layout.machine.chunks_ahead, 1))
    ]
    return {
        "loads": u.kind.name == "load",
        "base": p.base,
        "pitch": p.pitch,
        "low": p.base,
        "high": p.base + p.tensor_rows * p.pitch,
        "tensor_rows": p.tensor_rows,
        "tensor_cols": p.tensor_cols,
        "rows": p.rows,
        "cols": p.cols,
        "line": line,
        "size": payload.element_bits // 8,
        "shift": getattr(p, "shift", None) or 0,
        "order": layout.put([x for place in listed for x in place]),
        "order_length": len(listed),
        "ahead": layout.machine.chunks_ahead,
        "chunks": layout.records(Chunk, chunks),
        "blocks": layout.records(Block, [{"value": layout.alloc_values(size)} for _ in range(2)]),
    }


@fast
def clamp(x, high):
    return min(max(x, 0), high)


@fast
def block_at(net, u, i):
    """The `i`-th block of the queue."""
    return Block(net, u.blocks, (u.first_block + i) & 1)


@fast
def pop_block(u):
    u.first_block = 1 - u.first_block
    u.n_blocks -= 1


@fast
def present(net, u):
    """Ask the interconnect for a chunk."""
    u.presents = 1
    net.presented += 1


@fast
def next_chunk(net, u):
    """Place of the next chunk of the walk."""
    at = u.first_chunk + u.n_chunks
    u.n_chunks += 1
    return Chunk(net, u.chunks, at - u.ahead if u.ahead and at >= u.ahead else at)


@fast
def first_chunk(net, u):
    """The chunk that is granted leaves the queue."""
    chunk = Chunk(net, u.chunks, u.first_chunk)
    u.first_chunk = u.first_chunk + 1 if u.first_chunk + 1 < u.ahead else 0
    u.n_chunks -= 1
    return chunk


@fast
def locate(net, u, beat, placed):
    """Place of a logical tile that an address names."""
    placed.stop = beat.stop
    placed.hollow = 1 - beat.data
    if beat.data:
        placed.row = (beat.low >> u.shift) * u.rows
        placed.col = (beat.low & ((1 << u.shift) - 1)) * u.cols
        if placed.row >= u.tensor_rows or placed.col >= u.tensor_cols:
            at = u.base + placed.row * u.pitch + placed.col * u.size
            fail(net, u, FAULT_ADDRESS, at)


@fast
def send(net, u, c, address, tag, lane, count):
    """One line of a chunk granted in `c`; `tag` identifies it to its port."""
    line = u.port << TAG_BITS | tag
    memory = words(net.dram)
    at = dram.accept(memory, c + 1, line, lane, count, address, 1 - u.loads)
    if at < 0:
        fail(net, u, FAULT_FLIGHT if at == FULL else FAULT_RECORDED, c)
        return
    wake(net, net.dram_unit, at)
    if net.traced:
        note(net, SENT, u.port, max(c, memory[TAKEN] - 1), address)
