"""The unit graph: the only hand-over from the front end to the model and the hardware.

Plain data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .beat import (
    MAX_STOP,
    Payload,
    Scalar,
    Selector,
    Tile,
    leaves,
    payload_from_dict,
    payload_to_dict,
)
from .errors import LoweringError, nearest
from .kinds import KINDS, Kind, Port, kind_of
from .limits import NUMBER_BITS, SCALAR_BITS


@dataclass(frozen=True)
class Channel:
    """A FIFO from one unit's output port to another's input port."""

    id: int
    name: str
    src: tuple[int, int]  # (unit id, output port)
    dst: tuple[int, int]  # (unit id, input port)
    depth: int
    payload: Payload


@dataclass(frozen=True)
class Unit:
    """One hardware unit: its kind with its parameters (machine/kinds/) and the program node it
    serves.
    """

    id: int
    name: str
    kind: Kind
    node: str = ""


@dataclass(frozen=True)
class Tensor:
    """An off-chip tensor: row-major, each row at ``pitch`` bytes, from byte address ``base``."""

    name: str
    rows: int
    cols: int
    dtype: str
    base: int
    pitch: int
    role: str = "input"  # "input" | "output" | "inout" | "spill"

    @property
    def bytes(self) -> int:
        """Bytes of the allocation, row padding included."""
        return self.rows * self.pitch


@dataclass(frozen=True)
class UnitGraph:
    """Units, channels, off-chip tensors and memory-port order.

    Attributes
    ----------
    ports
        Unit ids of the off-chip units in order of need; a port's index is its priority and its id
        on the wire.
    memory_bytes
        Size of the off-chip address space in use.
    """

    name: str
    t: int
    units: tuple[Unit, ...]
    channels: tuple[Channel, ...]
    tensors: tuple[Tensor, ...] = ()
    ports: tuple[int, ...] = ()
    memory_bytes: int = 0
    meta: dict[str, Any] = field(default_factory=dict)

    def inputs(self, unit: int) -> list[Channel]:
        """Input channels of a unit, by port."""
        return list(self._ends[0].get(unit, ()))

    def outputs(self, unit: int) -> list[Channel]:
        """Output channels of a unit, by port."""
        return list(self._ends[1].get(unit, ()))

    @cached_property
    def _ends(self) -> tuple[dict[int, list[Channel]], dict[int, list[Channel]]]:
        """Input and output channels by unit: looking through all of them for each unit is most of
        the time of a large graph.
        """
        ins: dict[int, list[Channel]] = {}
        outs: dict[int, list[Channel]] = {}
        for c in sorted(self.channels, key=lambda c: c.dst[1]):
            ins.setdefault(c.dst[0], []).append(c)
        for c in sorted(self.channels, key=lambda c: c.src[1]):
            outs.setdefault(c.src[0], []).append(c)
        return ins, outs

    def input_port(self, channel: Channel) -> Port:
        """The port that a channel leads to, by name."""
        unit = self.units[channel.dst[0]]
        return unit.kind.inputs()[channel.dst[1]]

    def output_port(self, channel: Channel) -> Port:
        """The port that a channel comes from, by name."""
        unit = self.units[channel.src[0]]
        return unit.kind.outputs()[channel.src[1]]

    def memories(self) -> list[int]:
        """Ids of the units that hold buffers."""
        return [u.id for u in self.units if u.kind.memory]

    def posters(self, memory: int) -> list[int]:
        """Ids of the units that change the reference counts of a memory unit."""
        return self._posters.get(memory, [])

    @cached_property
    def _posters(self) -> dict[int, list[int]]:
        """Ids of the units that post to each memory unit."""
        found: dict[int, list[int]] = {}
        for u in self.units:
            if (memory := u.kind.posts_to()) is not None:
                found.setdefault(memory, []).append(u.id)
        return found

    def drops(self, memory: int) -> bool:
        """True if any unit lowers the reference counts of a memory unit."""
        return any(self.units[u].kind.drops for u in self.posters(memory))

    def ends(self) -> list[int]:
        """Ids of the units that the run waits for."""
        return [u.id for u in self.units if u.kind.ends_run]

    def tensor(self, name: str) -> Tensor:
        return next(x for x in self.tensors if x.name == name)

    def structure(self, registers: bool = True) -> UnitGraph:
        """The graph without tensors and, if they are in registers, without run-time parameters: the
        part that one RTL build depends on.
        """

        def fixed(kind: Kind) -> Kind:
            return kind.of({k: v for k, v in kind.stated.items() if k not in kind.runtime})

        units = self.units
        if registers:
            units = tuple(replace(u, kind=fixed(u.kind)) for u in units)
        return UnitGraph(self.name, self.t, units, self.channels, (), self.ports, 0, {})

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "t": self.t,
            "units": [
                {
                    "id": u.id,
                    "name": u.name,
                    "kind": u.kind.name,
                    "params": u.kind.stated,
                    "node": u.node,
                }
                for u in self.units
            ],
            "channels": [
                {
                    "id": c.id,
                    "name": c.name,
                    "src": list(c.src),
                    "dst": list(c.dst),
                    "depth": c.depth,
                    "payload": payload_to_dict(c.payload),
                }
                for c in self.channels
            ],
            "tensors": [vars(x).copy() for x in self.tensors],
            "ports": list(self.ports),
            "memory_bytes": self.memory_bytes,
            "meta": self.meta,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, sort_keys=True)

    @staticmethod
    def from_dict(d: dict[str, Any]) -> UnitGraph:
        return UnitGraph(
            d["name"],
            d["t"],
            tuple(
                Unit(u["id"], u["name"], kind_of(u["kind"]).of(u["params"]), u.get("node", ""))
                for u in d["units"]
            ),
            tuple(
                Channel(
                    c["id"],
                    c["name"],
                    tuple(c["src"]),
                    tuple(c["dst"]),
                    c["depth"],
                    payload_from_dict(c["payload"]),
                )
                for c in d["channels"]
            ),
            tuple(Tensor(**x) for x in d["tensors"]),
            tuple(d["ports"]),
            d["memory_bytes"],
            d.get("meta", {}),
        )

    def __str__(self) -> str:
        lines = [f"unit graph {self.name} (t = {self.t})"]
        for u in self.units:
            ins = ", ".join(c.name for c in self.inputs(u.id))
            outs = ", ".join(c.name for c in self.outputs(u.id))
            lines.append(f"  {u.id:3d} {u.name}: {u.kind}  [{ins}] -> [{outs}]")
        return "\n".join(lines)


def validate(
    graph: UnitGraph, kinds: Mapping[str, type[Kind]] = KINDS, least_depth: int = 1
) -> None:
    """Check ids, kinds, parameters, ports and off-chip order against a table of kinds.

    Raises
    ------
    LoweringError
        Naming unit or channel, and the rule.
    """
    _check_channels(graph, least_depth)
    for i, u in enumerate(graph.units):
        _check_unit(i, u, kinds)
    _check_ports(graph)
    ins, outs = ends_of_all(graph)
    for u in graph.units:
        _check_payloads(graph.t, u, ins[u.id], outs[u.id])
    _check_loops(graph)
    for c, stop in zip(graph.channels, highest_stops(graph), strict=True):
        if stop > MAX_STOP:
            raise LoweringError(
                f"can carry stop level {stop}",
                f"channel {c.name}",
                f"stop levels go up to {MAX_STOP}",
                "use fewer dimensions",
            )
    _check_posts(graph)


def _check_channels(graph: UnitGraph, least_depth: int) -> None:
    for i, c in enumerate(graph.channels):
        where = f"channel {c.name}"
        if c.id != i:
            raise LoweringError(
                f"id {c.id} is at position {i}", where, "ids count from 0 in list order"
            )
        if c.depth < least_depth:
            raise LoweringError(f"depth must be at least {least_depth}, not {c.depth!r}", where)
        for unit, _ in (c.src, c.dst):
            if not 0 <= unit < len(graph.units):
                raise LoweringError(
                    f"leads to or from unit {unit}", where, "its ends are ids of the graph's units"
                )


def _defined(kind: type[Kind]) -> tuple[str, str]:
    """Module and name of a class: equal for those of a program's file that has been read again."""
    return kind.__module__, kind.__qualname__


