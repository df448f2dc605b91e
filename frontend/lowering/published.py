"""Lowering to the published simulator's operators on logical tiles (machine/published_kinds.py)."""

from __future__ import annotations

from penstock.machine import published_kinds
from penstock.machine.config import Config
from penstock.machine.unitgraph import UnitGraph

from ..functions import Function
from ..graph import Graph, Operator
from ..types import TileType, TupleType
from .base import Lowering, Port


class PublishedLowering(Lowering):
    """Lowering to the published simulator's operators on logical tiles (machine/published_kinds.py)."""

    timing = "published"
    kinds = published_kinds.PUBLISHED_KINDS
    depth = 0  # the configuration's FIFO depth

    def __init__(self, graph: Graph, config: Config):
        super().__init__(graph, config)
        self.token = published_kinds.TOKEN

    def finish(self) -> UnitGraph:
        loads = [u.id for u in self.units if self.kinds[u.kind].offchip == "read"]
        order = self.port_order()
        ports = [u for u in order if u in loads] + [u.id for u in self.units if self.kinds[u.kind].offchip == "write"]
        self.meta = {"timing": "published", "config": self.config.name, "asserted": self.asserted()}
        out = UnitGraph(self.graph.name, 0, tuple(self.units), tuple(self.channels), (), tuple(ports), 0, self.meta)
        published_kinds.validate(out)
        return out

    def broadcast(self, node: Operator, port: Port, n: int, role: str = "", element=None) -> list[Port]:
        unit = self.unit("broadcast", node, {"n": n}, role)
        self.connect(port, unit, 0)
        return [Port(unit, i, self.token) for i in range(n)]

    def one(self, node: Operator, kind: str, params: dict) -> list[Port]:
        """A unit with one output that reads all inputs of a node."""
        unit = self.unit(kind, node, params)
        for i in range(len(node.inputs)):
            self.feed(node, i, unit, i)
        return [Port(unit, 0, self.token)]

    def edge(self, d, node: Operator) -> int:
        if d.value is None:
            raise self.error(node, f"tile size {d} is known only at run time", remedy="give the tile a static size")
        return d.value

    def load(self, node: Operator, tile: TileType) -> list[Port]:
        if node.inputs:
            raise self.unsupported(node)
        return self.one(node, "load", {"rows": self.edge(tile.rows, node), "cols": self.edge(tile.cols, node), "shape": list(node.args["shape"]), "par_dispatch": 0})

    def store(self, node: Operator) -> list[Port]:
        self.one(node, "store", {"par_dispatch": 0})
        return []

    def function(self, node: Operator) -> dict:
        fn: Function = node.args["fn"]
        for x in (*(i.element for i in node.inputs), *(o.element for o in node.outputs)):
            if any(not isinstance(m, TileType) for m in getattr(x, "members", (x,))):
                raise self.error(node, f"{fn.name} on {x} has no form in the published simulator", rule="its functions take and give tiles")
        return {"fn": fn.name, "rule": fn.rule, "flops": fn.cost, "compute_bw": node.args["compute_bw"] or 0, "write_back_mu": bool(node.args["write_back"])}

    def map(self, node: Operator) -> list[Port]:
        tuple_in = isinstance(node.inputs[0].element, TupleType)
        return self.one(node, "map", self.function(node) | {"arity": node.args["fn"].arity, "tuple_in": tuple_in})

    def accum(self, node: Operator) -> list[Port]:
        out = node.outputs[0].element
        params = self.function(node) | {"rank": node.args["rank"], "init_rows": self.edge(out.rows, node), "init_cols": self.edge(out.cols, node)}
        return self.one(node, "map_accum" if len(node.inputs) == 2 else "accum", params)
