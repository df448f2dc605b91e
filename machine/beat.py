"""Payload kinds and the bit layout of a beat (docs/timing.md section 6).

One definition for model, RTL and decoders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import ml_dtypes

STOP_BITS = 4
STOP_DONE = 15
MAX_STOP = 14
LINE_BYTES = 64
ELEMENT_BITS = {"bf16": 16, "fp32": 32, "int32": 32}
FLOATS = ("bf16", "fp32")
TILES_BITS = 16  # tiles of one buffer, in a reference
FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3


@dataclass(frozen=True)
class Tile:
    """A physical tile of t x t elements with its valid rows and columns."""

    t: int
    dtype: str  # "bf16" | "fp32" | "int32"

    kind = "tile"

    @property
    def element_bits(self) -> int:
        return ELEMENT_BITS[self.dtype]

    @property
    def count_bits(self) -> int:
        """Bits of `rows` and of `cols`: each holds 0..t."""
        return self.t.bit_length()

    @property
    def bits(self) -> int:
        return self.t * self.t * self.element_bits + 2 * self.count_bits


@dataclass(frozen=True)
class BufferRef:
    """A reference to a buffer in a scratchpad of ``pages`` pages."""

    pages: int

    kind = "ref"

    @property
    def page_bits(self) -> int:
        return max(1, (self.pages - 1).bit_length())

    @property
    def bits(self) -> int:
        return self.page_bits + TILES_BITS


@dataclass(frozen=True)
class Scalar:
    """An address or count of ``width`` bits."""

    width: int
    kind = "scalar"

    @property
    def bits(self) -> int:
        return self.width


@dataclass(frozen=True)
class Selector:
    """A multi-hot vector over ``n`` targets."""

    n: int
    kind = "selector"

    @property
    def bits(self) -> int:
        return self.n


@dataclass(frozen=True)
class Tuple:
    """Several payloads side by side, first member in the low bits."""

    members: tuple[Any, ...]

    kind = "tuple"

    @property
    def bits(self) -> int:
        return sum(m.bits for m in self.members)


Payload = Tile | BufferRef | Scalar | Selector | Tuple


def leaves(payload: Payload) -> tuple[Payload, ...]:
    """A payload's members, those of tuples in tuples among them; a payload that is no tuple is its
    own only one.
    """
    return (
        tuple(x for m in payload.members for x in leaves(m))
        if isinstance(payload, Tuple)
        else (payload,)
    )


def beat_bits(payload: Payload) -> int:
    """Width of a whole beat: payload, stop, data."""
    return payload.bits + STOP_BITS + 1


def beat_words(payload: Payload) -> int:
    """32-bit words that a beat fills (the unit of trace digests)."""
    return (beat_bits(payload) + 31) // 32


def beat_number(words: np.ndarray) -> int:
    """Bits of a beat as one integer; uint32 [words], least significant first."""
    return int.from_bytes(np.ascontiguousarray(words, "<u4").tobytes(), "little")


def fnv(value: int, words: int, digest: int = FNV_OFFSET) -> int:
    """FNV-1a of 32-bit words of an integer, least significant first (docs/timing.md section 6).

    ``digest``: of the words before them.
    """
    for k in range(words):
        digest = (digest ^ (value >> 32 * k & 0xFFFFFFFF)) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return digest


def tile_bits(tile: Tile, values: np.ndarray, rows: int, cols: int) -> int:
    """Payload bits of a tile whose valid part is ``values[:rows, :cols]``; the rest is zero."""
    kept = np.zeros((tile.t, tile.t), np.float32)
    kept[:rows, :cols] = values[:rows, :cols]
    dtype = ml_dtypes.bfloat16 if tile.dtype == "bf16" else "<f4"
    elements = int.from_bytes(kept.astype(dtype).tobytes(), "little")
    counts = rows | cols << tile.count_bits
    return elements | counts << tile.t**2 * tile.element_bits


def payload_to_dict(p: Payload) -> dict[str, Any]:
    if isinstance(p, Tile):
        return {"kind": "tile", "t": p.t, "dtype": p.dtype}
    if isinstance(p, BufferRef):
        return {"kind": "ref", "pages": p.pages}
    if isinstance(p, Scalar):
        return {"kind": "scalar", "width": p.width}
    if isinstance(p, Selector):
        return {"kind": "selector", "n": p.n}
    return {"kind": "tuple", "members": [payload_to_dict(m) for m in p.members]}


def payload_from_dict(d: dict[str, Any]) -> Payload:
    kind: object = d["kind"]
    match kind:
        case "tile":
            return Tile(d["t"], d["dtype"])
        case "ref":
            return BufferRef(d["pages"])
        case "scalar":
            return Scalar(d["width"])
        case "selector":
            return Selector(d["n"])
        case "tuple":
            return Tuple(tuple(payload_from_dict(m) for m in d["members"]))
        case _:
            raise ValueError(f"unknown payload kind {kind!r}")
