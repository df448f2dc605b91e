"""Drawings of a program graph, and of the fabric it is lowered to."""

from __future__ import annotations

from pathlib import Path

from ...machine.config import Config, Machine
from ...machine.kinds import kind_of
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


def caption(node: Operator) -> tuple[str, str]:
    """Name, and operator with what tells it apart."""
    kind = type(node).__name__
    args = node.args
    detail = {
        "fn": getattr(args.get("fn"), "name", None),
        "rank": args.get("rank"),
        "tensor": getattr(args.get("tensor"), "name", None),
        "dim": args.get("dim"),
        "chunk": args.get("chunk"),
        "count": args.get("count"),
        "repeat": args.get("repeat"),
    }
    shown = ", ".join(
        str(v) if k in ("fn", "tensor") else f"{k} {v}" for k, v in detail.items() if v is not None
    )
    return node.name, f"{kind}({shown})"


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
    """A fabric's units and channels, with its memory: interconnect and
    DRAM above the loads, below the stores.
    """
    m = config.machine
    names = [u.name for u in graph.units]
    ways = {u: kind_of(graph.units[u].kind).offchip for u in graph.ports}
    loads, stores = ([names[u] for u in graph.ports if ways[u] == way] for way in ("read", "write"))
    memory = (
        f"{m.dram.kind}: {_count(m.dram.channels, 'channel')}, {m.dram.bytes_per_cycle:g} B/cycle"
    )
    ports = f"{_count(len(graph.ports), 'port')}, {_count(m.port_lanes, 'line')} per cycle each"
    units = []
    for u in graph.units:
        shade = (
            OFFCHIP
            if u.id in graph.ports
            else ONCHIP
            if kind_of(u.kind).memory
            else COMPUTE
            if kind_of(u.kind).computes or kind_of(u.kind).values
            else SHAPE
        )
        units.append(Box(u.name, unit_caption(u, m), shade, late=u.id in graph.ports))
    arrows = [
        Arrow(names[c.src[0]], names[c.dst[0]]) for c in graph.channels if c.src[0] != c.dst[0]
    ]
    top = (
        [Box("off-chip memory", memory, OFFCHIP), Box("memory interconnect", ports, OFFCHIP)]
        if graph.ports
        else []
    )
    arrows = [
        *([Arrow("off-chip memory", "memory interconnect")] if top else []),
        *(Arrow("memory interconnect", n) for n in loads),
        *arrows,
    ]
    bottom = [Box("interconnect, off-chip memory", "the same as above", OFFCHIP)] if stores else []
    return [*top, *units, *bottom], [*arrows, *(Arrow(n, bottom[0].name) for n in stores)]


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def unit_caption(unit: Unit, m: Machine) -> str:
    """Kind of a unit and its size."""
    p = unit.params
    size = {
        "matmul": lambda: f"{m.t} x {m.t} x {p['rows_per_cycle']} multipliers",
        "map": lambda: f"{p['fn']}, {p['lanes']} lanes",
        "accum": lambda: f"{p['fn']}, {p['lanes']} lanes, {p['depth']} tiles",
        "scratchpad": lambda: f"{p['pages']} pages of {p['frames']} tiles",
        "load": lambda: p["tensor"],
        "store": lambda: p["tensor"],
        "repeat": lambda: f"x {p['count']}",
    }.get(unit.kind)
    return f"{unit.kind} ({size()})" if size else unit.kind


def draw_fabric(graph: UnitGraph, config: Config, path: str | Path) -> None:
    """Draw a fabric; the suffix chooses DOT or a format of matplotlib."""
    layout.draw(graph.name, *fabric_parts(graph, config), path)
