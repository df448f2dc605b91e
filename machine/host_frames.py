"""Frames of requests and answers on a serial line.

A frame is words of 32 bits, least significant byte first, and behind them their CRC-32 (ISO HDLC,
as of zlib). Its bytes stand between flags, and flags among them are escaped, as in RFC 1662: a
receiver that has lost its place has it again at the next flag.

| word | of a request | of an answer |
|---|---|---|
| 0 | number, operation, count, 0: a byte each | the same |
| 1 | address | |
| from 2 (answer: from 1) on | what is written: count words | what was read: count words |
| last | | status |

A request has one answer, with its number. Asked again, it does the same again: addresses are
absolute, and reading changes nothing.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum

FLAG = 0x7E
ESCAPE = 0x7D
ESCAPED = 0x20
"""What an escaped byte is combined with, by exclusive or."""
HEADER_WORDS = 2
MOST_WORDS = 64
"""Of data in a frame."""


class Operation(IntEnum):
    """Operation of a request: words from its address on."""

    WRITE = 1
    READ = 2


class Status(IntEnum):
    """Outcome of a request."""

    DONE = 0
    REFUSED = 1
    """The bus: no such address, or not now."""
    DAMAGED = 2
    """It came with a wrong CRC, length or operation, and nothing was done."""


def frame(words: list[int]) -> bytes:
    """The bytes of a frame, flags included."""
    plain = struct.pack(f"<{len(words)}I", *words)
    plain += struct.pack("<I", zlib.crc32(plain))
    out = bytearray([FLAG])
    for byte in plain:
        if byte in (FLAG, ESCAPE):
            out += bytes([ESCAPE, byte ^ ESCAPED])
        else:
            out.append(byte)
    out.append(FLAG)
    return bytes(out)


def unframed(body: bytes) -> list[int] | None:
    """The words of a frame, given what stood between its flags; None if it is damaged."""
    plain = bytearray()
    escaped = False
    for byte in body:
        if escaped:
            plain.append(byte ^ ESCAPED)
            escaped = False
        elif byte == ESCAPE:
            escaped = True
        else:
            plain.append(byte)
    if escaped or len(plain) % 4 or len(plain) < 8:
        return None
    words = list(struct.unpack(f"<{len(plain) // 4}I", plain))
    return words[:-1] if zlib.crc32(plain[:-4]) == words[-1] else None
