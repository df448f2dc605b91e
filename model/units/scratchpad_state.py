"""State of a `scratchpad`: frames, writers, readers, and how they begin."""

from __future__ import annotations

import math

import numpy as np

from ...machine import beat as beats
from ...machine import limits
from ...machine.beat import STOP_DONE
from ..records import fast, record
from .state import Beat, unit

ENDED = 8
"""A flag of a port: it took its Done."""

REFERENCES = 2
"""Entries of a writer's queue of references."""
TILES = 4
"""Entries of a reader's queue of tiles."""
ABSENTS = limits.ABSENT
"""Entries of its queue of tiles off-chip, a power of two."""

COUNT_BITS = 16
"""Bits of a stored tile's rows and of its columns."""


@record
class Frame:
    """A stored tile: its columns, rows, data and stop in one word, as large buffers do not fit into
    a processor's cache.
    """

    about: int


@fast
def packed(beat):
    """A tile's beat without its values."""
    counts = beat.cols << COUNT_BITS | beat.rows
    return counts << 5 | beat.data << 4 | beat.stop


@fast
def unpack(about, entry):
    """The reverse; the stop is for the caller."""
    entry.data = about >> 4 & 1
    entry.rows = about >> 5 & ((1 << COUNT_BITS) - 1)
    entry.cols = about >> (5 + COUNT_BITS)
    return about & 15


@record
class Absent:
    """A tile off-chip that a reader has asked for."""

    due: int
    about: int
    stop: int
    at: int  # its number in the block
    last: int  # whether no other of the block follows


@record
class Writer:
    """A writer: the buffer that it fills, and the references that are to leave."""

    rank: int  # of a buffer
    limit: int  # buffers it may hold, and holds
    holds: int
    first: int  # first page of the open buffer, or -1
    page: int  # its last one
    fill: int  # frames of that
    count: int  # tiles of the buffer
    before: int  # stop of the beat before
    asks: int
    queue: int  # `Beat`s
    at: int
    queued: int
    over: int  # its Done was taken, and not that of all writers


@record
class Loop:
    """A loop dimension of affine reads."""

    trips: int
    stride: int
    index: int


@record
class Reader:
    """A reader: the buffer that it reads, and the tiles that are to leave."""

    rank: int
    turns: int  # how often it reads a buffer; 0: there is no such dimension
    is_dimension: int  # whether these are one
    list: int  # the turns of one buffer after the other, where they differ
    list_length: int
    list_at: int
    ref: int  # level of the stream that drives the reads, or -1
    tokens: int  # its channel
    ordered: int  # whether tiles are read in an order of their own
    n_loops: int  # of affine reads, the loops
    loops: int
    order: int  # of listed reads, tile and stop of each beat of a pass
    pages: int  # of such reads, the pages of the buffer, as far as known
    known: int
    holds: int  # a reference
    first: int  # its page; -1: none, groups without a buffer
    tiles: int
    stop: int
    span: int  # tiles of a pass
    turn: int
    left: int  # tiles of this pass
    page: int  # the next tile, where reads are not affine
    frame: int
    tile: int  # the next tile, where they are
    asks: int
    queue: int  # `Beat`s
    at: int
    queued: int
    # tiles off-chip: `away` of them are asked for, the first at `absent_at`
    absent: int  # `Absent`s
    absent_at: int
    away: int
    place: int  # in its block, of the next tile that comes
    rest: int  # whether the rest of that block is dropped
    drains: int  # all is asked for of the last pass over a buffer that is partly off-chip


@unit
class Scratchpad:
    """State of a `scratchpad`."""

    n_pages: int
    frames: int  # of a page
    free: int  # first of the free pages
    n_free: int
    following: int  # page after each page: of its buffer, or free
    last_pages: int  # of the buffer that begins with a page: its last one
    owners: int  # and the writer that made it
    counts: int
    used: int  # pages in use, and most of them
    peak: int
    tiles: int  # `Frame`s
    value: int
    writers: int
    n_writers: int
    write_turn: int
    readers: int
    n_readers: int
    read_turn: int
    # off-chip (0: never): tiles of a buffer at most, of a block; blocks not yet acknowledged; the
    # first of these outputs, and of the inputs
    spill: int
    block: int
    in_flight: int
    spill_outs: int
    spill_ins: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        tiles = p.on_chip
        return {
            "n_pages": p.pages,
            "frames": p.frames,
            "n_free": p.pages,
            "following": layout.put(np.append(np.arange(1, p.pages), 0)),
            "last_pages": layout.alloc(p.pages),
            "owners": layout.alloc(p.pages),
            "counts": layout.counts[u.id],
            "tiles": layout.alloc((tiles + p.spill) * Frame.words),
            "value": layout.alloc_values(tiles * layout.graph.t**2),
            "writers": layout.records(Writer, _begin_writers(layout, p)),
            "n_writers": len(p.writers),
            "readers": layout.records(Reader, _begin_readers(layout, u)),
            "n_readers": len(p.readers),
            "spill": p.spill,
            "block": p.block,
            "spill_outs": p.clients,
            "spill_ins": p.clients + p.driven,
        }


def _begin_writers(layout, p) -> list[dict]:
    return [
        {
            "rank": w["rank"],
            "limit": limit,
            "first": -1,
            "before": STOP_DONE,
            "queue": layout.alloc(REFERENCES * Beat.words),
        }
        for w, limit in zip(p.writers, p.limit, strict=True)
    ]


def _begin_readers(layout, u) -> list[dict]:
    p = u.kind
    ports = len(p.writers) + len(p.readers)
    tokens = iter(layout.graph.inputs(u.id)[ports:])
    shapes = iter(p.shape)
    strides = iter(p.stride)
    readers = []
    for i, r in enumerate(p.readers):
        turns = r.get("turns") or []
        loops = [(next(shapes), next(strides), 0) for _ in range(r.get("affine") or 0)]
        listed = r.get("listed") or []
        ordered = bool(loops or listed)
        readers.append(
            {
                "rank": r["rank"],
                "turns": p.repeat[i] if r["repeat_dim"] else 0,
                "is_dimension": bool(r["repeat_dim"]),
                "list": layout.put(turns),
                "list_length": len(turns),
                "ref": r.get("ref", -1),
                "tokens": layout.channel_at(next(tokens).id) if "ref" in r else 0,
                "ordered": ordered,
                "n_loops": len(loops),
                "loops": layout.put([x for loop in loops for x in loop]),
                "order": layout.put([x for entry in listed for x in entry]),
                "pages": layout.alloc(p.pages if ordered else 0),
                "span": len(listed) or math.prod(trips for trips, _, _ in loops),
                "queue": layout.beats(beats.Tile(layout.graph.t, "fp32"), TILES),
                "absent": layout.alloc(ABSENTS * Absent.words if p.spill else 0),
            }
        )
    return readers
