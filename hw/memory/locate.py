"""From the number of a logical tile to its place in the tensor."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import data

from ...machine.widths import Widths

__all__ = ["locate", "place_layout"]


def place_layout(widths: Widths) -> data.StructLayout:
    """Where a logical tile lies: ``row`` and ``col`` of its first
    element, ``offset`` of that element in bytes from the tensor's base.
    """
    return data.StructLayout(
        {"row": widths.position, "col": widths.position, "offset": widths.address}
    )


def locate(m: Module, cfg, number, element_bytes: int, widths: Widths) -> tuple[data.View, Signal]:
    """The place of tile ``number`` (row-major, 2^``cfg.shift`` logical
    tiles a row of the tensor), and whether it lies outside the tensor.

    Combinational but for the two products of ``cfg``, which must stand
    a cycle before: two multiplications side by side, then an addition.
    """
    place = Signal(place_layout(widths))
    outside = Signal()
    band_bytes = Signal(widths.address, reset_less=True)
    tile_bytes = Signal(widths.address, reset_less=True)
    down = Signal(len(number))
    across = Signal(len(number))
    row = Signal(len(number) + len(cfg.rows))
    col = Signal(len(number) + len(cfg.cols))
    m.d.sync += [band_bytes.eq(cfg.rows * cfg.pitch), tile_bytes.eq(cfg.cols * element_bytes)]
    m.d.comb += [
        down.eq(number >> cfg.shift),
        across.eq(number & ~(Const(-1, len(number)) << cfg.shift)),
        row.eq(down * cfg.rows),
        col.eq(across * cfg.cols),
        place.row.eq(row),
        place.col.eq(col),
        place.offset.eq(down * band_bytes + across * tile_bytes),
        outside.eq((row >= cfg.tensor_rows) | (col >= cfg.tensor_cols)),
    ]
    return place, outside
