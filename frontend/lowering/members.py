"""Tuples that no wire carries: a stream of them is lowered as a stream of each member.

A pair of members with equal grids of physical tiles travels as one beat, where all that takes it
does. Every other pair is a bundle of ports, and operators that move elements are lowered once a
member: units named ``NAME.m0``, ``NAME.m1``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import networkx as nx

from ...machine.beat import Selector, Tuple
from ...machine.kinds import Kind
from ...machine.kinds.copies import Zip as ZipUnit
from ...machine.kinds.ends import Sink as SinkUnit
from ...machine.kinds.numbers import Address, Signal
from ...machine.kinds.routing import Reassemble as ReassembleUnit
from ...machine.kinds.shape import Flatten
from ...machine.unitgraph import Unit
from ..functions.tiles import Elementwise, spread_of
from ..graph import Graph, Operator, Stream
from ..operators.boundary import Loop
from ..operators.compute import Map
from ..operators.flat_map import FlatMap
from ..operators.reduction import Accum, Reduction, Scan
from ..operators.reshape import Reshape
from ..operators.routing import EagerMerge, Reassemble
from ..operators.shapes import Expand, Zip
from ..types import (
    BufferType,
    ElementType,
    StreamType,
    TileType,
    TupleType,
    inner_dims,
    leaves_of,
    members_of,
)
from .base import Port
from .buffers import Buffers

if TYPE_CHECKING:
    from .machine import MachineLowering


@dataclass(frozen=True)
class Bundle:
    """The ports of a tuple's members."""

    members: tuple[Port | Bundle, ...]