def _check_unit(i: int, u: Unit, kinds: Mapping[str, type[Kind]]) -> None:
    """Check id, kind and parameters of the unit at position i."""
    where = f"unit {u.name}"
    if u.id != i:
        raise LoweringError(
            f"id {u.id} is at position {i}", where, "ids count from 0 in list order"
        )
    name = u.kind.name
    if name not in kinds or _defined(kinds[name]) != _defined(type(u.kind)):
        raise LoweringError(
            f"unknown kind {name!r}", where, remedy=nearest(name, sorted(kinds), "known kinds:")
        )
    u.kind.check(where)


def _check_ports(graph: UnitGraph) -> None:
    """Every input and output of every unit has one channel; every off-chip unit has its turn."""
    ins, outs = ends_of_all(graph)
    for u in graph.units:
        for side, ports, have in (
            ("inputs", u.kind.inputs(), [c.dst[1] for c in ins[u.id]]),
            ("outputs", u.kind.outputs(), [c.src[1] for c in outs[u.id]]),
        ):
            if have != list(range(len(ports))):
                names = f" ({', '.join(map(str, ports))})" if ports else ""
                raise LoweringError(
                    f"{len(have)} {side}",
                    f"unit {u.name}",
                    f"kind {u.kind.name} has {len(ports)} {side} here, numbered from 0{names}",
                )
    off_chip = [u.id for u in graph.units if u.kind.offchip]
    if sorted(graph.ports) != off_chip:
        raise LoweringError(
            f"ports are {list(graph.ports)}",
            f"graph {graph.name}",
            f"they list every off-chip unit once: {off_chip} in some order",
        )


