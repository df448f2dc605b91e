"""Drawings of a program graph, and of the fabric it is lowered to."""

from __future__ import annotations

from pathlib import Path

from ...machine.config import Config, Machine
from ...machine.unitgraph import Unit, UnitGraph
from ..graph import Graph, Operator
from ..operators.buffers import Bufferize, Streamify
from ..operators.linear_memory import LinearOffChipLoad, LinearOffChipStore
from ..operators.random_memory import RandomAccess
from . import layout
from .layout import Arrow, Box

OFFCHIP = "#f4c7a1"
ONCHIP = "#cfe3b4"
COMPUTE = "#b9d3ee"
SHAPE = "#e6e6e6"


def colour(node: Operator) -> str:
    """Fill by category: off-chip memory, on-chip memory, higher-order, shape."""
    if isinstance(node, (LinearOffChipLoad, LinearOffChipStore, RandomAccess)):
        return OFFCHIP
    if isinstance(node, (Bufferize, Streamify)):
        return ONCHIP
    return COMPUTE if node.higher_order else SHAPE


def _numbers(args: dict, *names: str) -> list[str]:
    return [f"{name} {args[name]}" for name in names if args.get(name) is not None]


def caption(node: Operator) -> tuple[str, str]:
    """Name, and operator with the arguments that distinguish it."""
    args = vars(node.args)
    shown = [
        args["fn"].name if "fn" in args else None,
        *_numbers(args, "rank"),
        node.tensor.name if node.tensor else None,
        *_numbers(args, "dim", "chunk", "count", "repeat"),
    ]
    detail = ", ".join(part for part in shown if part is not None)
    return node.name, f"{type(node).__name__}({detail})"


def parts(graph: Graph) -> tuple[list[Box], list[Arrow]]:
    """A program's operators and streams."""
    return (
        [Box(*caption(n), colour(n), late=True) for n in graph.nodes],
        [Arrow(s.node.name, n.name, str(s.type)) for n in graph.nodes for s in n.inputs],
    )


def to_dot(graph: Graph) -> str:
    """The program in DOT, for graphviz."""
    return layout.to_dot(graph.name, *parts(graph))


def draw(graph: Graph, path: str | Path) -> None:
    """Draw a program; the suffix chooses DOT or a format of matplotlib."""
    layout.draw(graph.name, *parts(graph), path)


def fabric_parts(graph: UnitGraph, config: Config) -> tuple[list[Box], list[Arrow]]:
    """A fabric's units and channels, with its memory: interconnect and DRAM above the loads, below
    the stores.
    """
    units = [
        Box(u.name, unit_caption(u, config.machine), shade(u), late=u.id in graph.ports)
        for u in graph.units
    ]
    channels = [
        Arrow(graph.units[c.src[0]].name, graph.units[c.dst[0]].name)
        for c in graph.channels
        if c.src[0] != c.dst[0]
    ]
    if not graph.ports:
        return units, channels
    dram = Box("off-chip memory", _memory(config.machine), OFFCHIP)
    ways = Box("memory interconnect", _ports(graph, config.machine), OFFCHIP)
    loads = [Arrow(ways.name, name) for name in _offchip(graph, "read")]
    boxes = [dram, ways, *units]
    arrows = [Arrow(dram.name, ways.name), *loads, *channels]
    if stores := _offchip(graph, "write"):
        below = Box("interconnect, off-chip memory", "the same as above", OFFCHIP)
        boxes.append(below)
        arrows += [Arrow(name, below.name) for name in stores]
    return boxes, arrows


def shade(unit: Unit) -> str:
    """Fill by category, as of operators (:func:`colour`)."""
    kind = unit.kind
    if kind.offchip:
        return OFFCHIP
    if kind.memory:
        return ONCHIP
    return COMPUTE if kind.computes or kind.values else SHAPE


def _offchip(graph: UnitGraph, way: str) -> list[str]:
    """Names of the units that read or write off-chip memory."""
    units = [graph.units[u] for u in graph.ports]
    return [u.name for u in units if u.kind.offchip == way]


def _memory(m: Machine) -> str:
    channels = _count(m.dram.channels, "channel")
    return f"{m.dram.kind}: {channels}, {m.dram.bytes_per_cycle:g} B/cycle"


def _ports(graph: UnitGraph, m: Machine) -> str:
    lanes = _count(m.port_lanes, "line")
    return f"{_count(len(graph.ports), 'port')}, {lanes} per cycle each"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def unit_caption(unit: Unit, m: Machine) -> str:
    """Kind of a unit and its size."""
    p = unit.kind
    size = {
        "matmul": lambda: f"{m.t} x {m.t} x {p.rows_per_cycle} multipliers",
        "map": lambda: f"{p.fn}, {p.lanes} lanes",
        "accum": lambda: f"{p.fn}, {p.lanes} lanes, {p.depth} tiles",
        "scratchpad": lambda: f"{p.pages} pages of {p.frames} tiles",
        "load": lambda: p.tensor,
        "store": lambda: p.tensor,
        "repeat": lambda: f"x {p.count}",
    }.get(unit.kind.name)
    return f"{unit.kind.name} ({size()})" if size else unit.kind.name


def draw_fabric(graph: UnitGraph, config: Config, path: str | Path) -> None:
    """Draw a fabric; the suffix chooses DOT or a format of matplotlib."""
    layout.draw(graph.name, *fabric_parts(graph, config), path)
