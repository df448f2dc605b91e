"""Which branches and statements of the sources in ``hw/`` simulations
reach.

Each body of an `If`, `Elif`, `Else`, `Case` or `State` and each side of
a `Mux` has a cover statement, which Verilator counts
(`hw/covers.py`). An assignment is reached where its body is.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..machine.array.structure import Structure
from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.unitgraph import UnitGraph
from .array import ArrayDesign
from .exported import Design

if TYPE_CHECKING:
    from amaranth.lib import wiring

TOP = "penstock_fabric"
ARRAY_TOP = "penstock_array"
BODIES = ("If", "Elif", "Else", "Case", "Default", "State")
SIDES = ("0", "1")
"""Of a `Mux`."""
COUNTED = re.compile(r"^C '(?P<point>.*)' (?P<hits>\d+)$", re.M)
LABEL = re.compile("\x01o\x02([^\x01]*)")


@dataclass(frozen=True)
class Branches:
    """What there is to reach in a file.

    Attributes
    ----------
    ways
        Branches: ``12`` for the body that begins in line 12, ``12.0``
        and ``12.1`` for the sides of a `Mux` there.
    statements
        Lines of assignments.

    """

    ways: Set[str]
    statements: Set[str]


@dataclass
class Reached:
    """Branches and statements by place: ``hw/units/zip.py:12``.

    Attributes
    ----------
    there, entered
        Branches of a design, and those that a run entered.
    statements, executed
        Assignments of a design, and those that a run reached.

    """

    there: set[str] = field(default_factory=set)
    entered: set[str] = field(default_factory=set)
    statements: set[str] = field(default_factory=set)
    executed: set[str] = field(default_factory=set)

    def add(self, other: Reached) -> None:
        """What another has, too."""
        for name, mine in vars(self).items():
            mine |= vars(other)[name]


@dataclass(frozen=True)
class CoveredDesign(Design):
    """A design with cover statements.

    Attributes
    ----------
    branches
        Label of a cover statement -> its branch.
    bodies
        Branch -> its assignments; those of none under ``""``.
    hits
        Label -> how often it was counted, in all launches.

    """

    branches: Mapping[str, str] = field(default_factory=dict)
    bodies: Mapping[str, Set[str]] = field(default_factory=dict)
    hits: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def covered(self) -> bool:
        return True

    def collect(self, folder: Path) -> None:
        """Add what Verilator has counted.

        Raises
        ------
        RunError
            The simulator has left no counts.

        """
        file = folder / "coverage.dat"
        if not file.exists():
            raise RunError("the simulator has counted nothing", f"RTL of {self.name}")
        for found in COUNTED.finditer(file.read_text(encoding="utf-8")):
            if (label := LABEL.search(found["point"])) and label[1] in self.branches:
                self.hits[label[1]] += int(found["hits"])

    def reached(self) -> Reached:
        """What the launches have reached."""
        entered = {place for label, place in self.branches.items() if self.hits[label]}
        return Reached(
            set(self.branches.values()),
            entered,
            set().union(*self.bodies.values()),
            set().union(*(self.bodies.get(branch, ()) for branch in ("", *entered))),
        )


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
        bodies=made.statements,
    )


@dataclass(frozen=True)
class CoveredArray(ArrayDesign, CoveredDesign):
    """An array with cover statements."""


def array(config: Config) -> CoveredArray:
    """The array of a configuration, with cover statements. All of it is
    Verilated as one: one of many slots takes long.
    """
    from ..hw.array.array import Array
    from ..hw.covers import covered
    from ..hw.export import verilog_of

    made = covered(Array(config, probes=True), ARRAY_TOP)
    structure = Structure(config)
    machine = config.machine
    return CoveredArray(
        UnitGraph(structure.network.array.name, machine.t, (), ()),
        {"array.v": verilog_of(made.rtlil)},
        ARRAY_TOP,
        (),
        (),
        machine.port_lanes,
        machine.response_lanes,
        machine.dram.line_bytes,
        structure=structure,
        branches=made.branches,
        bodies=made.statements,
    )


def component(part: wiring.Component, top: str) -> CoveredDesign:
    """A component with cover statements, as module ``top``; its bench
    is of its own.
    """
    from ..hw.covers import covered
    from ..hw.export import verilog_of

    made = covered(part, top)
    return CoveredDesign(
        UnitGraph(top, 1, (), ()),
        {f"{top}.v": verilog_of(made.rtlil)},
        top,
        branches=made.branches,
        bodies=made.statements,
    )


def branches_of(source: str) -> Branches:
    """What there is to reach in a Python source."""
    ways: set[str] = set()
    statements: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.With):
            heads = [item.context_expr for item in node.items]
            ways |= {str(head.lineno) for head in heads if _called(head) in BODIES}
        elif isinstance(node, ast.Call) and _called(node) == "Mux":
            ways |= {f"{node.lineno}.{side}" for side in SIDES}
        elif isinstance(node, ast.AugAssign):
            calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
            statements |= {str(call.lineno) for call in calls if _called(call) == "eq"}
    return Branches(ways, statements)


def _called(node: ast.AST) -> str:
    """The last name of what is called; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))
