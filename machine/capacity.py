"""Capacity of one fabric: counts of a unit graph against the widths of :mod:`.limits`.

Front end, model and hardware ask here before anything runs, so that what one of them takes the
others take too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from .beat import beat_bits
from .config import Machine
from .errors import LoweringError
from .limits import (
    BEAT_BITS,
    INPUT_BITS,
    PORT_BITS,
    PORTS,
    REGISTER_BITS,
    REGISTERS,
    RESPONSE_LANES,
    TAG_BITS,
    UNIT_BITS,
    UNITS,
)
from .unitgraph import UnitGraph

CONTROL_BITS = 1 + REGISTER_BITS + 32 + UNIT_BITS + 2
"""``cfg_we``, ``cfg_addr``, ``cfg_data`` and ``stat_addr`` (docs/top.md)."""


@dataclass(frozen=True)
class Capacity:
    """One count of a graph."""

    what: str  # what is counted
    where: str  # the graph, or the channel that has most
    # have, most: how many there are, and may be
    have: int
    most: int
    remedy: str  # what to do where there are too many


def registers(graph: UnitGraph) -> int:
    """Run-time registers: one for each number of each run-time parameter."""
    found = 0
    for u in graph.units:
        for name in u.kind.runtime:
            value = getattr(u.kind, name)
            if isinstance(value, int):
                found += 1
            elif value is not None and not isinstance(value, str):
                found += len(value)
    return found


def input_bits(graph: UnitGraph, machine: Machine) -> int:
    """Bits of all inputs of the fabric's top, without clock and reset."""
    line = 1 + PORT_BITS + TAG_BITS + machine.widths.line
    ready = 1
    memory = ready + machine.response_lanes * line if graph.ports else 0
    ends = {u.id: u.kind.name for u in graph.units if u.kind.name in ("source", "sink")}
    sources = sum(1 + beat_bits(c.payload) for c in graph.channels if c.src[0] in ends)
    return CONTROL_BITS + memory + sources + sum(kind == "sink" for kind in ends.values())


def capacities(graph: UnitGraph, machine: Machine) -> Iterator[Capacity]:
    """Every count that the hardware has a width for."""
    where = f"graph {graph.name}"
    smaller = "split the program, or give it fewer and larger tiles"
    yield Capacity("units", where, len(graph.units), UNITS[-1], smaller)
    yield Capacity("run-time registers", where, registers(graph), REGISTERS[-1], smaller)
    yield Capacity(
        "off-chip ports",
        where,
        len(graph.ports),
        PORTS[-1],
        "split the program, or put several tensors in one and read them by one load",
    )
    if graph.ports:
        yield Capacity(
            "lines that the memory delivers in a cycle",
            where,
            machine.response_lanes,
            RESPONSE_LANES[-1],
            "use fewer channels",
        )
    yield from _widths(graph, machine)
    for c in graph.channels:
        yield Capacity(
            "bits of a beat",
            f"channel {c.name}",
            beat_bits(c.payload),
            BEAT_BITS,
            "zip fewer streams, or use smaller tiles",
        )
    yield Capacity(
        "bits of inputs",
        where,
        input_bits(graph, machine),
        INPUT_BITS,
        "load tiles from off-chip tensors in place of some sources, or use smaller tiles",
    )


def _widths(graph: UnitGraph, machine: Machine) -> Iterator[Capacity]:
    """Widths that off-chip units count and address with."""
    widths = machine.widths
    for u in (graph.units[unit] for unit in graph.ports):
        p = u.kind
        loops: list[list[int]] = [
            getattr(p, name, []) for name in ("shape", "row_step", "col_step")
        ]
        sizes = [getattr(p, name) for name in ("tensor_rows", "tensor_cols", "rows", "cols")]
        places = [x for place in getattr(p, "order", None) or () for x in place]
        reach: list[int] = [
            sum(max(n - 1, 0) * x for n, x in zip(loops[0], xs, strict=True)) for xs in loops[1:]
        ]
        most: dict[str, tuple[int, int]] = {
            "size_bits": (max([*sizes, *places, *chain(*loops)]), widths.size),
            "size_bits + 4": (max(reach), widths.position),
            "address_bits": (p.base + p.tensor_rows * p.pitch - 1, widths.address),
        }
        for name, (have, bits) in most.items():
            yield Capacity(
                f"is what `{name}` has to hold",
                f"unit {u.name}",
                have,
                (1 << bits) - 1,
                "raise it in the configuration, or use smaller tensors",
            )


def check_capacity(graph: UnitGraph, machine: Machine) -> None:
    """Refuse a graph that has more of something than one fabric holds.

    Raises
    ------
    LoweringError
        With the count, the limit and the remedy.
    """
    for c in capacities(graph, machine):
        if c.have > c.most:
            raise LoweringError(
                f"{c.have:,} {c.what}", c.where, f"a fabric has at most {c.most:,}", c.remedy
            )
