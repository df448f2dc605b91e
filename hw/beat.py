"""Bit layouts of beats, derived from the payload kinds of ``penstock.machine.beat`` (docs/timing.md
section 6).
"""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Format, Value, ValueLike
from amaranth.lib import data

from ..machine.beat import STOP_BITS, BufferRef, Payload, Scalar, Selector, Tile, Tuple, beat_bits


class Payloads(NamedTuple):
    """Payloads of a unit's streams, by port number."""

    inputs: tuple[Payload, ...]
    outputs: tuple[Payload, ...]


class _Elements(data.ArrayLayout):
    """A tile's elements, one number in waveforms: a signal an element takes most of an export."""

    def format(self, value: data.View, format_spec: str) -> Format:
        return Format("{:x}", Value.cast(value))


def _fields(payload: Payload) -> dict:
    match payload:
        case Tile(t=t):
            row = data.ArrayLayout(payload.element_bits, t)
            return {
                "elements": _Elements(row, t),
                "rows": payload.count_bits,
                "cols": payload.count_bits,
            }
        case BufferRef():
            return {"page": payload.page_bits, "tiles": payload.bits - payload.page_bits}
        case Scalar(width=width):
            return {"value": width}
        case Selector(n=n):
            return {"hot": n}
        case Tuple(members=members):
            return {f"m{k}": payload_layout(member) for k, member in enumerate(members)}
    raise TypeError(f"Payload must be one of machine/beat.py, not {payload!r}")


def payload_layout(payload: Payload) -> data.StructLayout:
    """Layout of a payload alone: a tile's ``elements[row][column]``, ``rows``, ``cols``; a
    reference's ``page``, ``tiles``; a tuple's members ``m0``, ``m1``, ...
    """
    return data.StructLayout(_fields(payload))


def beat_layout(payload: Payload) -> data.StructLayout:
    """Layout of a whole beat: the payload's own fields, then ``stop`` and ``data``."""
    layout = data.StructLayout({**_fields(payload), "stop": STOP_BITS, "data": 1})
    assert layout.size == beat_bits(payload)
    return layout


def is_done(beat: data.View) -> Value:
    """1 if the beat is Done."""
    return ~beat.data & beat.stop.all()


def is_bare(beat: data.View) -> Value:
    """1 if the beat stands for an empty tensor (docs/timing.md section 3.4)."""
    return ~beat.data & ~beat.stop.all()


def with_stop(beat: data.View, stop: ValueLike) -> Value:
    """The bits of ``beat`` with another stop level."""
    bits = beat.as_value()
    return Cat(bits[: -STOP_BITS - 1], (Value.cast(stop) | 0)[:STOP_BITS], bits[-1])


def words(tile: data.View) -> list[Value]:
    """The elements of a tile (a view with ``elements``) as 32-bit words, row-major; bf16 goes to
    the upper half.
    """
    bits = Value.cast(tile.elements)
    count = len(tile.elements) ** 2
    width = len(bits) // count
    return [Cat(Const(0, 32 - width), bits.word_select(k, width)) for k in range(count)]
