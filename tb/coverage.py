"""Branches of the sources in ``hw/`` that simulations enter.

Each body of an `If`, `Elif`, `Else`, `Case` or `State` and each side of a `Mux` has a cover
statement, which Verilator counts (`hw/covers.py`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.unitgraph import UnitGraph
from .exported import Design

TOP = "penstock_fabric"
COUNTED = re.compile(r"^C '(?P<point>.*)' (?P<hits>\d+)$", re.M)
LABEL = re.compile("\x01o\x02([^\x01]*)")


@dataclass(frozen=True)
class CoveredDesign(Design):
    """A design with cover statements.

    Attributes
    ----------
    branches
        Label of a cover statement -> its branch, as ``hw/units/zip.py:12``.
    hits
        Label -> times counted, in all launches.
    """

    branches: Mapping[str, str] = field(default_factory=dict)
    hits: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def covered(self) -> bool:
        return True

    def collect(self, folder: Path) -> None:
        """Add the counts of one launch; RunError where the simulator left none."""
        file = folder / "coverage.dat"
        if not file.exists():
            raise RunError("the simulator has counted nothing", f"RTL of {self.name}")
        for found in COUNTED.finditer(file.read_text(encoding="utf-8")):
            if (label := LABEL.search(found["point"])) and label[1] in self.branches:
                self.hits[label[1]] += int(found["hits"])

    @property
    def entered(self) -> set[str]:
        """Branches that the launches entered."""
        return {place for label, place in self.branches.items() if self.hits[label]}


def design(graph: UnitGraph, config: Config) -> CoveredDesign:
    """The fabric of a graph, with cover statements."""
    # Amaranth takes a second to import; only an export needs it.
    from ..hw.covers import covered
    from ..hw.export import verilog_of
    from ..hw.fabric import Fabric

    fabric = Fabric(graph, config, probes=True)
    made = covered(fabric, TOP)
    machine = config.machine
    return CoveredDesign(
        graph,
        {"fabric.v": verilog_of(made.rtlil)},
        TOP,
        tuple(fabric.registers),
        (),
        machine.port_lanes,
        machine.response_lanes,
        machine.dram.line_bytes,
        branches=made.branches,
    )
