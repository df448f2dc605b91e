"""Units of the buffers that go off-chip: of each scratchpad a store of its own, and a load for each
of its readers (docs/timing.md section 4, rule 11).

They stand behind all others in the lists of a graph, and so keep ids, addresses and the order of
ports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from .beat import LINE_BYTES, TILES_BITS, Payload, Scalar, Tile
from .config import Machine
from .kinds.offchip import Load, RandomStore
from .kinds.scratchpad import Scratchpad
from .unitgraph import Channel, Tensor, Unit, UnitGraph

ROLE = "spill"
"""Role of the tensors that buffers spill to."""


def spilling(graph: UnitGraph, machine: Machine, fit: Collection[int] = ()) -> UnitGraph:
    """The graph whose scratchpads spill, but for those in ``fit``, whose buffers never need it."""
    for u in graph.memories() if machine.spill else ():
        if u not in fit:
            graph = _spills(graph, u, machine)
    return graph


def spilled_tiles(machine: Machine, tile: Tile, on_chip: int) -> int:
    """Tiles of a buffer that may lie off-chip, behind as many on chip: whole blocks, as far as a
    reference counts.
    """
    block = machine.widths.line // tile.element_bits // machine.t
    counted = ((1 << TILES_BITS) - 1 - on_chip) // block
    return block * max(0, min(machine.spill // (machine.t * machine.dram.line_bytes), counted))


def without(graph: UnitGraph) -> UnitGraph:
    """The graph before :func:`spilling`."""
    tensors = {x.name for x in graph.tensors if x.role == ROLE}
    if not tensors:
        return graph
    added = {u.id for u in graph.units if vars(u.kind).get("tensor") in tensors}

    def plain(unit: Unit) -> Unit:
        stated = {k: v for k, v in unit.kind.stated.items() if k not in ("spill", "block")}
        return replace(unit, kind=unit.kind.of(stated)) if unit.kind.memory else unit

    return replace(
        graph,
        units=tuple(plain(u) for u in graph.units if u.id not in added),
        channels=tuple(c for c in graph.channels if not {c.src[0], c.dst[0]} & added),
        tensors=tuple(x for x in graph.tensors if x.name not in tensors),
        ports=tuple(u for u in graph.ports if u not in added),
    )


def spilled_lines(graph: UnitGraph, lines: Iterable[int]) -> int:
    """Lines of buffers off-chip, given the number of lines of each port."""
    tensors = {x.name for x in graph.tensors if x.role == ROLE}
    pairs = zip(graph.ports, lines, strict=False)
    return sum(int(n) for u, n in pairs if graph.units[u].kind.tensor in tensors)


def without_end(graph: UnitGraph) -> set[int]:
    """Channels to and from the loads of buffers off-chip: they have no Done, and where all fits no
    beat.
    """
    tensors = {x.name for x in graph.tensors if x.role == ROLE}
    kinds = {u.id: vars(u.kind).get("tensor") for u in graph.units if u.kind.name == "load"}
    loads = {u for u, tensor in kinds.items() if tensor in tensors}
    return {c.id for c in graph.channels if {c.src[0], c.dst[0]} & loads}


def _spills(graph: UnitGraph, u: int, machine: Machine) -> UnitGraph:
    """The graph with a tensor, a store and loads for the buffers of one scratchpad."""
    unit = graph.units[u]
    pad: Any = unit.kind
    assert isinstance(pad, Scratchpad)
    tile = graph.inputs(u)[0].payload
    assert isinstance(tile, Tile)
    row = machine.widths.line // tile.element_bits
    block = row // graph.t
    blocks = spilled_tiles(machine, tile, pad.on_chip) // block
    if not blocks:
        return graph
    kind = pad.but(spill=blocks * block, block=block)
    shift = (LINE_BYTES // machine.dram.line_bytes - 1).bit_length()
    while graph.t * (-(-blocks >> shift)) >> machine.size_bits:
        shift += 1
    pitch = machine.dram.line_bytes << shift
    rows = graph.t * -(-blocks >> shift)
    tensor = Tensor(
        f"{unit.name}.{ROLE}", rows, row << shift, tile.dtype, graph.memory_bytes, pitch, ROLE
    )
    place: dict[str, Any] = {
        "tensor": tensor.name,
        "base": tensor.base,
        "pitch": pitch,
        "tensor_rows": rows,
        "tensor_cols": tensor.cols,
        "rows": graph.t,
        "cols": row,
        "shift": shift,
    }
    first = len(graph.units)
    store = Unit(first, tensor.name, RandomStore(**place), unit.node)
    walk: dict[str, Any] = {
        "rank": 0,
        "shape": [],
        "row_step": [],
        "col_step": [],
        "trigger": "address",
    }
    loads = tuple(
        Unit(first + 1 + r, f"{unit.name}.fetch{r}", Load(**place, **walk), unit.node)
        for r in range(len(pad.readers))
    )
    number = Scalar(kind.number_bits)
    n = pad.clients
    answers = n + pad.driven
    joins: list[tuple[tuple[int, int], tuple[int, int], Payload]] = [
        ((u, n), (first, 0), number),
        ((u, n + 1), (first, 1), tile),
        ((first, 0), (u, answers), Scalar(1)),
    ]
    for r, load in enumerate(loads):
        joins.append(((u, n + 2 + r), (load.id, 0), number))
        joins.append(((load.id, 0), (u, answers + 1 + r), tile))
    units = (*graph.units[:u], replace(unit, kind=kind), *graph.units[u + 1 :], store, *loads)
    channels: list[Channel] = []
    for i, (src, dst, payload) in enumerate(joins, len(graph.channels)):
        a, b = units[src[0]], units[dst[0]]
        name = f"{a.name}:{a.kind.outputs()[src[1]]}->{b.name}:{b.kind.inputs()[dst[1]]}"
        channels.append(Channel(i, name, src, dst, machine.channel_depth, payload))
    return replace(
        graph,
        units=units,
        channels=(*graph.channels, *channels),
        tensors=(*graph.tensors, tensor),
        ports=(*graph.ports, store.id, *(load.id for load in loads)),
        memory_bytes=graph.memory_bytes + tensor.bytes,
    )
