"""The order of a load's or store's logical tiles, where their places are listed."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module

from ...machine.limits import SIZE_BITS
from ..units.unit import Unit

FIELDS = {"row": SIZE_BITS, "col": SIZE_BITS}
"""Fields of an entry of an order, with their widths."""


def set_order(m: Module, unit: Unit, order: Any) -> None:
    """Give a table, or what fills one, the registers and words of a unit in a slot."""
    m.d.comb += order.last.eq(unit.settings.order_last)
    for name in FIELDS:
        m.d.comb += order.write[name].eq(unit.tables[f"order_{name}"])


def order_of(unit: Unit) -> Sequence | int | None:
    """Places of the tiles, or in a slot the most places of a list; None: those of the loop nest."""
    return unit.capability.bounds["order"] if unit.configured else unit.kind.order
