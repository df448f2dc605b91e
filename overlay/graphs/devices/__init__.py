"""Device models by name or file. A module defines ``equations() -> Equations``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from ....frontend.program import module_of
from ....machine.errors import ProgramError, nearest
from ...core.dataflow import DataflowGraph
from ..equations import Equations

__all__ = ["DEVICES", "PUBLISHED", "device_graph", "equations", "table"]

DEVICES: dict[str, str] = {
    name: f"{__name__}.{name}" for name in ("diode", "jfet", "bjt", "hbt", "mos")
}
"""Name -> module."""

PUBLISHED = {
    "diode": ("diode_simple", 43, 58, 14),
    "jfet": ("jfet", 91, 120, 13),
    "bjt": ("vbic", 225, 250, 34),
    "hbt": ("hbt", 612, 669, 32),
    "mos": ("bsim3v32_new", 1459, 2408, 106),
}
"""The nearest graph of Table II of Kapre & Siddhartha (DFM 2014): its name, nodes, edges, depth."""


def equations(name: str) -> Equations:
    """The model called ``name``, or of a Python file; ProgramError lists those there are."""
    if name.endswith(".py"):
        module = module_of(Path(name), "equations", "write def equations(): ... return Equations")
        found = module.equations()
        if not isinstance(found, Equations):
            raise ProgramError(f"equations() returns {type(found).__name__}", f"program {name}")
        return found
    if name not in DEVICES:
        raise ProgramError(
            f"there is no device {name!r}",
            f"graph device:{name}",
            remedy=nearest(name, DEVICES, "devices are"),
        )
    return import_module(DEVICES[name]).equations()


@cache
def device_graph(name: str) -> DataflowGraph:
    """The graph of one instance."""
    return equations(name).graph()


def table() -> str:
    """Nodes, edges and depth of every device beside the paper's Table II."""
    lines = [
        "| device | nodes | edges | depth | inputs | outputs | operations | Table II | nodes | "
        "edges | depth |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in DEVICES:
        s = device_graph(name).statistics
        ops = " ".join(f"{count} {op}" for op, count in s.ops.items())
        lines.append(
            f"| {name} | {s.nodes} | {s.edges} | {s.depth} | {s.inputs} | {s.outputs} | {ops} | "
            + " | ".join(str(x) for x in PUBLISHED.get(name, ("-",) * 4))
            + " |"
        )
    return "\n".join(lines)
