"""Lowering to physical tiles and the unit kinds of machine/kinds/."""

from __future__ import annotations

from collections.abc import Iterable

import sympy

from ...machine.beat import LINE_BYTES, MAX_STOP, BufferRef, Payload, Scalar, Selector, Tile, Tuple
from ...machine.config import Config
from ...machine.kinds import KINDS
from ...machine.unitgraph import Tensor, UnitGraph, validate
from ..functions.tiles import Elementwise, spread_of
from ..graph import Graph, Operator, Stream, TensorRef
from ..operators.shapes import Expand
from ..types import (
    BufferType,
    ScalarType,
    SelectorType,
    TileType,
    TupleType,
    ceil_div,
    dim,
    element_bytes,
)
from .base import Lowering, Port, inner_dims
from .buffers import Buffers
from .matmul import Products
from .stream_units import StreamUnits


class MachineLowering(Buffers, Products, StreamUnits, Lowering):
    """Lowering to physical tiles and the unit kinds of machine/kinds/.

    Operators call its methods.
    """

    timing = "machine"
    kinds = KINDS

    def __init__(self, graph: Graph, config: Config):
        super().__init__(graph, config)
        self.m = config.machine
        self.t = self.m.t
        self.depth = self.m.channel_depth
        self.tensors: dict[str, Tensor] = {}
        self.used = 0
        self.buffers: dict[str, int] = {}  # on-chip memory -> scratchpad unit
        self.held: list[
            dict
        ] = []  # scratchpad unit, and the physical tiles of a buffer of each writer
        self.readers: dict[
            str, tuple[int, int | None]
        ] = {}  # Streamify -> its port, and the input of its reference
        self.token = Scalar(1)

    def finish(self) -> UnitGraph:
        self.meta = {
            "timing": "machine",
            "config": self.config.name,
            "asserted": self.asserted(),
            "buffers": self.held,
        }
        out = UnitGraph(
            self.graph.name,
            self.t,
            tuple(self.units),
            self.named_channels(),
            tuple(self.tensors.values()),
            tuple(self.port_order()),
            self.used,
            self.meta,
        )
        validate(out)
        return out

    def publish(self, stream: Stream, port: Port) -> None:
        top = (
            stream.rank + inner_dims(stream.element) + 1
        )  # a repeat inside a unit adds a dimension on the way
        if top > MAX_STOP:
            raise self.error(
                stream.node,
                f"stream {stream.name} {stream.type} needs stops up to {top}, a beat has "
                f"{MAX_STOP}",
                remedy="flatten dimensions",
            )
        super().publish(stream, port)

    # -- tiles
    # --------------------------------------------------------------------------

    def inner(self, node: Operator, i: int) -> int:
        return inner_dims(node.inputs[i].element)

    def tile(self, node: Operator, i: int) -> TileType:
        """The element type of an input that carries tiles of any size."""
        t = node.inputs[i].element
        if not isinstance(t, TileType):
            raise self.error(node, f"stream {node.inputs[i].name} carries {t}, not tiles")
        return t

    def static_tile(self, node: Operator, i: int) -> TileType:
        return self.check_static(node.inputs[i].element, node, node.inputs[i].name)

    def check_static(self, tile, node: Operator, stream: str) -> TileType:
        if not isinstance(tile, TileType):
            raise self.error(node, f"stream {stream} carries {tile}, not tiles")
        if not tile.static:
            raise self.error(
                node,
                f"stream {stream} carries {tile} of run-time size",
                remedy="give the tile a static size",
            )
        return tile

    def grid(self, tile: TileType) -> tuple[int | None, int | None]:
        """Rows and columns of physical tiles of a logical tile; None for a size that only the run
        tells.
        """
        rows, cols = (
            None if d.value is None else ceil_div(d.value, self.t) for d in (tile.rows, tile.cols)
        )
        return rows, cols

    def most_tiles(self, tile: TileType) -> int | None:
        """Most physical tiles of a logical tile, or None where no bound is known."""
        return self.graph.most(dim(self.tiles_of(tile)))

    def bounded(self, node: Operator, tiles: sympy.Expr | int, what: str, rule: str) -> int:
        """The most physical tiles that wait somewhere; refused, with ``what`` and ``rule``, where
        their number has no bound.
        """
        most = self.graph.most(dim(tiles))
        if most is None:
            raise self.error(
                node, what, rule=rule, remedy="bound the size: graph.dynamic(name, most=...)"
            )
        return most

    def payload(self, element, node: Operator) -> Payload:
        if isinstance(element, TileType):
            return Tile(self.t, element.dtype)
        if isinstance(element, BufferType):
            pad = self.scratchpad_of(element)
            return BufferRef(self.m.pages) if pad is None else self.reference(pad)
        if isinstance(element, SelectorType):
            return Selector(element.n)
        if isinstance(element, ScalarType):
            return Scalar(element.bits)
        if isinstance(element, TupleType):
            return Tuple(tuple(self.payload(x, node) for x in element.members))
        raise self.error(node, f"a stream of {element} has no payload on this machine")

    def tensor(self, ref: TensorRef, node: Operator) -> dict:
        """Allocate a tensor and return the address parameters of the unit that moves it."""
        if ref.dtype != self.m.dtype:
            raise self.error(
                node,
                f"tensor {ref.name} holds {ref.dtype}, machine {self.config.name} moves "
                f"{self.m.dtype}",
                remedy=(
                    f"declare the tensor as {self.m.dtype}, or choose a configuration with dtype "
                    f"{ref.dtype}"
                ),
            )
        if ref.name not in self.tensors:
            pitch = ceil_div(ref.cols * element_bytes(ref.dtype), LINE_BYTES) * LINE_BYTES
            self.tensors[ref.name] = Tensor(
                ref.name, ref.rows, ref.cols, ref.dtype, self.used, pitch, ref.role
            )
            self.used += ref.rows * pitch
            if self.used >= 1 << 32:
                raise self.error(
                    node,
                    f"tensors take {self.used} B with tensor {ref.name}",
                    rule="addresses have 32 bits",
                    remedy="use smaller tensors",
                )
        x = self.tensors[ref.name]
        return {
            "tensor": x.name,
            "base": x.base,
            "pitch": x.pitch,
            "tensor_rows": x.rows,
            "tensor_cols": x.cols,
        }

    # -- units
    # --------------------------------------------------------------------------

    def broadcast(
        self, node: Operator, port: Port, n: int, role: str = "", element=None
    ) -> list[Port]:
        """``n`` copies of a stream of ``element``; those of references are counted."""
        unit = self.unit(
            "broadcast", node, {"n": n, "scratchpad": self.scratchpad_of(element)}, role
        )
        self.connect(port, unit, 0)
        return [Port(unit, i, port.payload) for i in range(n)]

    def accum(
        self,
        node: Operator,
        src: Port,
        reduce: Iterable[int],
        tiles: int | None,
        out: TileType,
        role: str = "",
        *,
        fn: str = "add",
        scan: bool = False,
    ) -> Port:
        """Accumulate over the physical dimensions ``reduce``, with at most ``tiles`` partial
        results at a time (None: only the run can tell).
        """
        if tiles is not None and tiles > self.m.accum_tiles:
            raise self.error(
                node,
                f"its result takes {tiles} tiles of {self.t} x {self.t} of partial sums, an "
                f"accumulator holds {self.m.accum_tiles}",
                remedy="use smaller tiles, or raise machine.accum_tiles",
            )
        mask = sum(1 << d for d in reduce)
        params = {
            "fn": fn,
            "reduce": mask,
            "depth": self.m.accum_tiles,
            "lanes": self.m.lanes_for("accum"),
            "init_rows": out.rows.value if out.static else 0,
            "init_cols": out.cols.value or 0,
        }
        if scan:
            params["scan"] = True
        return self.chain(src, "accum", node, params, role, Tile(self.t, "fp32"))

    def spread(
        self,
        node: Operator,
        kind: str,
        params: dict,
        inputs: list[Port],
        out: Payload,
        role: str = "",
    ) -> Port:
        """``kind`` units behind ``inputs``: as many as the node asks for, fed and collected round
        robin.
        """
        n = node.args["units"] or self.m.units_for(kind)
        if n == 1:
            unit = self.unit(kind, node, params, role)
            for i, p in enumerate(inputs):
                self.connect(p, unit, i)
            return Port(unit, 0, out)
        prefix = f"{role}_" if role else ""
        splits = []
        for i, p in enumerate(inputs):
            splits.append(self.unit("split", node, {"n": n}, f"{prefix}split{i}"))
            self.connect(p, splits[-1], 0)
        workers = [self.unit(kind, node, dict(params), f"{role or kind}{i}") for i in range(n)]
        merge = self.unit("merge", node, {"n": n}, f"{prefix}merge")
        for i, w in enumerate(workers):
            for j, s in enumerate(splits):
                self.connect(Port(s, i, inputs[j].payload), w, j)
        for i, w in enumerate(workers):
            self.connect(Port(w, 0, out), merge, i)
        return Port(merge, 0, out)

    def paced(self, node: Operator, src: Port) -> Port:
        """``src``, slowed down to the interval that a node asks for."""
        interval = node.args["interval"]
        return (
            src
            if interval is None
            else self.chain(src, "pace", node, {"interval": interval}, "pace")
        )

    def elementwise(self, node: Operator, fn: Elementwise, constant: int | None = None) -> Port:
        """An element-wise function, the second operand spread over the first where it has one row
        or column, or a ``constant`` (fp32 bits).
        """
        inputs = self.operands(node)
        tuple_in = isinstance(node.inputs[0].element, TupleType)
        params = {
            "fn": fn.name,
            "arity": fn.arity,
            "lanes": self.m.lanes_for(fn.name),
            "tuple_in": tuple_in,
        }
        if constant is not None:
            params["constant"] = constant
        elif fn.arity == 2 and (how := spread_of(node.operands())):
            params["spread"] = how
            if tuple_in and not all(map(self.one_beat, node.operands())):
                raise self.error(
                    node,
                    f"spreads {node.operands()[1]} over {node.operands()[0]} in a stream of pairs",
                    remedy="pass the two streams, not their Zip",
                )
            if not tuple_in:
                inputs = self.spread_operand(node, how, *inputs)
        inputs[0] = self.paced(node, inputs[0])
        return self.spread(node, "map", params, inputs, self.payload(node.outputs[0].element, node))

    def operands(self, node: Operator) -> list[Port]:
        """What feeds a node's inputs.

        Where one is an Expand by the other, that one has room for a whole tile: the reference is
        told of it with its last physical tile.
        """
        ports = [self.take(node, i) for i in range(len(node.inputs))]
        for i, s in enumerate(node.inputs):
            for other in node.inputs:
                if (
                    isinstance(other.node, Expand)
                    and other.node.by_reference
                    and (ref := other.node.inputs[1]).node is s.node
                    and ref.port == s.port
                    and (tiles := self.most_tiles(s.element))
                    and tiles > 1
                ):
                    ports[i] = ports[i].deeper(tiles + self.depth)
        return ports

    def spread_operand(self, node: Operator, how: str, a: Port, b: Port) -> list[Port]:
        """Both operands with as many physical tiles: the second repeated over the first's grid."""
        first, second = node.operands()
        rows, cols = self.grid(first)
        if cols is None:
            return self.spread_by_tokens(node, how, a, b)
        own = self.grid(second)
        if own == (rows, cols) and rows is not None:
            return [a, b]
        if how == "cols":  # [rows, 1]: each tile as often as there are columns
            a = a.deeper(
                cols + self.depth
            )  # the column is often made of the row itself, which waits for it here
            return [
                a,
                self.chain(
                    self.chain(b, "flatten", node, {"lo": 0, "hi": 1}, "second"),
                    "repeat",
                    node,
                    {"count": cols},
                    "second_cols",
                ),
            ]
        flat = self.chain(b, "flatten", node, {"lo": 0 if how == "both" else 1, "hi": 2}, "second")
        if rows is not None and how == "both":
            flat = self.chain(flat, "repeat", node, {"count": rows}, "second_rows")
        elif rows is not None:
            return [
                a,
                self.scratchpad(node, flat, 1, rows, cols, "second_rows", f"operand {second}"),
            ]
        else:
            a, token = self.broadcast(node, a, 2, "first_fork", first)
            a = a.deeper(cols + self.depth)  # a row's token comes with its last tile
            bands = self.chain(token, "signal", node, {"level": 1}, "first_rows", self.token)
            if how == "rows":
                return [
                    a,
                    self.scratchpad(
                        node,
                        flat,
                        1,
                        None,
                        cols,
                        "second_rows",
                        f"operand {second}",
                        ref=bands,
                        level=1,
                    ),
                ]
            unit = self.unit("expand", node, {"level": 1, "scratchpad": None}, "second_rows")
            flat = self.chain(
                flat, "promote", node, {"level": 0, "outermost": False}, "second_place"
            )
            self.connect(flat, unit, 0)
            self.connect(bands, unit, 1)
            flat = Port(unit, 0, flat.payload)
        return [a, self.chain(flat, "repeat", node, {"count": cols}, "second_cols")]

    def spread_by_tokens(self, node: Operator, how: str, a: Port, b: Port) -> list[Port]:
        """Both operands with as many physical tiles, over columns that only the run tells: tokens
        of the first ask for the second's.
        """
        first, second = node.operands()
        rows = self.grid(first)[0]
        if how == "rows" and rows == 1:
            return [a, b]
        wide = self.bounded(
            node,
            self.places(first.cols, self.t),
            f"spreads {second} over {first}, whose columns have no bound",
            "the first operand waits in its channel for the second",
        )
        if how == "rows":  # kept for a pass a row of tiles, whose token comes with its last tile
            a, token = self.broadcast(node, a, 2, "first_fork", first)
            bands = self.chain(token, "signal", node, {"level": 1}, "first_rows", self.token)
            kept = self.scratchpad(
                node, b, 2, None, wide, "second_rows", f"operand {second}", ref=bands, level=1
            )
            return [
                a.deeper(wide + self.depth),
                self.chain(kept, "flatten", node, {"lo": 1, "hi": 2}, "second"),
            ]
        # the column is often made of the tile itself, which waits here: for a row of tiles, or for
        # all where row_reduce tells of an empty one
        a = a.deeper(wide * (rows or 1) + self.depth)
        a, token = self.broadcast(node, a, 2, "first_fork", first)
        unit = self.unit(
            "expand", node, {"level": 2 if how == "both" else 1, "scratchpad": None}, "second_cols"
        )
        self.connect(b, unit, 0)
        self.connect(
            self.chain(token, "signal", node, {"level": 0}, "first_tiles", self.token), unit, 1
        )
        return [a, Port(unit, 0, b.payload)]

    def row_reduce(self, node: Operator, op: str) -> Port:
        """Each row to one column: physical tiles on their own, then over the tiles of a row."""
        t = self.tile(node, 0)
        out = node.outputs[0].element
        rows, cols = self.grid(t)
        port = self.spread(
            node,
            "row_reduce",
            {"fn": op},
            [self.paced(node, self.take(node, 0))],
            Tile(self.t, "fp32"),
        )
        if cols == 1:
            return port
        if (
            cols is None and rows is not None
        ):  # over the tile as well, though it is one: so an empty one gives the identity
            top = node.inputs[0].rank + 4
            if top > MAX_STOP:
                raise self.error(
                    node,
                    f"stream {node.inputs[0].name} {node.inputs[0].type} needs stops up to {top} "
                    f"where its rows are reduced, a beat has {MAX_STOP}",
                    remedy="flatten dimensions",
                )
            for level, role in ((0, "places"), (3, "whole")):
                port = self.chain(port, "promote", node, {"level": level, "outermost": False}, role)
            return self.accum(node, port, [1, 3], rows, out, "over_tiles", fn=op)
        port = self.accum(node, port, [0], 1, out, "over_tiles", fn=op)
        return self.chain(port, "promote", node, {"level": 0, "outermost": False}, "columns")

    @staticmethod
    def has_buffer(element) -> bool:
        """Whether an element refers to buffers, or has a member that does."""
        return any(isinstance(x, BufferType) for x in (element, *getattr(element, "members", ())))

    def zip(self, node: Operator) -> Port:
        ports = [self.take(node, i) for i in range(2)]
        a = node.inputs[0].element
        b = node.inputs[1].element
        if any(self.has_buffer(x) for x in (a, b)):
            raise self.error(
                node,
                f"pairs {a} with {b}",
                rule="references to buffers are counted on streams of their own",
                remedy="put Streamify in front, or keep the streams apart",
            )
        tiles = [self.grid(x) for x in (a, b) if isinstance(x, TileType)]
        if inner_dims(a) != inner_dims(b) or len(set(tiles)) > 1:
            raise self.error(
                node, f"cannot pair {a} with {b}", rule="both elements take as many physical tiles"
            )
        unit = self.unit("zip", node, {})
        for i, p in enumerate(ports):
            self.connect(p, unit, i)
        return Port(unit, 0, Tuple(tuple(p.payload for p in ports)))


__all__ = ["MachineLowering"]
