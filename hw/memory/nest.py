"""Loop nest of a load: its registers, and loops over logical tiles."""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from ...machine.widths import Widths
from .locate import place_layout
from .order import FIELDS
from .table import table_layout

ANY = "any"
"""The trigger of a load in a slot, whose registers say what starts it."""

SHIFT_BITS = 5
"""Bits of the shift that splits the number of a tile into row and column."""


def walk_layout(rank: int, trigger: str | None, widths: Widths) -> dict[str, int]:
    """Run-time parameters of a load with ``rank`` loop dimensions: field -> bits."""
    fields = {"base": widths.address, "pitch": widths.address}
    if trigger in ("address", ANY):
        fields["shift"] = SHIFT_BITS
    fields |= dict.fromkeys(("tensor_rows", "tensor_cols", "rows", "cols"), widths.size)
    for name in ("shape", "row_step", "col_step"):
        fields |= {f"{name}_{d}": widths.size for d in range(rank)}
    return fields


HOW = data.StructLayout({"triggered": 1, "placed": 1, "listed": 1, "rank": 4})
"""Settings of a walk: whether triggers start it, and whether they name the place; whether the
places are listed; loop dimensions in use.
"""


def set_walk(m: Module, walk: wiring.Component, load: wiring.Component) -> None:
    """Give a walk the registers of its load."""
    for name in walk.cfg.shape().members:
        m.d.comb += walk.cfg[name].eq(load.cfg[name])


@dataclass(frozen=True)
class Nest:
    """Loops over logical tiles, and what is visited of each.

    Attributes
    ----------
    rank : int
        Loop dimensions.
    t : int
        Rows of a band.
    elements : int
        E, elements of a line.
    lanes : int
        W, rows of a chunk.
    widths : Widths
        Of a line, of sizes and addresses.
    order : list of [row, col], int or None
        Where each logical tile lies, instead of the places that the loop nest gives; the most
        entries of a slot.
    trigger : ``ref``, ``address``, ``any`` or None
        What may start the walk, each time; None: it begins once, after reset.
    staged : bool
        Of ``address``: what follows from the place is in registers from the cycle before.
    """

    rank: int
    t: int
    elements: int
    lanes: int
    widths: Widths
    order: Sequence | int | None = None
    trigger: str | None = None
    staged: bool = False

    @property
    def cfg(self) -> data.StructLayout:
        """Registers of the load."""
        return data.StructLayout(walk_layout(self.rank, self.trigger, self.widths))

    @property
    def start(self) -> data.StructLayout:
        """Begin of a triggered walk (nowhere else than at 0 for ``ref``)."""
        placed = self.trigger in ("address", ANY)
        return place_layout(self.widths) if placed else data.StructLayout({})

    @property
    def members(self) -> dict[str, wiring.Member]:
        """Members that say what a walk goes through."""
        order = self.order
        listed = {"listed": In(table_layout(FIELDS, order))} if isinstance(order, int) else {}
        return {"cfg": In(self.cfg), "how": In(HOW), **listed}
