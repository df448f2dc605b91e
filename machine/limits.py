"""Widths and queue sizes of the `machine` timing's memories: one definition for the model, the
hardware and the checks.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from .errors import PenstockError

SIZE_BITS = 20
"""Bits of sizes, counts and steps, in elements, and of repeats."""
POSITION_BITS = 24
"""Bits of a position in a tensor, in elements."""
ADDRESS_BITS = 32
"""Bits of a byte address and of a pitch."""
TRIGGERS_AHEAD = 2
TRIGGERS_BEHIND = 16
"""Triggers that wait for a load's generator, and for its assembly (docs/timing.md section 5)."""
CHUNKS_AHEAD = 2
"""Chunks that wait before an off-chip port, with deep pipelines."""
STORE_ADDRESSES = 2
STORE_TILES = 8
"""Addresses that wait in a random store, and tiles whose acknowledgement is due at most."""
REFERENCES = 2
TILES = 4
"""References that wait in a scratchpad's writer, and tiles in its reader."""
ABSENT = 32
"""Tiles off-chip that a scratchpad's reader has asked for, and not given yet, at most."""
SLOTS = 4
BLOCKS = 2
"""Blocks that a load or a store holds, and that wait in their queues."""
FLIGHT_BITS = 32
"""Bits of the number of lines of a store that are granted and not acknowledged."""
COUNT_BITS = 10
DELTA_BITS = 9
"""Bits of a buffer's reference count, and of a change of it (signed)."""
PAGES_BITS = 16
"""Bits of the number of pages of a buffer."""
UNIT_BITS = 14
"""Bits of a unit's number, where its counters are addressed."""
REGISTER_BITS = 16
"""Bits of the address of a run-time register."""
PORT_BITS = 10
TAG_BITS = 16
"""Bits of the number of an off-chip port, and of a line's tag (docs/top.md)."""
RESPONSE_LANES = range(1, 129)
"""Lines that the off-chip memory delivers in a cycle at most."""
BEAT_CLASSES = (128, 1024, 4352, 8448, 17408, 34816)
"""Widths for which the bench has a recorder, in bits; four fp32 tiles of 16 x 16 fit the last."""
BEAT_BITS = BEAT_CLASSES[-1]
"""Bits of a beat, stop and data included."""
NUMBER_BITS = 256
"""Bits of a selector, its targets; of a scalar 128."""
SCALAR_BITS = 128
INPUT_BITS = 1 << 18
"""Bits of all the inputs of a fabric: streams of sources, responses of the memory."""
UNITS = range(1, (1 << UNIT_BITS) + 1)
PORTS = range((1 << PORT_BITS) + 1)
REGISTERS = range((1 << REGISTER_BITS) + 1)
LOAD_LINES = range(1, (1 << TAG_BITS) + 1)
"""Number of them in a fabric, and lines of a load's ring."""
SIZES = range(1 << SIZE_BITS)
COUNTS = range(1, 1 << SIZE_BITS)
"""Values of sizes, steps and repeats that may be 0, and of those that may not."""
STREAM_BEATS = range(1, 513)
"""Beats of the memory of a source, and of a sink."""
STREAM_FROM = 1
"""The cycle from which a source offers the first beat of its memory."""
ADDRESSES = range(1 << ADDRESS_BITS)
PAGES = range(1, 1 << PAGES_BITS)
SHIFTS = range(ADDRESS_BITS)
FRAMES = range(1, 1 << 12)
SPILLED = range(1 << 16)
"""Tiles of a buffer that lie off-chip."""

CHANNEL_DEPTHS = range(1, (1 << 16) + 1)
"""Beats that a channel holds."""
CYCLES = range(1, 10**6 + 1)
"""Latencies and intervals of a memory, in cycles."""
WORDS = range(1, (1 << 20) + 1)
"""Words of a memory of a PE."""
SIDES = range(1, 17)
"""Sides of an overlay's mesh, in PEs."""
SEEDS = range(1 << 31)
MOST_SECONDS = 10**7
"""A limit of time."""
TILE_SIDES = range(1 << 16)
"""Physical rows and columns of a tile that pads."""
REPEATS = range(1, 1 << 32)
"""Copies of a beat, and beats that a chunk or a function counts."""
DIVISORS = range(4, 1 << 16)
"""Clock cycles of a bit on a serial line; fewer leave no middle."""
RATES = range(1, (1 << 40) + 1)
"""Bytes or FLOP in a cycle."""
QUEUES = range(1, (1 << 16) + 1)
"""Entries of a queue or of a memory, where no width above says less."""


def within(
    name: str,
    value: object,
    allowed: range,
    where: str | None = None,
    error: type[PenstockError] = PenstockError,
) -> int:
    """``value``, an integer of a range; for any other ``error``, with its name and the range."""
    if type(value) is int and value in allowed:
        return value
    shown = (
        str(value)
        if type(value) is not int or abs(value) < 10**24
        else "one of more than 24 digits"
    )
    raise error(
        f"{name} must be an integer from {allowed[0]} to {allowed[-1]}, not {shown[:40]}", where
    )


RESET_CYCLES = 3
"""Cycles of reset after the last register is written: units precompute products of their parameters
in the last ones.
"""


def metadata_bits(pages: int, drops: bool = False, writers: int = 1, posts: int = 0) -> int:
    """Bits that a scratchpad of ``pages`` pages keeps besides its tiles: links of chains and of the
    free list and two marks that say which of them holds, reference counts (a word for what opens
    buffers, for what reads them, and for each post), last page, number of pages and writer of each
    buffer, and, with ``drops``, which buffers wait to be freed (docs/timing.md section 4).
    """
    page = max(2, pages) - 1
    count = pages.bit_length()
    links = 2 * page.bit_length() + count + 2
    words = COUNT_BITS * (2 + posts)
    return pages * (links + words + count + (writers - 1).bit_length() + drops)


def meaning(text: str, allowed: range | None = None) -> dict[str, object]:
    """A configuration field's meaning, unit and source, and the range of an integer."""
    return {"doc": text, "allowed": allowed}


def described(default: Any, text: str, allowed: range | None = None) -> Any:
    """A field of a configuration with its default; further arguments as of :func:`meaning`."""
    return field(default=default, metadata=meaning(text, allowed))
