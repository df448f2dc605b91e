"""Lowering to the published simulator's operators on logical tiles (machine/stepsim_kinds.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...machine import stepsim_kinds
from ...machine.config import Config
from ...machine.errors import LoweringError
from ...machine.kinds import Kind
from ...machine.unitgraph import Unit, UnitGraph
from ..functions.streams import Address, Number
from ..graph import Graph, Operator
from ..operators.flat_map import FlatMap
from ..operators.higher_order import Datapath
from ..operators.reduction import Reduction
from ..types import (
    BufferType,
    Dim,
    ElementType,
    ScalarType,
    SelectorType,
    TileType,
    TupleType,
    members_of,
)
from .base import Lowering, Port

if TYPE_CHECKING:
    from ..operators.routing import Partition


AS_FIXED = {"mask": "fixed"}
"""Rules of functions that take a cycle there, whatever they do."""


class StepsimLowering(Lowering):
    """Lowering to the published simulator's operators on logical tiles
    (machine/stepsim_kinds.py).
    """

    timing = "stepsim"
    depth = 0  # the configuration's FIFO depth

    def __init__(self, graph: Graph, config: Config):
        super().__init__(graph, config)
        self.token = stepsim_kinds.TOKEN
        self.loops_open: list[Operator] = []
        self.open: list[
            tuple[Port, int, int]
        ] = []  # what a loop gives, and the input that it feeds

    def connect(self, src: Port, unit: int, port: int) -> None:
        """Join a port to a unit's input; what a loop gives is joined when its end is known."""
        if src.unit < 0:
            self.open.append((src, unit, port))
        else:
            super().connect(src, unit, port)
            if src.depth:
                self.channels[-1] = replace(
                    self.channels[-1], depth=max(src.depth, self.config.stepsim.fifo_depth)
                )

    def loop(self, node: Operator) -> list[Port]:
        """A loop is its channel: there is no unit."""
        self.loops_open.append(node)
        return [Port(-len(self.loops_open), 0, self.token)]

    def lowered(self, node: Operator) -> Sequence[Port | None]:
        return node.lower_stepsim(self)

    def lower_nodes(self) -> None:
        super().lower_nodes()
        for src, unit, port in self.open:
            end = src
            while end.unit < 0:
                end = self.take(self.loops_open[-end.unit - 1], 0)
            super().connect(end, unit, port)

    def finish(self) -> UnitGraph:
        ports = [u for way in ("read", "write") for u in self.ports(way)]
        meta = {"timing": "stepsim", "config": self.config.name, "asserted": self.asserted()}
        out = UnitGraph(
            self.graph.name, 0, tuple(self.units), self.named_channels(), (), tuple(ports), 0, meta
        )
        stepsim_kinds.validate(out)
        return out

    def ports(self, way: str) -> list[int]:
        """Off-chip units that read, or write, in the order in which the HBM node serves them: that
        in which the published graph has its nodes. One without an input enters it with its first
        reader.
        """
        nodes = {node.name: node for node in self.graph.nodes}
        at = {name: i for i, name in enumerate(nodes)}
        found = [u for u in self.units if u.kind.offchip == way]

        def entry(unit: Unit) -> tuple[int, int]:
            node = nodes[unit.node]
            if node.inputs or not (readers := self.graph.consumers(node[0])):
                return at[node.name], 0
            return min((at[reader.name], i) for reader, i in readers)

        return [u.id for u in sorted(found, key=entry)]

    def broadcast(
        self, node: Operator, port: Port, n: int, role: str = "", element: ElementType | None = None
    ) -> list[Port]:
        unit = self.unit(node, self.kind("broadcast", n=n), role)
        self.connect(port, unit, 0)
        return [Port(unit, i, self.token) for i in range(n)]

    @staticmethod
    def kind(name: str, **params: Any) -> Kind:
        """A kind of this timing, with its parameters."""
        return stepsim_kinds.STEPSIM_KINDS[name](**params)

    def one(self, node: Operator, kind: str, **params: Any) -> list[Port]:
        """A unit with one output that reads all inputs of a node."""
        unit = self.unit(node, self.kind(kind, **params))
        self.feed_all(node, unit)
        return [Port(unit, 0, self.token)]

    def with_outer(self, node: Operator) -> Port:
        """The reshape in front gives the new outermost dimension itself."""
        port = self.take(node, 0)
        unit = self.units[port.unit]
        self.units[port.unit] = replace(unit, kind=unit.kind.but(add_outer=True))
        return port

    def edge(self, d: Dim, node: Operator) -> int:
        if d.value is None:
            raise self.error(
                node,
                f"tile size {d} is known only at run time",
                remedy="give the tile a static size",
            )
        return d.value

    def load(self, node: Operator, tile: TileType, shape: Sequence[int]) -> list[Port]:
        return self.one(
            node,
            "load_ref" if node.inputs else "load",
            rows=self.edge(tile.rows, node),
            cols=self.edge(tile.cols, node),
            shape=list(shape),
            par_dispatch=0,
        )

    def store(self, node: Operator) -> list[Port]:
        self.one(node, "store", par_dispatch=0)
        return []

    def store_at(self, node: Operator) -> list[Port]:
        (port,) = self.one(node, "store_at", par_dispatch=0)
        if not self.graph.consumers(node[0]):
            self.connect(port, self.unit(node, self.kind("sink"), "acknowledged"), 0)
        return [port]

    def function(self, node: Datapath) -> dict:
        fn = node.args.fn
        for x in (*(i.element for i in node.inputs), *(o.element for o in node.outputs)):
            taken = TileType | ScalarType | (SelectorType if isinstance(fn, Number) else ScalarType)
            if any(not isinstance(m, taken) for m in members_of(x)):
                raise self.error(
                    node,
                    f"{fn.name} on {x} has no form in the published simulator",
                    rule="its functions take and give tiles and numbers",
                )
        out = {
            "fn": fn.name,
            "rule": AS_FIXED.get(fn.rule, fn.rule),
            "flops": fn.cost,
            "compute_bw": node.args.compute_bw or 0,
            "write_back_mu": bool(node.args.write_back),
        }
        operands = node.operands()
        if not all(isinstance(x, TileType) for x in operands):
            out["tiles"] = sum(isinstance(x, TileType) for x in operands)
        if isinstance(fn, Number) and fn.rule == "address":
            stride, constant = fn.linear
            return out | {"stride": stride, "constant": constant}
        if isinstance(fn, Number):
            return out | {"op": stepsim_kinds.NUMBERS.index(fn.op), "constant": fn.constant}
        return out | ({"stride": fn.stride} if isinstance(fn, Address) else {})

    def formless(self, node: Operator) -> LoweringError:
        """The refusal of a form of an operator that the published simulator does not have."""
        return self.error(
            node,
            "this form of it is not in the published simulator",
            remedy="run it in the timing `machine`",
        )

    def map(self, node: Datapath) -> list[Port]:
        fn = node.args.fn
        if fn.rule == "transpose":
            return [self.turned(node)]
        wide = isinstance(fn, Number) and fn.op == "one_hot" and fn.constant > 62
        rule = AS_FIXED.get(fn.rule, fn.rule)
        if wide or len(node.operands()) > 2 or rule not in stepsim_kinds.RULES:
            raise self.formless(node)
        if fn.name.startswith("cast_"):
            return [self.take(node, 0)]  # the published simulator has one size of element
        tuple_in = isinstance(node.inputs[0].element, TupleType)
        return self.one(node, "map", **self.function(node), arity=fn.arity, tuple_in=tuple_in)

    def turned(self, node: Datapath) -> Port:
        """Port of a load whose tiles come transposed, as the published loads give them."""
        port = self.take(node, 0)
        unit = self.units[port.unit]
        if unit.kind.name not in ("load", "load_ref") or unit.kind.transposed:
            raise self.formless(node)
        self.units[port.unit] = replace(unit, kind=unit.kind.but(transposed=True))
        return port

    def accum(self, node: Reduction, scan: bool = False) -> list[Port]:
        """An accumulator; one of tiles of run-time size starts with none."""
        out = node.outputs[0].element
        new = node.args.init is not None or (scan and len(node.inputs) == 2)
        if new or (node.args.fn.rule == "elementwise" and not isinstance(out, TileType)):
            raise self.formless(node)
        size = (out.rows.value, out.cols.value) if isinstance(out, TileType) else (0, 0)
        return self.one(
            node,
            "scan" if scan else "map_accum" if len(node.inputs) == 2 else "accum",
            **self.function(node),
            rank=node.args.rank,
            init_rows=(size[0] or 0) if node.args.fn.rule != "retile_row" else 0,
            init_cols=size[1] or 0,
        )

    def pair(self, node: Operator) -> list[Port]:
        """A stream of pairs, each of one word."""
        for s in node.inputs:
            if isinstance(s.element, TupleType | BufferType) or (
                isinstance(s.element, SelectorType) and s.element.n > 62
            ):
                raise self.error(
                    node,
                    f"a pair with {s.element} has no form in the published simulator",
                    rule="a token has two words",
                )
        return self.one(node, "zip")

    def route(self, node: Operator, kind: str, n: int, rank: int) -> list[Port]:
        """A routing unit; its ports are the node's."""
        element = node.inputs[0].element
        members = members_of(element)
        params = {"n": n, "rank": rank}
        if n > 128:  # a token has two words
            raise self.formless(node)
        if kind != "eager_merge":
            params |= {
                "tiles": sum(isinstance(m, TileType) for m in members),
                "write_back_mu": False,
            }
        (port,) = self.one(node, kind, **params)
        outs = {"partition": n, "eager_merge": 2}.get(kind, 1)
        return [Port(port.unit, i, self.token) for i in range(outs)]

    def parallelize(self, node: Partition) -> list[Port]:
        """A Partition that deals in turn: the published Parallelize, which takes no selectors."""
        n = node.args.outputs
        unit = self.unit(node, self.kind("parallelize", n=n, rank=node.args.rank))
        self.feed(node, 0, unit, 0)
        return [Port(unit, i, self.token) for i in range(n)]

    def expanding(self, node: FlatMap) -> list[Port]:
        """A FlatMap's unit."""
        if node.args.rank > 1:
            raise self.formless(node)
        kind, params = node.args.fn.stepsim()
        self.apart(node, kind)
        return self.one(node, kind, **params, new=bool(node.args.rank))

    def source(self, node: Operator) -> list[Port | None]:
        """A stream from outside: selectors are generated a cycle after numbers (docs/stepsim.md).
        Those of what deals in turn are not there.
        """
        readers = self.graph.consumers(node[0])
        dealt = [i == 1 and getattr(reader.args, "in_turn", False) for reader, i in readers]
        if dealt and all(dealt):
            return [None]
        if any(dealt):
            raise self.error(
                node,
                "is read by a Partition with in_turn and by others",
                remedy="give each of them a Source of its own",
            )
        first = 1 if isinstance(node.outputs[0].element, SelectorType) else 0
        return [Port(self.unit(node, self.kind("stream", first=first)), 0, self.token)]