def _check_loops(graph: UnitGraph) -> None:
    """No unit waits for its own output from the start."""
    never = never_used(graph)
    if never:
        waiting = list(dict.fromkeys(graph.units[c.src[0]].name for c in never))
        raise LoweringError(
            f"channel {never[0].name} can never carry a beat: {', '.join(waiting)} wait for each "
            "other's first",
            f"graph {graph.name}",
            "a feedback loop passes a unit that can begin with another input",
            "close it through a Reassemble or an EagerMerge",
        )


def _check_posts(graph: UnitGraph) -> None:
    """Check that units post only to units that hold buffers."""
    holders = graph.memories()
    for u in graph.units:
        memory = u.kind.posts_to()
        if memory is not None and memory not in holders:
            raise LoweringError(
                f"{u.kind.posts} is {memory!r}",
                f"unit {u.name}",
                "it is the id of a unit that holds buffers",
            )


def ends_of_all(graph: UnitGraph) -> tuple[list[list[Channel]], list[list[Channel]]]:
    """Input channels and output channels of every unit, by unit and port."""
    ins: list[list[Channel]] = [[] for _ in graph.units]
    outs: list[list[Channel]] = [[] for _ in graph.units]
    for c in graph.channels:
        ins[c.dst[0]].append(c)
        outs[c.src[0]].append(c)
    return [sorted(x, key=lambda c: c.dst[1]) for x in ins], [
        sorted(x, key=lambda c: c.src[1]) for x in outs
    ]


