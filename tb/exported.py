"""A fabric as Verilog, the source of a simulator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..machine.errors import RunError
from ..machine.stimulus import Point, whole_beats
from ..machine.trace import SourceBeats
from ..machine.unitgraph import UnitGraph
from . import bench
from .cut import Hole, instances_of, modules_of, within

ALIKE_PROBES = 1000
"""From so many units and channels on, the probes are of one class, too: with fewer, their code
where they stand is faster.
"""
ALIKE_TEXT = 100_000
"""A module is a class of its own where its instances but the first have so many characters of
Verilog in all: code of small modules is faster where it stands, and soon compiled.
"""
APART_INSTANCES = 4000
"""From so many instances on, in all units of a module, it is compiled apart: Verilator has a scope
for each. The deep products of SwiGLU at t = 16 hold 24,000.
"""
IN_PLACE = "penstock_select"
"""Modules whose code stands where they are instantiated, as their names begin: small ones, whose
ports are wide.
"""


@dataclass(frozen=True)
class Design:
    """A fabric as Verilog.

    Attributes
    ----------
    graph
        Its structure; run-time parameters may differ from a point's.
    verilog
        File name -> text.
    top, shared
        Top module, and modules whose instances are many: lanes, sites.
    registers
        Run-time registers as the sidecar lists them: unit, param, index, addr, bits.
    lanes, responses
        W and N of docs/top.md.
    line
        Bytes of a line.
    seconds
        Wall time of the export (0.0: from the cache).
    key
        Digest of all that shapes it; run-time parameters in registers are none of it.
    counted
        Whether its units have counters.
    """

    graph: UnitGraph
    verilog: dict[str, str]
    top: str
    registers: Sequence[Mapping] = ()
    shared: tuple[str, ...] = ()
    lanes: int = 1
    responses: int = 1
    line: int = 64
    seconds: float = 0.0
    key: str = ""
    counted: bool = True

    @property
    def name(self) -> str:
        """Name in messages, and in the cache."""
        return self.graph.name

    @property
    def size(self) -> int:
        """Units and channels, or their counterparts."""
        return len(self.graph.units) + len(self.graph.channels)

    @property
    def memory(self) -> bool:
        """True if it has ports to off-chip memory."""
        return bool(self.graph.ports)

    @property
    def further(self) -> Sequence[Hole]:
        """Ports that the bench's top has for Python, besides those of every fabric."""
        return ()

    @property
    def covered(self) -> bool:
        """True if the simulator counts the bits that change."""
        return False

    @property
    def apart(self) -> list[str]:
        """Modules that are Verilated and compiled apart, each once: a design of very many instances
        takes more memory than a machine has, all at once.
        """
        modules = modules_of("\n".join(self.verilog.values()))
        inside = within(modules, self.top)
        if inside[self.top] < APART_INSTANCES:
            return []
        instances = Counter(instances_of(modules, self.top))
        return [m for m, n in instances.items() if n * inside[m] >= APART_INSTANCES]

    def alike(self) -> Mapping[str, Sequence[str]]:
        """Modules that are compiled as one class for all their instances, with their ports; as of
        :func:`penstock.tb.runner.build`.

        Code that stands once takes half as long to build, and wide fabrics run no slower for it.
        """
        text = "\n".join(self.verilog.values())
        repeated = repeated_modules(text)
        probes = bench.PROBE if self.size >= ALIKE_PROBES else {}
        return module_ports(text, repeated) | probes

    def collect(self, folder: Path) -> None:
        """Read further files of a launch of the simulator from its folder."""

    def agents(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """(number, beat bits) of each source's port, and of each sink's."""
        return bench.streams(self.graph)

    def writes(self, point: Point) -> list[list[int]]:
        """[address, value] of every word of configuration for a point."""
        writes = []
        for r in self.registers:
            value = getattr(point.graph.units[r["unit"]].kind, r["param"])
            if isinstance(value, (list, tuple)):
                value = value[r["index"] or 0]
            writes.append([r["addr"], int(value)])
        return writes

    def own(self, point: Point) -> dict:
        """The part of the bench's job that belongs to one point."""
        return {}

    def streams(self, point: Point) -> dict[str, np.ndarray]:
        """Beats of the sources and releases of the sinks, by their names in the bench."""
        sources, sinks = self.agents()
        arrays = {}
        for unit, _ in sources:
            given = source_of(point, unit)
            payload = point.graph.outputs(unit)[0].payload
            arrays[f"source{unit}_words"] = whole_beats(payload, given)
            arrays[f"source{unit}_release"] = np.asarray(given.release, np.int64)
        for unit, _ in sinks:
            arrays[f"sink{unit}_release"] = np.asarray(point.sinks.get(unit, ()), np.int64)
        return arrays


def repeated_modules(verilog: str) -> list[str]:
    """Modules that are large, or stand often, enough for a class of their own."""
    instances = Counter(re.findall(r"^\s*(penstock_\w+)\s", verilog, re.M))
    modules = modules_of(verilog)
    return [
        m
        for m, n in instances.items()
        if (n - 1) * len(modules.get(m, "")) >= ALIKE_TEXT and not m.startswith(IN_PLACE)
    ]


def module_ports(verilog: str, modules: Collection[str]) -> dict[str, list[str]]:
    """The ports of those of ``modules`` that a design has."""
    heads = re.findall(r"^module (\w+)\(([^)]*)\);", verilog, re.M)
    return {m: re.findall(r"\w+", ports) for m, ports in heads if m in modules}


def source_of(point: Point, unit: int) -> SourceBeats:
    """Beats of a point's source unit.

    Raises
    ------
    RunError
        The point has none for it.
    """
    if unit not in point.sources:
        raise RunError(
            "no stream given",
            f"source unit {point.graph.units[unit].name}",
            remedy=f"pass sources={{{unit}: SourceBeats(...)}}",
        )
    return point.sources[unit]
