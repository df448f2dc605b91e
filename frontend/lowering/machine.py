"""Lowering to physical tiles and the unit kinds of machine/kinds/."""

from __future__ import annotations

from collections.abc import Sequence

from ...machine.capacity import check_capacity
from ...machine.unitgraph import UnitGraph, validate
from ..graph import Operator
from .base import Port
from .matmul import Products
from .operands import Operands
from .stream_units import StreamUnits


class MachineLowering(Operands, Products, StreamUnits):
    """Lowering to physical tiles and the unit kinds of machine/kinds/.

    Operators call its methods.
    """

    def lowered(self, node: Operator) -> Sequence[Port | None]:
        return node.lower_machine(self)

    def finish(self) -> UnitGraph:
        meta = {
            "timing": "machine",
            "config": self.config.name,
            "asserted": self.asserted(),
            "buffers": self.held,
        }
        out = UnitGraph(
            self.graph.name,
            self.t,
            tuple(self.units),
            self.named_channels(),
            tuple(self.tensors.values()),
            tuple(self.port_order()),
            self.used,
            meta,
        )
        validate(out)
        check_capacity(out, self.config.machine)
        return out
