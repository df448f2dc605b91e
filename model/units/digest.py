"""Digest of a beat, as the trace has it (docs/timing.md section 6)."""

from __future__ import annotations

import numpy as np

from ..records import fast, record, singles, table


@record
class Leaf:
    """A member of a payload: bits of an element, 0 where it is no tile; of its two numbers."""

    element: int
    first: int
    second: int


@fast
def put_word(net, h, word, to):
    """A further word of a digest (FNV-1a), kept at `to` unless that is 0."""
    low = word & np.uint64(0xFFFFFFFF)
    if to:
        table(net, to)[0] = np.int64(low)
    return (h ^ low) * np.uint64(0x100000001B3)


@fast
def digest(net, channel, beat, to):
    """FNV-1a over the beat's bits in 32-bit words (docs/timing.md section 6); with `to` not 0, the
    words are kept from there on.
    """
    h = np.uint64(0xCBF29CE484222325)
    half = np.uint64(32)
    word = np.uint64(0)
    bits = np.int64(0)
    step = 1 if to else 0
    values = singles(net.values)
    data = beat.data
    value = beat.value
    tiles = net.t * net.t
    for member in range(channel.n_numbers >> 1):
        leaf = Leaf(net, channel.leaves, member)
        element = leaf.element
        if element:
            down = np.uint64(32 - element)
            for i in range(tiles):
                x = np.uint64(values[value + i]) >> down if data else np.uint64(0)
                word |= x << np.uint64(bits)
                bits += element
                if bits >= 32:
                    h = put_word(net, h, word, to)
                    to += step
                    word >>= half
                    bits -= 32
            value += tiles
        for j in range(2):
            x = np.uint64(beat.numbers[2 * member + j]) if data else np.uint64(0)
            width = leaf.first if j == 0 else leaf.second
            while width > 0:
                part = min(width, 32)
                word |= (x & ((np.uint64(1) << np.uint64(part)) - np.uint64(1))) << np.uint64(bits)
                x >>= np.uint64(part)
                bits += part
                width -= part
                if bits >= 32:
                    h = put_word(net, h, word, to)
                    to += step
                    word >>= half
                    bits -= 32
    word |= np.uint64(beat.stop | beat.data << 4) << np.uint64(bits)
    bits += 5
    while bits > 0:
        h = put_word(net, h, word, to)
        to += step
        word >>= half
        bits -= 32
    return h
