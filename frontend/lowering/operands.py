"""Element-wise functions, reductions of rows, and pairs."""

from __future__ import annotations

from ...machine.beat import MAX_STOP, Tile
from ...machine.kinds.compute import Map, RowReduce
from ...machine.kinds.copies import Expand as ExpandUnit
from ...machine.kinds.copies import Repeat
from ...machine.kinds.numbers import Signal
from ...machine.kinds.rows import Permute
from ...machine.kinds.shape import Flatten, Promote
from ..functions.tiles import Elementwise, spread_of
from ..operators.higher_order import Datapath
from ..operators.shapes import Expand
from ..types import TileType, TupleType, dim, tiles_along
from .base import Port
from .buffers import Buffers


class Operands(Buffers):
    """A part of MachineLowering: units that take the tiles of their operands one by one."""

    def elementwise(self, node: Datapath, fn: Elementwise, constant: int | None = None) -> Port:
        """An element-wise function, an operand spread over the other where it has one row or
        column, or a ``constant`` (fp32 bits).
        """
        inputs = self.operands(node)
        tuple_in = isinstance(node.inputs[0].element, TupleType)
        kind = Map(fn=fn.name, arity=fn.arity, lanes=self.m.lanes_for(fn.name), tuple_in=tuple_in)
        if constant is not None:
            kind = kind.but(constant=constant)
        elif fn.arity == 2:
            pair = node.tile_pair()
            turned = pair[1], pair[0]
            second, first = spread_of(pair), spread_of(turned)
            if second:
                kind = kind.but(spread=second)
            if first:
                kind = kind.but(first=first)
            if not tuple_in and first and second:
                inputs = self.spread_both(node, second, *inputs)
            elif not tuple_in and first:
                inputs = self.spread_operand(node, first, inputs[1], inputs[0], turned)[::-1]
            elif not tuple_in and second:
                inputs = self.spread_operand(node, second, inputs[0], inputs[1], pair)
        return self.shared(node, kind, inputs, self.payload(node.outputs[0].element, node))

    def operands(self, node: Datapath) -> list[Port]:
        """Channels that feed a node's inputs.

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

    def spread_both(self, node: Datapath, second: str, a: Port, b: Port) -> list[Port]:
        """A column and a row, each over the other's tiles."""
        pair = node.tile_pair()
        if not (pair[0].static and pair[1].static):
            raise self.error(
                node,
                f"spreads {pair[0]} and {pair[1]} over each other",
                rule="a column and a row of static sizes are spread both at a time",
                remedy="give the tiles static sizes",
            )
        ports = {"rows": b, "cols": a} if second == "rows" else {"rows": a, "cols": b}
        out = node.outputs[0].tile
        over = (out, TileType(dim(1), out.cols, "fp32"))
        row = self.spread_operand(node, "rows", ports["cols"], ports["rows"], over)[1]
        over = (out, TileType(out.rows, dim(1), "fp32"))
        column = self.spread_operand(node, "cols", row, ports["cols"], over, "first")[1]
        return [column, row] if second == "rows" else [row, column]

    def spread_operand(
        self,
        node: Datapath,
        how: str,
        a: Port,
        b: Port,
        pair: tuple[TileType, TileType],
        role: str = "second",
    ) -> list[Port]:
        """Both operands with as many physical tiles: the second of a pair repeated over the first's
        grid.
        """
        first, second = pair
        rows, cols = self.grid(first)
        if cols is None:
            return self.spread_by_tokens(node, how, a, b, pair)
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
                    self.chain(b, node, Flatten(lo=0, hi=1), role),
                    node,
                    Repeat(count=cols),
                    f"{role}_cols",
                ),
            ]
        hold = self.graph.holds((*node.inputs[0].shape, second.rows, second.cols), 0, 2)
        flat = self.flatten(b, node, 0 if how == "both" else 1, 2, hold, "second")
        if rows is not None and how == "both":
            flat = self.chain(flat, node, Repeat(count=rows), "second_rows")
        elif rows is not None:
            return [
                a,
                self.scratchpad(node, flat, 1, rows, cols, "second_rows", f"operand {second}"),
            ]
        else:
            a, token = self.broadcast(node, a, 2, "first_fork", first)
            a = a.deeper(cols + self.depth)  # a row's token comes with its last tile
            bands = self.chain(token, node, Signal(level=1), "first_rows", self.token)
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
            unit = self.unit(node, ExpandUnit(level=1, scratchpad=None), "second_rows")
            flat = self.chain(flat, node, Promote(level=0, outermost=False), "second_place")
            self.connect(flat, unit, 0)
            self.connect(bands, unit, 1)
            flat = Port(unit, 0, flat.payload)
        return [a, self.chain(flat, node, Repeat(count=cols), "second_cols")]

    def spread_by_tokens(
        self, node: Datapath, how: str, a: Port, b: Port, pair: tuple[TileType, TileType]
    ) -> list[Port]:
        """Both operands with as many physical tiles, over columns that only the run tells: tokens
        of the first ask for the second's.
        """
        first, second = pair
        rows = self.grid(first)[0]
        if how == "rows" and rows == 1:
            return [a, b]
        wide = self.bounded(
            node,
            tiles_along(first.cols, self.t),
            f"spreads {second} over {first}, whose columns have no bound",
            "the first operand waits in its channel for the second",
        )
        if how == "rows":  # kept for a pass a row of tiles, whose token comes with its last tile
            a, token = self.broadcast(node, a, 2, "first_fork", first)
            bands = self.chain(token, node, Signal(level=1), "first_rows", self.token)
            kept = self.scratchpad(
                node, b, 2, None, wide, "second_rows", f"operand {second}", ref=bands, level=1
            )
            return [
                a.deeper(wide + self.depth),
                self.chain(kept, node, Flatten(lo=1, hi=2), "second"),
            ]
        # the column is often made of the tile itself, which waits here: for a row of tiles, or for
        # all where row_reduce tells of an empty one
        a = a.deeper(wide * (rows or 1) + self.depth)
        a, token = self.broadcast(node, a, 2, "first_fork", first)
        unit = self.unit(
            node, ExpandUnit(level=2 if how == "both" else 1, scratchpad=None), "second_cols"
        )
        self.connect(b, unit, 0)
        self.connect(self.chain(token, node, Signal(level=0), "first_tiles", self.token), unit, 1)
        return [a, Port(unit, 0, b.payload)]

    def row_reduce(self, node: Datapath, op: str) -> Port:
        """Each row to one column: physical tiles on their own, then over the tiles of a row."""
        t = self.tile(node, 0)
        out = node.outputs[0].tile
        rows, cols = self.grid(t)
        port = self.shared(node, RowReduce(fn=op), [self.take(node, 0)], Tile(self.t, "fp32"))
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
                port = self.chain(port, node, Promote(level=level, outermost=False), role)
            return self.accum(node, port, [1, 3], rows, out, "over_tiles", fn=op)
        port = self.accum(node, port, [0], 1, out, "over_tiles", fn=op)
        return self.chain(port, node, Promote(level=0, outermost=False), "columns")

    def col_reduce(self, node: Datapath, op: str) -> Port:
        """Each column to one row: physical tiles on their own, transposed, then over those of a
        column.
        """
        t = self.tile(node, 0)
        rows, cols = self.grid(t)
        port = self.chain(self.take(node, 0), node, Permute(fn="transpose"), "turned")
        port = self.shared(node, RowReduce(fn=op), [port], Tile(self.t, "fp32"))
        port = self.chain(port, node, Permute(fn="transpose"), "back")
        if rows == 1:
            return port
        port = self.accum(node, port, [1], cols, node.outputs[0].tile, "over_tiles", fn=op)
        return self.chain(port, node, Promote(level=1, outermost=False), "rows")
