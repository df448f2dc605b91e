"""Lowering to physical tiles and the unit kinds of machine/kinds/."""

from __future__ import annotations

from ...machine.capacity import check_capacity
from ...machine.spilling import spilling
from ...machine.unitgraph import UnitGraph, validate
from .matmul import Products
from .members import Members
from .operands import Operands
from .stream_units import StreamUnits


class MachineLowering(Members, Operands, Products, StreamUnits):
    """Lowering to physical tiles and the unit kinds of machine/kinds/.

    Operators call its methods.
    """

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
        out = spilling(out, self.m, self.fit)
        validate(out)
        check_capacity(out, self.config.machine)
        return out
