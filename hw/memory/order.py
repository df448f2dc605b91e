"""The order of a load's or store's logical tiles, where their places are listed."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data

from ...machine.kinds import Table as Sizes
from ...machine.limits import SIZE_BITS
from ..units.unit import Unit
from .table import Table, filling

FIELDS = {"row": SIZE_BITS, "col": SIZE_BITS}
"""Of an entry of an order."""


def order_layout(depth: int) -> data.StructLayout:
    """Layout that fills the order of a slot: the number of its last entry, and words of a table for
    each field.
    """
    words = filling({name: Sizes(depth, bits) for name, bits in FIELDS.items()})
    return data.StructLayout({"last": range(depth), "write": words})


def order_table(order: Sequence | int | None) -> Table | None:
    """A unit's parameter ``order``, or in a slot the most entries of one; None where it has
    none.
    """
    if not order:
        return None
    if isinstance(order, int):
        return Table(depth=order, fields=FIELDS)
    return Table(entries=order, fields=FIELDS)


def set_order(m: Module, unit: Unit, order: Any) -> None:
    """Give a table, or an order (:func:`order_layout`), the registers and words of a unit in a
    slot.
    """
    m.d.comb += order.last.eq(unit.settings.order_last)
    for name in FIELDS:
        m.d.comb += order.write[name].eq(unit.tables[f"order_{name}"])


def order_of(unit: Unit) -> Sequence | int | None:
    """Places of the tiles, or in a slot the most places of a list; None: those of the loop nest."""
    return unit.capability.bounds["order"] if unit.configured else unit.kind.order
