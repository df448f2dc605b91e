"""Routing, signals, generators, retiling: units that move whole streams."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...machine.beat import MAX_STOP, Scalar, Selector, Tile
from ...machine.image import DTYPES
from ...machine.kinds import Kind
from ...machine.kinds.copies import Broadcast
from ...machine.kinds.ends import Sink
from ...machine.kinds.numbers import Generate
from ...machine.kinds.routing import EagerMerge, Partition, Reassemble, TopK
from ...machine.kinds.rows import Permute, RowPack, RowUnpack
from ...machine.kinds.shape import Flatten, Promote, Reshape
from ..functions.streams import RetileStreamify
from ..graph import Operator
from ..operators.higher_order import HigherOrder
from ..operators.reduction import Reduction
from ..types import ElementType, TileType, ceil_div
from .base import Port
from .buffers import Buffers

if TYPE_CHECKING:
    from ..operators import reshape, routing


def pad_word(element: ElementType, pad: Any) -> int:
    """The bits of a padding element, or of each of its elements."""
    if isinstance(element, TileType):
        value = np.float32(np.float32(pad).astype(DTYPES[element.dtype]))
        return int(value.view(np.uint32))
    return sum(1 << i for i in pad) if isinstance(pad, (tuple, list)) else int(pad)


class StreamUnits(Buffers):
    """A part of MachineLowering."""

    def pair(self, node: HigherOrder, kind: Kind) -> Port:
        """A unit that takes a node's two inputs as they are."""
        self.apart(node, kind.name)
        unit = self.unit(node, kind)
        self.feed_all(node, unit)
        return Port(unit, 0, self.payload(node.outputs[0].element, node))

    # -- routing
    # --------------------------------------------------------------------------

    def partition(self, node: routing.Partition) -> list[Port]:
        n = node.args.outputs
        rank = node.args.rank + self.inner(node, 0)
        unit = self.unit(
            node, Partition(n=n, rank=rank, scratchpad=self.scratchpad_of(node.inputs[0].element))
        )
        self.feed_all(node, unit)
        payload = self.take(node, 0).payload
        return [Port(unit, i, payload) for i in range(n)]

    def reassemble(self, node: routing.Reassemble) -> Port:
        unit = self.unit(
            node, Reassemble(n=len(node.inputs) - 1, rank=node.args.rank + self.inner(node, 0))
        )
        self.feed_all(node, unit)
        return Port(unit, 0, self.take(node, 0).payload)

    def eager_merge(self, node: routing.EagerMerge) -> list[Port]:
        n = len(node.inputs)
        unit = self.unit(node, EagerMerge(n=n, rank=node.inputs[0].rank + self.inner(node, 0)))
        self.feed_all(node, unit)
        return [Port(unit, 0, self.take(node, 0).payload), Port(unit, 1, Selector(n))]

    def top_k(self, node: routing.TopK) -> list[Port | None]:
        n = node.targets
        unit = self.unit(node, TopK(n=n, k=node.args.k, rank=self.inner(node, 0)))
        self.feed_all(node, unit)
        payloads = (Selector(n), Selector(n), Tile(self.t, "fp32"))
        return [self.unread(node, i, Port(unit, i, x)) for i, x in enumerate(payloads)]

    def generate(self, node: HigherOrder, fn: str, stride: int = 0, count: int = 0) -> Port:
        self.apart(node, "generate")
        unit = self.unit(node, Generate(fn=fn, stride=stride, count=count))
        self.feed_all(node, unit)
        return Port(unit, 0, self.payload(node.outputs[0].element, node))

    def integers(self, node: HigherOrder) -> Port:
        """The numbers of each tile of one row, of several physical ones, as a dimension."""
        kind = Generate(fn="elements")
        port = self.chain(self.take(node, 0), node, kind, payload=Scalar(32))
        return self.chain(port, node, Flatten(lo=0, hi=2), "row")

    # -- edges
    # --------------------------------------------------------------------------

    def unread(self, node: Operator, output: int, port: Port) -> Port | None:
        """An output that may stay without a reader: a sink takes it then."""
        if self.graph.consumers(node[output]):
            return port
        self.connect(port, self.unit(node, Sink(), "unread"), 0)
        return None

    def loop(self, node: Operator) -> Port:
        """The unit that a loop's end feeds: connected when the end is known."""
        unit = self.unit(node, Broadcast(n=1, scratchpad=None))
        self.loops.append((node, unit))
        return Port(unit, 0, self.payload(node.outputs[0].element, node))

    # -- shapes
    # --------------------------------------------------------------------------

    def reshape(self, node: reshape.Reshape) -> list[Port | None]:
        """Reshape; one flag of the padding stream stands for an element, so for all its physical
        tiles.
        """
        k = self.inner(node, 0)
        pad = node.args.pad is not None
        d = node.args.dim
        chunk = node.args.chunk
        element = node.inputs[0].element
        sized = element if pad and isinstance(element, TileType) and element.static else None
        rows, cols = self.static_grid(sized) if sized else (1, 1)
        kind = Reshape(dim=d + k, chunk=chunk, pad=pad, pad_rows=rows, pad_cols=cols)
        if pad and k and not sized:
            kind = kind.but(bare=True)
        elif pad and node.args.pad:
            kind = kind.but(
                value=pad_word(element, node.args.pad),
                extent=list(sized.static_shape) if sized else [0, 0],
            )
        flags = pad and self.read_by(node[1])
        if flags:
            kind = kind.but(flags=k)
        out = self.chain(self.take(node, 0), node, kind)
        return [out, Port(out.unit, 1, self.token) if flags else None] if pad else [out]

    def retile_row(self, node: Reduction) -> Port:
        """Tiles of a group one below the other: their valid rows are packed into full bands."""
        t = self.tile(node, 0)
        out = node.outputs[0].tile
        cols = self.grid(t)[1]
        bands = self.grid(out)[0]
        if cols is None:
            raise self.error(
                node,
                f"stream {node.inputs[0].name} carries {t}",
                rule="tiles are packed by rows of a static number of columns",
            )
        if cols > self.m.accum_tiles:
            raise self.error(
                node,
                f"a band takes {cols} tiles of {self.t} x {self.t}, a row packer holds "
                f"{self.m.accum_tiles}",
                remedy="use narrower tiles, or raise machine.accum_tiles",
            )
        return self.chain(
            self.take(node, 0),
            node,
            RowPack(depth=cols, level=2 + node.args.rank, bands=bands or 0, cols=out.cols.number),
        )

    def retile_col(self, node: Reduction) -> Port:
        """Tiles of a group side by side: where a tile is one band of full columns only stops
        change, or its columns are packed one by one; several bands are read from a scratchpad band
        by band.
        """
        t = self.tile(node, 0)
        rank = node.args.rank
        bands, cols = self.grid(t)
        if t.cols.value is None or t.cols.value % self.t:
            if bands != 1:
                raise self.error(
                    node,
                    f"stream {node.inputs[0].name} carries {t}",
                    rule=(
                        f"tiles of several bands (more than {self.t} rows) have full columns (a "
                        f"multiple of {self.t}) side by side"
                    ),
                    remedy=f"choose another tile size, or tiles of at most {self.t} rows",
                )
            port = self.single_columns(node, *self.by_columns(node, self.take(node, 0), t), True, 0)
            width = self.grid(node.outputs[0].tile)[1] or 0
            port = self.pack_columns(node, port, 1, 3 + rank, width, t.rows.number)
            return self.row_major(node, port, 1, None)
        if bands == 1:
            port = self.take(node, 0)
            if rank > 1:
                hold = self.graph.holds(node.inputs[0].shape, 0, rank - 1)
                port = self.flatten(port, node, 1, 1 + rank, hold, "groups")
            port = self.chain(port, node, Flatten(lo=0, hi=2 if rank == 1 else 1), "row")
            return self.chain(port, node, Promote(level=1, outermost=False), "band")
        group = node.inputs[0].shape[-rank:]
        if bands is None or any(d.value is None for d in group):
            raise self.error(
                node,
                f"stream {node.inputs[0].name} {node.inputs[0].type} has groups of run-time size",
                rule=(
                    f"tiles of several bands (more than {self.t} rows) stand side by side in "
                    "groups of static size"
                ),
                remedy=f"use tiles of at most {self.t} rows",
            )
        n = prod(d.number for d in group)
        bands, cols = self.static_grid(t)
        port = self.reordered(
            node,
            self.take(node, 0),
            2 + rank,
            [bands, n, cols],
            [cols, bands * cols, 1],
            "bands",
            f"a row of {n} tiles {t}",
        )
        return self.chain(port, node, Flatten(lo=0, hi=1), "row")

    def retile_streamify(self, node: Operator, fn: RetileStreamify) -> Port:
        """Parts of a tile: whole physical tiles where that will do, else single rows or columns,
        the rows packed again.
        """
        src = self.take(node, 0)
        t = self.tile(node, 0)
        size = fn.size
        rows, cols = self.grid(t)
        if not fn.mask and size % self.t == 0 and t.static:
            return self.whole_parts(node, src, t, fn.along, size // self.t)
        if fn.along == "rows" and cols is not None:
            port = self.chain(
                src, node, RowUnpack(depth=cols, mask=fn.mask, rows=t.rows.value or 0), "rows"
            )
            return port if size == 1 else self.packed(node, port, size, cols, fn.mask)
        if fn.along == "cols" and ((fn.mask and (size == 1 or rows is not None)) or t.static):
            port, depth = self.by_columns(node, src, t)
            port = self.single_columns(node, port, depth, fn.mask, t.cols.value or 0)
            if size == 1:
                return port
            rows = ceil_div(t.rows.number, self.t)
            port = self.parts(node, port, size, fn.mask, rows, 1)
            width = ceil_div(size, self.t)
            port = self.pack_columns(node, port, rows, 3, width, t.rows.number)
            return self.row_major(node, port, rows, width)
        raise self.error(
            node,
            f"cannot cut {t} with {fn}",
            rule=(
                "this machine cuts rows of tiles of static width; columns of static tiles, of "
                "static rows with mask, and single ones with mask"
            ),
            remedy="cut rows, or give the tile a static size",
        )

    def whole_parts(self, node: Operator, src: Port, t: TileType, along: str, width: int) -> Port:
        """Parts of ``width`` physical tiles: only stops and the order of physical tiles change."""
        if along == "rows":
            return self.chain(src, node, self.chunks(1, width), "bands")
        rows, cols = self.static_grid(t)
        if rows == 1:
            port = self.chain(src, node, Flatten(lo=0, hi=1), "columns")
            port = self.chain(port, node, self.chunks(0, width), "parts")
            return self.chain(port, node, Promote(level=1, outermost=False), "band")
        trips = [cols // width, rows, width]
        return self.reordered(node, src, 2, trips, [width, cols, 1], "parts", f"a tile {t}")

    @staticmethod
    def chunks(dim: int, chunk: int, pad: bool = False, rows: int = 1, cols: int = 1) -> Reshape:
        """A `reshape`; ``pad``: whether a chunk is filled up, with elements of ``rows`` x ``cols``
        physical tiles.
        """
        return Reshape(
            dim=dim, chunk=chunk, pad=pad, pad_rows=rows if pad else 1, pad_cols=cols if pad else 1
        )

    def single_columns(self, node: Operator, port: Port, depth: int, mask: bool, cols: int) -> Port:
        """The columns of each logical tile, which comes column of tiles by column of tiles."""
        return self.chain(
            port, node, RowUnpack(depth=depth, mask=mask, rows=cols, along="cols"), "columns"
        )

    def pack_columns(
        self, node: Operator, port: Port, depth: int, level: int, width: int, rows: int
    ) -> Port:
        """Single columns of ``rows`` side by side, up to a stop of ``level``: ``width`` columns of
        ``depth`` tiles (0: of run-time size).
        """
        return self.chain(
            port,
            node,
            RowPack(depth=depth, level=level, bands=width, cols=rows, along="cols"),
            "packed",
        )

    def row_major(self, node: Operator, port: Port, rows: int, cols: int | None) -> Port:
        """Logical tiles that come column by column, row by row; ``cols`` None: their number does
        not matter.
        """
        if rows == 1 or cols is None or cols == 1:
            if (rows, cols) == (1, 1):
                return port
            port = self.chain(port, node, Flatten(lo=0, hi=1), "whole")
            return self.chain(
                port, node, Promote(level=1 if rows == 1 else 0, outermost=False), "by_rows"
            )
        return self.reordered(
            node, port, 2, [rows, cols], [1, rows], "by_rows", f"a tile {node.outputs[0].tile}"
        )

    def packed(self, node: Operator, rows: Port, size: int, cols: int, ragged: bool) -> Port:
        """``size`` of the single rows of each logical tile at a time, one below the other;
        ``ragged``: fewer at a tile's end.
        """
        if cols > self.m.accum_tiles:
            raise self.error(
                node,
                f"a band takes {cols} tiles of {self.t} x {self.t}, a row packer holds "
                f"{self.m.accum_tiles}",
                remedy="use narrower tiles, or raise machine.accum_tiles",
            )
        port = self.parts(node, rows, size, ragged, 1, cols)
        return self.chain(
            port,
            node,
            RowPack(
                depth=cols,
                level=3,
                bands=ceil_div(size, self.t),
                cols=node.outputs[0].tile.cols.number,
            ),
            "packed",
        )

    def parts(self, node: Operator, port: Port, size: int, pad: bool, rows: int, cols: int) -> Port:
        """``size`` at a time of the single rows or columns of each logical tile, of ``rows`` x
        ``cols`` physical ones: a dimension more on the way.
        """
        top = node.inputs[0].rank + 4
        if top > MAX_STOP:
            raise self.error(
                node,
                f"stream {node.inputs[0].name} {node.inputs[0].type} needs stops up to {top} "
                f"where it is cut, a beat has {MAX_STOP}",
                remedy="flatten dimensions",
            )
        return self.chain(port, node, self.chunks(2, size, pad, rows, cols), "parts")

    def by_columns(self, node: Operator, src: Port, t: TileType) -> tuple[Port, int]:
        """The physical tiles of each logical tile by columns, and the most that a column has."""
        rows, cols = self.grid(t)
        if rows == 1 or cols == 1:
            if (rows, cols) == (1, 1):
                return src, 1
            port = self.chain(src, node, Flatten(lo=0, hi=1), "order")
            return self.chain(
                port, node, Promote(level=0 if rows == 1 else 1, outermost=False), "bands"
            ), rows or self.m.accum_tiles
        if not t.static:
            raise self.error(
                node,
                f"takes columns of {t}",
                rule=(
                    "a tile of run-time size is taken by columns where it is one physical tile "
                    "high or wide"
                ),
                remedy=f"use tiles of at most {self.t} rows",
            )
        rows, cols = self.static_grid(t)
        what = f"a tile {t}"
        return self.reordered(node, src, 2, [cols, rows], [1, cols], "by_columns", what), rows

    def transpose(self, node: Operator) -> Port:
        """Each physical tile transposed, these by columns."""
        port = self.chain(self.take(node, 0), node, Permute(fn="transpose"), "tiles")
        return self.by_columns(node, port, self.tile(node, 0))[0]

    def rotate(self, node: Operator, form: str) -> Port:
        """Columns (a, b) as (-b, a); of halves of several physical tiles these change places."""
        port = self.take(node, 0)
        if form == "pairs":
            return self.chain(port, node, Permute(fn="pairs"))
        t = self.tile(node, 0)
        half = t.cols.number // 2
        if 2 * half > self.t:
            if half % self.t:
                raise self.error(
                    node,
                    f"rotates halves of {half} columns",
                    rule=f"a half is within a physical tile, or of whole ones of {self.t} columns",
                    remedy="use another configuration's t, or rotate pairs",
                )
            n = half // self.t
            swapped = [[(k + n) % (2 * n), 0] for k in range(2 * n)]
            swapped[-1][1] = 1
            what = f"a row of tile {t}"
            reader = {"rank": 1, "repeat_dim": False, "listed": swapped}
            self.check_fits(node, 2 * n, what, port.payload)
            unit = self.paged(node, [1], [2 * n], "halves", repeat=[0], readers=[reader])
            self.connect(port, unit, 0)
            self.connect(Port(unit, 0, self.reference(unit)), unit, 1)
            port = Port(unit, 1, port.payload)
        return self.chain(port, node, Permute(fn="halves", half=half))
