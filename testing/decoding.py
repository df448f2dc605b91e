"""Meaning of a beat's bits, as text."""

from __future__ import annotations

import numpy as np

from ..machine.beat import ELEMENT_BITS, STOP_BITS, STOP_DONE, BufferRef, Payload, Tile, Tuple


def tile_values(tile: Tile, payload: int) -> np.ndarray:
    """float32 [t, t] of a tile's payload bits."""
    raw = (payload & (1 << tile.t * tile.t * tile.element_bits) - 1).to_bytes(
        tile.t * tile.t * tile.element_bits // 8, "little"
    )
    if ELEMENT_BITS[tile.dtype] == 16:
        words = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
    else:
        words = np.frombuffer(raw, "<u4").astype(np.uint32)
    return words.view(np.float32).reshape(tile.t, tile.t)


def _payload(payload: Payload, value: int) -> str:
    match payload:
        case Tile():
            counts = value >> payload.t * payload.t * payload.element_bits
            mask = (1 << payload.count_bits) - 1
            rows = counts & mask
            cols = counts >> payload.count_bits & mask
            shown = np.array2string(
                tile_values(payload, value)[:rows, :cols],
                precision=6,
                threshold=16,
                edgeitems=2,
                separator=", ",
                max_line_width=10**6,
            )
            return f"tile {rows}x{cols} {shown}".replace("\n", "")
        case BufferRef():
            return (
                f"buffer page {value & (1 << payload.page_bits) - 1}, "
                f"{value >> payload.page_bits} tiles"
            )
        case Tuple():
            parts = []
            at = 0
            for member in payload.members:
                parts.append(_payload(member, value >> at & (1 << member.bits) - 1))
                at += member.bits
            return f"({'; '.join(parts)})"
    return f"{value:#x}"


def decode(payload: Payload, beat: int) -> str:
    """A whole beat (docs/timing.md section 6) in words.

    >>> decode(Tile(2, "fp32"), 1 << 136)
    'tile 0x0 []'
    """
    data = beat >> payload.bits + STOP_BITS & 1
    stop = beat >> payload.bits & 2**STOP_BITS - 1
    if not data:
        return "Done" if stop == STOP_DONE else f"empty, stop {stop}"
    return _payload(payload, beat & (1 << payload.bits) - 1) + (f", stop {stop}" if stop else "")


def payload_differences(payload: Payload, model: int, rtl: int, *, most: int = 4) -> str:
    """Differences of two beats: valid counts, the first ``most`` elements (row, column, both values
    and their bits), else both in words.

    >>> rest = 0x5 << 128 | 1 << 136
    >>> tile = Tile(2, "fp32")
    >>> payload_differences(tile, 0x3F800000 << 32 | rest, 0x3F800001 << 32 | rest)
    '1 of 4 elements differ: [0,1] model 1.0 (3f800000), RTL 1.0000001 (3f800001)'
    """
    shifted = model >> payload.bits, rtl >> payload.bits
    if shifted[0] != shifted[1] or model == rtl:
        return f"model {decode(payload, model)}; RTL {decode(payload, rtl)}"
    if isinstance(payload, Tile):
        return "; ".join(_tile_differences(payload, model, rtl, most))
    if isinstance(payload, Tuple):
        parts = []
        at = 0
        for i, member in enumerate(payload.members):
            a, b = (x >> at & (1 << member.bits) - 1 for x in (model, rtl))
            if a != b:
                parts.append(f"member {i}: {payload_differences(member, a, b, most=most)}")
            at += member.bits
        return "; ".join(parts)
    return (
        f"model {_payload(payload, model & (1 << payload.bits) - 1)}; RTL "
        f"{_payload(payload, rtl & (1 << payload.bits) - 1)}"
    )


def _tile_differences(tile: Tile, model: int, rtl: int, most: int) -> list[str]:
    n = tile.t * tile.t * tile.element_bits
    mask = (1 << tile.count_bits) - 1
    out = []
    for i, what in enumerate(("rows", "cols")):
        a, b = (x >> n + i * tile.count_bits & mask for x in (model, rtl))
        if a != b:
            out.append(f"valid {what}: model {a}, RTL {b}")
    a, b = (tile_values(tile, x) for x in (model, rtl))
    x, y = (v.view(np.uint32) >> 32 - tile.element_bits for v in (a, b))
    if len(differ := np.argwhere(x != y)):
        digits = tile.element_bits // 4
        shown = [
            f"[{r},{c}] model {a[r, c]!s} ({x[r, c]:0{digits}x}), RTL {b[r, c]!s} "
            f"({y[r, c]:0{digits}x})"
            for r, c in differ[:most]
        ]
        out.append(
            f"{len(differ)} of {tile.t * tile.t} elements differ: "
            + "; ".join(shown)
            + ("; ..." if len(differ) > most else "")
        )
    return out
