"""Place of a logical tile in the tensor, from its number."""

from typing import Any, NamedTuple

from amaranth.hdl import Const, Module, Signal, Value, signed
from amaranth.lib import data

from ...machine.widths import Widths

FACTOR = 18
"""Bits of a factor of a multiplier."""


def place_layout(widths: Widths) -> data.StructLayout:
    """Layout of a logical tile's place: ``rows`` and ``cols`` of the tensor from its first element
    on; ``first`` and ``second``, whose sum is the offset of that element in bytes from the tensor's
    base.
    """
    rest = signed(widths.position + 1)
    terms = dict.fromkeys(("first", "second"), widths.address)
    return data.StructLayout({"rows": rest, "cols": rest} | terms)


class Located(NamedTuple):
    """The place of a tile."""

    # row, col: of its first element, all bits of them
    row: Signal
    col: Signal
    # first, second: their sum is that element's offset from the tensor's base, in bytes
    first: Signal
    second: Signal
    far: Value  # the tile lies beyond any tensor, and its place is wrong

    def outside(self, m: Module, cfg: Any) -> Value:
        """True if the tile of the cycle before lies outside the tensor."""
        row = Signal.like(self.row, name="checked_row", reset_less=True)
        col = Signal.like(self.col, name="checked_col", reset_less=True)
        far = Signal(name="checked_far", reset_less=True)
        m.d.sync += [row.eq(self.row), col.eq(self.col), far.eq(self.far)]
        return far | (row >= cfg.tensor_rows) | (col >= cfg.tensor_cols)


def locate(m: Module, cfg: Any, number: Value, element_bytes: int, widths: Widths) -> Located:
    """The place of tile ``number``: row-major, 2^``cfg.shift`` logical tiles a row of the tensor.

    Combinational but for what is made of ``cfg`` alone, which must stand a cycle before: a shift,
    multiplications side by side, and a sum without carries.
    """
    size = widths.size
    band_bytes = Signal(widths.address, reset_less=True)
    tile_bytes = Signal(size + (element_bytes - 1).bit_length(), reset_less=True)
    beside = Signal(len(number), reset_less=True)  # bits of the number that say the column
    m.d.sync += [
        band_bytes.eq(cfg.rows * cfg.pitch),
        tile_bytes.eq(cfg.cols * element_bytes),
        beside.eq(~(Const(-1, len(number)) << cfg.shift)),
    ]
    down = Signal(len(number))
    across = Signal(len(number))
    row = Signal(2 * size)
    col = Signal(2 * size)
    low = Signal(widths.address)
    high = Signal(widths.address)
    left = Signal(widths.address)
    first = Signal(widths.address)
    second = Signal(widths.address)
    m.d.comb += [
        down.eq(number >> cfg.shift),
        across.eq(number & beside),
        row.eq(down[:size] * cfg.rows),
        col.eq(across[:size] * cfg.cols),
        low.eq(down[:size] * band_bytes[:FACTOR]),
        high.eq((down[:size] * band_bytes[FACTOR:]) << FACTOR),
        left.eq(across[:size] * tile_bytes),
        first.eq(low ^ high ^ left),
        second.eq(((low & high) | (left & (low | high))) << 1),
    ]
    return Located(row, col, first, second, (down[size:] | across[size:]).any())