def _all_behind(graph: UnitGraph) -> list[list[Channel]]:
    """Input channels, for each channel, of its unit that its stops depend on: a writer or reader of
    buffers is on its own.
    """
    ins, _ = ends_of_all(graph)
    behind: list[list[Channel]] = []
    for c in graph.channels:
        u, port = c.src
        kind = graph.units[u].kind
        found = ins[u]
        if kind.memory:
            found = [x for x in ins[u] if x.dst[1] in kind.behind(port)]
        behind.append(found)
    return behind


class _Order:
    """Channels in an order in which each comes behind those that it depends on.

    Attributes
    ----------
    left
        For each channel, how many it still waits for.
    ready
        Channels that wait for none, and have not come.
    """

    def __init__(self, behind: list[list[Channel]], left: list[int]):
        self.left = left
        self.ready = [c for c, n in enumerate(left) if n == 0]
        self._ahead: list[list[int]] = [[] for _ in behind]
        for c, others in enumerate(behind):
            for other in others:
                self._ahead[other.id].append(c)

    def come(self, c: int) -> None:
        """Channel c has come."""
        for other in self._ahead[c]:
            self.left[other] -= 1
            if self.left[other] == 0:
                self.ready.append(other)


def never_used(graph: UnitGraph) -> list[Channel]:
    """Channels that no beat can ever reach: a deadlock that is certain before the run."""
    behind = _all_behind(graph)
    needs = [len(others) for others in behind]
    for c in graph.channels:
        if graph.units[c.src[0]].kind.any_input:
            needs[c.id] = 1
    order = _Order(behind, needs)
    while order.ready:
        order.come(order.ready.pop())
    return [c for c in graph.channels if order.left[c.id] > 0]


def highest_stops(graph: UnitGraph) -> list[int]:
    """The highest stop level that each channel can carry, by id.

    Sources give none of their own, and neither does what comes back in a loop.
    """
    highest: dict[int, int] = {}
    ins, _ = ends_of_all(graph)
    behind = _all_behind(graph)
    order = _Order(behind, [len(others) for others in behind])
    entries = iter(range(len(graph.channels)))
    while order.ready or len(highest) < len(graph.channels):
        # a loop is entered somewhere
        c = order.ready.pop() if order.ready else next(e for e in entries if e not in highest)
        if c in highest:  # entered before it was ready
            continue
        u, port = graph.channels[c].src
        tops = tuple(highest.get(x.id, 0) for x in ins[u])
        highest[c] = graph.units[u].kind.stops(tops)[port]
        order.come(c)
    return [highest[c.id] for c in graph.channels]


def _check_payloads(t: int, u: Unit, ins: list[Channel], outs: list[Channel]) -> None:
    """Check a unit's channels: their payloads are those that its kind takes and gives."""
    for c in (*ins, *outs):
        if any(isinstance(x, Tile) and x.t != t for x in leaves(c.payload)):
            raise LoweringError(
                f"carries {c.payload}",
                f"channel {c.name}",
                f"tiles of this graph have the edge {t}",
            )
        if any(
            isinstance(x, (Scalar, Selector))
            and not 1 <= x.bits <= (SCALAR_BITS if isinstance(x, Scalar) else NUMBER_BITS)
            for x in leaves(c.payload)
        ):
            raise LoweringError(
                f"carries {c.payload}",
                f"channel {c.name}",
                f"scalars have 1 to {SCALAR_BITS} bits, selectors to {NUMBER_BITS}; use a tuple of "
                "several",
            )
    try:
        given = u.kind.payloads(tuple(c.payload for c in ins))
    except ValueError as e:
        raise LoweringError(
            f"takes {', '.join(str(c.payload) for c in ins)}", f"unit {u.name}", str(e)
        ) from None
    if given is None:
        return
    for c, payload in zip(outs, given, strict=True):
        if payload is not None and c.payload != payload:
            raise LoweringError(
                f"carries {c.payload}",
                f"channel {c.name}",
                f"{u.kind.name} {u.name} gives {payload} on {u.kind.outputs()[c.src[1]]}",
            )
