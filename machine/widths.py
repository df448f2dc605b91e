"""Widths of lines, addresses and sizes in a machine's off-chip units."""

from __future__ import annotations

from typing import NamedTuple

from .limits import POSITION_BITS, SIZE_BITS


class Widths(NamedTuple):
    """Widths in bits of a line, a byte address and a size in a machine's off-chip units."""

    line: int
    address: int
    size: int

    @property
    def position(self) -> int:
        """Width of a position in a tensor."""
        return self.size + POSITION_BITS - SIZE_BITS

    @property
    def place(self) -> int:
        """Width of the place of a logical tile: rows and columns of the tensor from there on, with
        a sign; two terms of the offset in bytes.
        """
        return 2 * (self.position + 1 + self.address)

    @property
    def within(self) -> int:
        """Width of a byte's number in its line."""
        return (self.line // 8 - 1).bit_length()