class Members(Buffers):
    """A part of MachineLowering.

    Attributes
    ----------
    apart_at
        Streams of tuples that no wire carries, by operator and output.
    origins
        The operator that a view for a member is of, by names.
    leads
        The operator itself by name of the view for its first member.
    """

    def __init__(self, graph: Graph, config):
        super().__init__(graph, config)
        self.apart_at = self.bundled()
        self.origins: dict[str, str] = {}
        self.leads: dict[str, Operator] = {}

    # -- which tuples
    # --------------------------------------------------------------------------

    def bundled(self) -> set[tuple[str, int]]:
        """Streams of tuples that are apart: those that a wire cannot carry or a reader cannot take,
        and all that are made of them, or they of.
        """
        alike = nx.Graph()
        seeds = set()
        for node in self.graph.nodes:
            taken = [(s.node.name, s.port) for s in node.inputs if isinstance(s.element, TupleType)]
            made = [
                (node.name, i)
                for i, x in enumerate(node.outputs)
                if isinstance(x.element, TupleType)
            ]
            nx.add_path(alike, (*taken, *made))
            alike.add_nodes_from((*taken, *made))
            if taken and self.needs_apart(node):
                seeds |= set(taken)
            if isinstance(node, Zip) and not self.on_a_wire(*(s.element for s in node.inputs)):
                seeds |= set(made)
        return {at for part in nx.connected_components(alike) if seeds & part for at in part}

    def on_a_wire(self, a: ElementType, b: ElementType) -> bool:
        """True if a beat carries a pair: both elements take as many physical tiles."""
        leaves = [x for e in (a, b) for x in leaves_of(e)]
        grids = {self.grid(x) if isinstance(x, TileType) else () for x in leaves}
        return len(grids) < 2 and not any(isinstance(x, BufferType) for x in leaves)

    def needs_apart(self, node: Operator) -> bool:
        """True if an operator's units take the members of its tuples one by one."""
        if isinstance(node, Map):
            fn = node.args.fn
            if not isinstance(fn, Elementwise) or len(node.operands()) != 2:
                return True
            pair = a, b = node.tile_pair()
            return bool(spread_of(pair) or spread_of((b, a))) and not all(
                x.static and self.grid(x) == (1, 1) for x in pair
            )
        if isinstance(node, Reshape):
            return node.args.pad is not None
        return isinstance(node, (Accum, Scan, FlatMap, Expand))

    def is_apart(self, node: Operator, i: int) -> bool:
        s = node.inputs[i]
        return isinstance(s.element, TupleType) and (
            (f"{s.node.name}.m0", s.port, node.name, i) in self.ready
            or any(
                k[0].startswith(f"{s.node.name}.m0.") and k[1:] == (s.port, node.name, i)
                for k in self.ready
            )
        )

    # -- views
    # --------------------------------------------------------------------------

    def unit(self, node: Operator, kind: Kind, role: str = "") -> int:
        at = super().unit(node, kind, role)
        if node.name in self.origins:
            u = self.units[at]
            self.units[at] = Unit(u.id, u.name, u.kind, self.origins[node.name])
        return at

    def view(self, node: Operator, c: int) -> Operator:
        """The operator as it stands for member ``c`` of its tuples."""
        v = copy.copy(node)
        v.name = f"{node.name}.m{c}"
        v.outputs = [
            StreamType(x.element.members[c], x.shape) if isinstance(x.element, TupleType) else x
            for x in node.outputs
        ]
        given = vars(node.args)
        by_member = {
            k: x[c] for k in ("init", "pad") if isinstance(x := given.get(k), (tuple, list))
        }
        if by_member and isinstance(node.inputs[0].element, TupleType):
            v.args = type(node.args)(given | by_member)
        if isinstance(v, Reduction):
            v.result = v.outputs[0].element
        self.origins[v.name] = self.origins.get(node.name, node.name)
        if not c:
            self.leads[v.name] = self.leads.get(node.name, node)
        return v

    def read_by(self, stream: Stream) -> list[tuple[Operator, int]]:
        node = self.leads.get(stream.node.name, stream.node)
        return self.graph.consumers(Stream(node, stream.port))

    def publish(
        self, stream: Stream, port: Port | Bundle, readers: list[tuple[Operator, int]] | None = None
    ) -> None:
        if isinstance(port, Port):
            super().publish(stream, port, readers)
            return
        if readers is None:
            readers = self.graph.consumers(stream)
        for c, member in enumerate(port.members):
            self.publish(Stream(self.view(stream.node, c), stream.port), member, readers)

    def members(self, node: Operator, i: int) -> list[Stream]:
        """Streams of the members of an input that is apart."""
        s = node.inputs[i]
        return [Stream(self.view(s.node, c), s.port) for c in range(len(members_of(s.element)))]

    def hand_on(self, node: Operator, i: int, member: Stream, to: str, at: int) -> None:
        """Give the ports of a member of input ``i`` to input ``at`` of another operator."""
        name = member.node.name
        for k in [
            k
            for k in self.ready
            if (k[0] == name or k[0].startswith(f"{name}.m"))
            and k[1:] == (member.port, node.name, i)
        ]:
            self.ready[k[0], k[1], to, at] = self.ready.pop(k)

    def leaf_ports(self, node: Operator, i: int) -> list[tuple[Port, ElementType]]:
        """The ports of an input that is apart, each with its element type."""
        s = node.inputs[i]
        return [
            (self.ready[leaf.node.name, leaf.port, node.name, i], leaf.element)
            for leaf in self.leaf_streams(s)
        ]

    # -- operators
    # --------------------------------------------------------------------------

    def units_of(self, node: Operator) -> Sequence[Port | None]:
        return node.lower_machine(cast("MachineLowering", self))

    def lowered(self, node: Operator) -> Sequence[Port | Bundle | None]:
        if isinstance(node, Zip) and (node.name, 0) in self.apart_at:
            return [Bundle(tuple(self.whole(node, i) for i in range(2)))]
        apart = [i for i in range(len(node.inputs)) if self.is_apart(node, i)]
        if isinstance(node, Loop) and any((node.name, i) in self.apart_at for i in range(1)):
            raise self.error(
                node,
                f"feeds back {node.outputs[0].element}, whose members travel apart",
                remedy="feed the members back in loops of their own",
            )
        tuples = any(isinstance(x.element, TupleType) for x in node.outputs) or not node.outputs
        if apart and not tuples and isinstance(node, (Map, FlatMap, Reduction)):
            node = self.with_operands(node, apart)
            apart = []
        if isinstance(node, Map) and len(node.inputs) > 2:
            return [self.left_to_right(node)]
        if not apart or not tuples:
            return self.units_of(node)
        if isinstance(node, EagerMerge):
            return self.merge_members(node)
        views = self.views(node, apart)
        if isinstance(node, Reassemble):
            return [self.reassemble_members(node, views)]
        outs = [self.lowered(v) for v in views]
        return [
            Bundle(tuple(_some(out[p]) for out in outs))
            if isinstance(x.element, TupleType)
            else outs[0][p]
            for p, x in enumerate(node.outputs)
        ]

    def left_to_right(self, node: Map) -> Port:
        """A function of two operands over more of them."""
        ports = [self.take(node, i) for i in range(len(node.inputs))]
        first, *rest = node.inputs
        for k, s in enumerate(rest):
            last = k == len(rest) - 1
            v = copy.copy(node)
            v.name = node.name if last else f"{node.name}.s{k}"
            if not last:
                self.origins[v.name] = self.origins.get(node.name, node.name)
            v.inputs = [first, s]
            element = node.args.fn.result(first.element, s.element)
            v.outputs = [StreamType(element, first.shape)]
            for at, (x, port) in enumerate(zip(v.inputs, (ports[0], ports[k + 1]), strict=True)):
                self.ready[x.node.name, x.port, v.name, at] = port
            ports[0] = _port(self.units_of(v)[0])
            first = Stream(v, 0)
        return ports[0]

    def whole(self, node: Operator, i: int) -> Port | Bundle:
        """An input as it comes, a bundle where it is apart."""
        if not self.is_apart(node, i):
            return self.take(node, i)
        members = []
        for member in self.members(node, i):
            part = copy.copy(node)
            part.name = member.node.name
            part.inputs = [member]
            self.hand_on(node, i, member, part.name, 0)
            members.append(self.whole(part, 0))
        return Bundle(tuple(members))

    def with_operands(self, node: Operator, apart: list[int]) -> Operator:
        """The operator with an input for each member, for functions of several operands."""
        v = copy.copy(node)
        v.inputs = []
        moved = []
        for i, s in enumerate(node.inputs):
            moved += [(i, m) for m in self.leaf_streams(s)] if i in apart else [(i, s)]
        ports = [self.ready.pop((m.node.name, m.port, node.name, i)) for i, m in moved]
        for at, ((_, m), port) in enumerate(zip(moved, ports, strict=True)):
            v.inputs.append(m)
            self.ready[m.node.name, m.port, node.name, at] = port
        return v

    def leaf_streams(self, s: Stream) -> list[Stream]:
        """Streams of the members of a tuple that is apart, and of the tuples in it."""
        if not isinstance(s.element, TupleType):
            return [s]
        parts = [Stream(self.view(s.node, c), s.port) for c in range(len(s.element.members))]
        return [leaf for part in parts for leaf in self.leaf_streams(part)]

    def views(self, node: Operator, apart: list[int]) -> list[Operator]:
        """The operator once a member; the other inputs go to all."""
        views = [self.view(node, c) for c in range(len(members_of(node.inputs[apart[0]].element)))]
        for v in views:
            v.inputs = list(node.inputs)
        for i, s in enumerate(node.inputs):
            if i in apart:
                for v, m in zip(views, self.members(node, i), strict=True):
                    v.inputs[i] = m
                    self.hand_on(node, i, m, v.name, i)
            else:
                copies = self.broadcast(
                    node, self.take(node, i), len(views), f"members{i}", s.element
                )
                for v, port in zip(views, copies, strict=True):
                    self.ready[s.node.name, s.port, v.name, i] = port
        return views

    def merge_members(self, node: EagerMerge) -> list[Port | Bundle]:
        """The first member is merged as it arrives, the others by the selectors that this gives."""
        views = self.views(node, list(range(len(node.inputs))))
        ports = self.lowered(views[0])
        first, selector = ports
        copies = self.broadcast(
            node, _port(selector), len(views), "members", node.outputs[1].element
        )
        rest = [self.follow(v, copies[c], node.inputs[0].rank) for c, v in enumerate(views) if c]
        return [Bundle((_some(first), *rest)), copies[0]]

    def reassemble_members(self, node: Reassemble, views: list[Operator]) -> Bundle:
        """The units of one member are taken as they arrive; the order that this gives is that of
        all.
        """
        n = len(node.inputs) - 1
        lead = min(range(len(views)), key=lambda c: self.inner(views[c], 0))
        v = views[lead]
        rank = node.args.rank
        ids = []
        for i in range(n):
            if isinstance(v.inputs[i].element, (TupleType, BufferType)):
                raise self.error(
                    node,
                    f"reassembles {node.inputs[i].element}, whose members travel apart",
                    rule="one member is a tile, a scalar or a selector, whose arrival decides",
                    remedy="reassemble the members one by one",
                )
            port, fork = self.broadcast(node, self.take(v, i), 2, f"arrivals{i}")
            tiles = self.most_tiles(v.inputs[i].element) if self.inner(v, i) else 1
            sizes = [tiles, *(self.graph.most(d) for d in v.inputs[i].shape[1:])]
            room = 1
            for size in sizes:
                if size is None:
                    raise self.error(
                        node,
                        f"reassembles units of {node.inputs[i].type} of run-time size, whose "
                        "members travel apart",
                        rule="a unit waits until it is known which arrives first",
                        remedy="bound the sizes: graph.dynamic(name, most=...)",
                    )
                room *= size
            self.ready[v.inputs[i].node.name, v.inputs[i].port, v.name, i] = port.deeper(
                room + self.depth
            )
            token = self.chain(
                fork, node, Signal(level=rank + self.inner(v, i)), f"arrived{i}", self.token
            )
            ids.append(
                self.chain(
                    token,
                    node,
                    Address(stride=0, constant=i, fn="hot", targets=n, alone=True),
                    f"number{i}",
                    Selector(n),
                )
            )
        order = self.unit(node, ReassembleUnit(n=n, rank=0), "order")
        for i, port in enumerate(ids):
            self.connect(port, order, i)
        self.feed(v, n, order, n)
        for c, other in enumerate(views):
            if c != lead:
                self.connect(self.take(other, n), self.unit(node, SinkUnit(), f"unused{c}"), 0)
        copies = self.broadcast(node, Port(order, 0, Selector(n)), len(views), "order_members")
        return Bundle(tuple(self.follow(w, copies[c], rank) for c, w in enumerate(views)))

    def follow(self, node: Operator, order: Port, rank: int) -> Port | Bundle:
        """A member's units of ``rank`` dimensions in an order that one-hot selectors state."""
        n = order.payload.bits
        if self.is_apart(node, 0):
            views = self.views(node, list(range(n)))
            copies = self.broadcast(node, order, len(views), "order")
            return Bundle(tuple(self.follow(v, copies[c], rank) for c, v in enumerate(views)))
        level = rank + self.inner(node, 0)
        unit = self.unit(node, ReassembleUnit(n=n, rank=level))
        for i in range(n):
            self.feed(node, i, unit, i)
        self.connect(order, unit, n)
        port = Port(unit, 0, self.take(node, 0).payload)
        return self.chain(port, node, Flatten(lo=level, hi=level + 1), "units")

    def signal(self, node: Operator, i: int, level: int, role: str = "") -> Port:
        """One token for each element of an input; of a bundle, of its smallest member."""
        if not self.is_apart(node, i):
            return super().signal(node, i, level, role)
        leaves = self.leaf_ports(node, i)
        extra = level - self.inner(node, i)
        at = min(
            range(len(leaves)),
            key=lambda k: (isinstance(leaves[k][1], BufferType), inner_dims(leaves[k][1])),
        )
        for k, (port, element) in enumerate(leaves):
            if k != at:
                self.drop(node, port, element, f"{role}_unused{k}")
        port, element = leaves[at]
        return self.chain(port, node, Signal(level=inner_dims(element) + extra), role, self.token)

    def zip(self, node: Operator) -> Port:
        """A pair on one wire."""
        unit = self.unit(node, ZipUnit())
        self.feed_all(node, unit)
        return Port(unit, 0, Tuple(tuple(self.take(node, i).payload for i in range(2))))


def _some(port: Port | Bundle | None) -> Port | Bundle:
    assert port is not None
    return port


def _port(port: Port | Bundle | None) -> Port:
    assert isinstance(port, Port)
    return port
