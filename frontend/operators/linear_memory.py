"""Off-chip memory in an order known beforehand: LinearOffChipLoad, LinearOffChipStore (paper table
3).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import sympy

from ...machine.beat import LINE_BYTES
from ...machine.kinds.offchip import Load, Store
from ...machine.kinds.shape import Flatten
from ..arguments import argument
from ..graph import TensorRef, operator
from ..types import BufferType, StreamType, ceil_div, dim, element_bytes, strides
from .buffers import read_through
from .tensors import (
    OffChip,
    Place,
    TensorStore,
    check_read,
    check_tensor,
    int_tuple,
    lines_of,
    place,
    places,
    reader,
    static_tiles,
    stores,
    symbolic_bytes,
    tile_type,
)


@operator
class LinearOffChipLoad(OffChip):
    """Streams tiles of an off-chip tensor in an affine order: once, or once per element of a
    reference stream.

    Stride and shape count tiles of the tensor's row-major tile grid, outermost first. Without a
    reference stream the output shape has a leading 1. The tensor's last tiles may be partial.
    """

    shapes = (
        "reference [D_b, ..., D_0] of any type but buffers, or none: [1] -> [D_b, ..., D_0, S_a, "
        "..., S_1] of tiles of static size, S the argument shape"
    )
    stops = (
        "the last tile of each loop dimension ends it; a reference of stop s adds s to the last "
        "tile of its pass"
    )
    costs = (
        "off chip: ||output|| x a tile, of partial ones what lies in the tensor; on chip: 2 "
        "tiles (rule `paper`), 1 (`published`)"
    )
    limits = (
        "a reference stream may not carry references to buffers, which somebody has to give up: "
        "take it in front of Bufferize",
        "a load that a stream starts goes on in the next row of tiles within a dimension only "
        "where rows are whole",
    )
    streams = ("ref?",)
    forms: ClassVar[dict[str, tuple]] = {"ordered": (False, True)}

    class Args(OffChip.Args):
        tensor: TensorRef = argument("off-chip tensor read")
        tile: tuple[int, ...] = argument("[rows, cols] of a tile in elements")
        shape: tuple[int, ...] = argument(
            "tiles read in each dimension, outermost first (default: the tensor's tile grid)", None
        )
        stride: tuple[int, ...] = argument(
            "distance in tiles of each dimension (default: row-major over shape)", None
        )
        origin: Place | None = argument(
            "[row, col] in elements at which the grid of tiles begins (default: [0, 0])", None
        )
        order: tuple[Place, ...] | None = argument(
            "[row, col] in elements of each tile, instead of shape and stride: any order, any "
            "repeats; outside the tensor a tile is empty",
            None,
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.w(), tile=(8, 16), shape=(4, 2), ref=given.flat("ref"))

    def _streams(self, inputs, args):
        return [
            read_through(s) if isinstance(s.element, BufferType) else s
            for s in super()._streams(inputs, args)
        ]

    @property
    def ordered(self) -> bool:
        """True if the place of each tile is listed."""
        return self.args.order is not None

    def check(self):
        check_tensor(self)
        self.args.tile = int_tuple(self, "tile", 1)
        tile_type(self)
        if self.args.origin is not None:
            self.args.origin = self.checked_origin()
        if self.args.order is not None:
            order = self.args.order = places(self)
            if (
                self.inputs
                or self.args.origin
                or tuple(self.args.shape or (len(order),)) != (len(order),)
                or tuple(self.args.stride or (0,)) != (0,)
            ):
                raise self.error(
                    "order stands alone", remedy="leave out ref, shape, stride, origin"
                )
            self.args.shape = (len(order),)
            self.args.stride = (0,)
            return
        if self.args.shape is None:
            self.args.shape = self.grid
        shape = self.args.shape = int_tuple(self, "shape", 1)
        if self.args.stride is None:
            self.args.stride = tuple(strides(shape))
        stride = self.args.stride = int_tuple(self, "stride", 0)
        if len(shape) != len(stride):
            raise self.error(
                f"shape has {len(shape)} dimensions, stride {len(stride)}",
                remedy="give one stride per dimension",
            )
        if not shape:
            raise self.error("shape is empty", remedy="give at least one dimension")
        last = sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        tiles = self.grid[0] * self.grid[1]
        if last >= tiles:
            t = self.args.tensor
            raise self.error(
                f"reads tile {last}, tensor {t.name} [{t.rows}, {t.cols}] has tiles 0 to "
                f"{tiles - 1}",
                rule="the last address of an affine read lies in the tensor",
                remedy="check shape and stride",
            )

    def check_complete(self):
        check_read(self)

    def checked_origin(self) -> Place:
        """The origin, which lies in the tensor."""
        origin = int_tuple(self, "origin", 0)
        t = self.args.tensor
        if len(origin) != 2 or origin[0] >= t.rows or origin[1] >= t.cols:
            raise self.error(
                f"origin must be a place in tensor {t.name} [{t.rows}, {t.cols}], not "
                f"{list(origin)}"
            )
        return origin

    @property
    def grid(self) -> tuple[int, int]:
        """Tile rows and tile columns of the tensor, from the origin on."""
        t, (rows, cols) = self.args.tensor, self.args.tile
        row, col = self.args.origin or (0, 0)
        return ceil_div(t.rows - row, rows), ceil_div(t.cols - col, cols)

    def shape_rule(self):
        lead = self.inputs[0].shape if self.inputs else (dim(1),)
        return [StreamType(tile_type(self), lead + tuple(map(dim, self.args.shape)))]

    def origins(self) -> np.ndarray:
        """Element row and column of each tile of one pass, in stream order: int [tiles, 2]."""
        if self.args.order is not None:
            return np.array(self.args.order, np.int64)
        shape = self.args.shape
        stride = self.args.stride
        linear = np.zeros(shape, np.int64)
        for axis, s in enumerate(stride):
            linear += s * np.arange(shape[axis]).reshape(
                [-1 if i == axis else 1 for i in range(len(shape))]
            )
        row, col = np.divmod(linear.ravel(), self.grid[1])
        places = np.stack([row * self.args.tile[0], col * self.args.tile[1]], 1)
        return places + np.array(self.args.origin or (0, 0))

    def offchip(self):
        t, (rows, cols) = self.args.tensor, self.args.tile
        whole = self.args.order is None and self.args.origin is None
        if t.rows % rows == 0 and t.cols % cols == 0 and whole:
            per_pass = int(np.prod(self.args.shape)) * rows * cols
        else:
            o = self.origins()
            per_pass = int(
                (np.clip(t.rows - o[:, 0], 0, rows) * np.clip(t.cols - o[:, 1], 0, cols)).sum()
            )
        passes = self.inputs[0].type.count if self.inputs else 1
        return sympy.sympify(passes * per_pass * element_bytes(t.dtype))

    def offchip_lines(self, line_bytes):
        per_pass = int(lines_of(self, self.args.tile, self.origins(), line_bytes).sum())
        passes = self.inputs[0].type.count if self.inputs else 1
        return sympy.sympify(passes * per_pass)

    def onchip(self, rule):
        size = tile_type(self).bytes
        return size * 2 if rule == "paper" else size

    def lower_machine(self, low):
        if self.args.order is not None:
            return [self.lower_listed(low, self.args.order)]
        loops, merged = self.loops()
        if sum((n - 1) * (s % self.grid[1]) for n, s in loops if n > 1) >= self.grid[1]:
            return [self.lower_wrapping(low)]
        tensor = low.tensor(self.args.tensor, self)
        if self.args.origin:  # the tensor as if it began there, which is where a line begins
            row, col = self.args.origin
            at = col * element_bytes(self.args.tensor.dtype)
            if at % LINE_BYTES:
                return [self.lower_wrapping(low)]
            tensor["base"] += row * tensor["pitch"] + at
            tensor["tensor_rows"] -= row
            tensor["tensor_cols"] -= col
        (rows, cols), steps = (
            self.args.tile,
            [divmod(s, self.grid[1]) if n > 1 else (0, 0) for n, s in loops],
        )
        kind = Load(
            **tensor,
            rows=rows,
            cols=cols,
            rank=len(loops),
            shape=[n for n, _ in loops],
            row_step=[r * rows for r, _ in steps],
            col_step=[c * cols for _, c in steps],
        )
        unit = low.unit(self, kind.but(trigger="ref") if self.inputs else kind)
        if self.inputs:
            low.connect(low.tokens(self, 0), unit, 0)
        port = low.port(unit, 0, low.payload(tile_type(self), self))
        for d in merged:
            port = low.chain(port, self, Flatten(lo=2 + d, hi=3 + d), f"rows{d}")
        return [port]

    def loops(self) -> tuple[list[tuple[int, int]], list[int]]:
        """(trips, stride) of each loop, outermost first, where one that runs over several whole
        tile rows is two; and the dimensions, innermost first, that these make.
        """
        out = []
        merged = []
        width = self.grid[1]
        for d, (n, s) in enumerate(
            zip(reversed(self.args.shape), reversed(self.args.stride), strict=True)
        ):
            row = width // s if 0 < s < width and width % s == 0 else n
            if row < n and n % row == 0:
                out[:0] = [(n // row, width), (row, s)]
                merged.append(d)
            else:
                out.insert(0, (n, s))
        return out, merged

    def lower_listed(self, low, places):
        """A load of tiles that lie where a list says: one dimension."""
        rows, cols = self.args.tile
        unit = low.unit(
            self,
            Load(
                **low.tensor(self.args.tensor, self),
                rows=rows,
                cols=cols,
                rank=1,
                shape=[len(places)],
                row_step=[0],
                col_step=[0],
                order=[[int(r), int(c)] for r, c in places],
            ),
        )
        return low.port(unit, 0, low.payload(tile_type(self), self))

    def lower_wrapping(self, low):
        """A walk that goes on in the next tile row within a loop: its places are listed, and the
        loops' dimensions made of them.
        """
        if self.inputs:
            raise low.error(
                self,
                f"the walk over {list(self.args.shape)} tiles with strides "
                f"{list(self.args.stride)} passes the end of a row of {self.grid[1]} tiles "
                "inside a dimension, or begins within a line",
                rule="a load that a stream starts steps whole rows and whole columns of tiles, "
                f"and its origin lies at a multiple of {LINE_BYTES} B in a row",
                remedy="split the dimension that wraps, or use RandomOffChipLoad",
            )
        port = self.lower_listed(low, self.origins())
        for d, n in enumerate(reversed(self.args.shape[1:])):
            port = low.chain(port, self, low.chunks(2 + d, n), f"chunks{d}")
        return port

    def lower_stepsim(self, low):
        return low.load(self, tile_type(self), self.args.shape)

    def evaluate(self, ev, *ref):
        read = reader(self, ev)
        shape = self.args.shape
        places = self.origins()
        stops = [0] * len(places)
        for i in range(len(places)):
            size = 1
            for level, n in enumerate(reversed(shape), 1):
                size *= n
                if (i + 1) % size == 0:
                    stops[i] = level
        for trigger, outer in ref[0] if ref else [(1, 0)]:
            if trigger is None:
                yield None, len(shape) + outer
                continue
            stops[-1] = len(shape) + outer
            for (r, c), stop in zip(places, stops, strict=True):
                yield read(r, c), stop


@operator
class LinearOffChipStore(TensorStore):
    """Stores a stream's tiles to an off-chip tensor: in order to its row-major tile grid, or where
    a list says.
    """

    acknowledges = False
    shapes = "[D_a, ..., D_0] of tiles of static size, as many as the tensor has -> nothing"
    stops = "ignored beyond the tiles' own order"
    costs = (
        "off chip: the tensor; on chip: 2 tiles (rule `paper`), 1 of 4 B an element (`published`)"
    )
    limits = (
        "no tiles of run-time size, which have no place of their own in a tensor: cut them into "
        "rows first",
        "nothing reads the tensor in the same run",
    )
    forms: ClassVar[dict[str, tuple]] = {"ordered": (False, True)}
    ordered = LinearOffChipLoad.ordered

    class Args(OffChip.Args):
        tensor: TensorRef = argument("off-chip tensor written")
        order: tuple[Place, ...] | None = argument(
            "[row, col] in elements of each tile of the stream (default: row-major); a place "
            "outside the tensor takes an empty tile",
            None,
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), given.y())

    def check(self):
        tensor = check_tensor(self, "output")
        self.check_alone()
        t = static_tiles(self, 0)
        if t.dtype != tensor.dtype:
            raise self.stream_error(
                0,
                f"carries {t.dtype}, tensor {tensor.name} holds {tensor.dtype}",
                remedy=f"store cast(stream, {tensor.dtype!r})",
            )
        rows, cols = t.static_shape
        count = self.inputs[0].type.count
        if self.args.order is not None:
            order = self.args.order = places(self)
            if (count - len(order)).is_nonzero:
                raise self.stream_error(
                    0,
                    f"has {count} tiles {t}, order has {len(order)} places",
                    remedy="give one place per tile of a static size",
                )
            grid = {
                (r, c) for r in range(0, tensor.rows, rows) for c in range(0, tensor.cols, cols)
            }
            inside = [p for p in order if p[0] < tensor.rows and p[1] < tensor.cols]
            if len(inside) != len(grid) or set(inside) != grid:
                raise self.error(
                    f"order does not visit each of the {len(grid)} tiles of tensor {tensor.name} "
                    "once",
                    rule="a store fills its tensor once",
                )
        else:
            down = ceil_div(tensor.rows, rows)
            across = ceil_div(tensor.cols, cols)
            if (count - down * across).is_nonzero:
                raise self.stream_error(
                    0,
                    f"has {count} tiles, tensor {tensor.name} [{tensor.rows}, {tensor.cols}] "
                    f"takes {down} x {across}",
                    rule="a store fills its tensor once",
                    remedy="check the tensor's shape and the tile size",
                )

    def check_alone(self) -> None:
        """Refuse a tensor that another operator stores, too."""
        for other in stores(self):
            if other is not self:
                raise self.error(
                    f"tensor {self.args.tensor.name} is already stored by {other.name}",
                    remedy="declare another output tensor",
                )

    def check_complete(self):
        self.check_alone()

    def shape_rule(self):
        return []

    def offchip(self):
        tensor = self.args.tensor
        return sympy.Integer(tensor.rows * tensor.cols * element_bytes(tensor.dtype))

    def offchip_lines(self, line_bytes):
        tensor = self.args.tensor
        tile = self.inputs[0].type.tile.static_shape
        at = np.mgrid[0 : tensor.rows : tile[0], 0 : tensor.cols : tile[1]].reshape(2, -1).T
        return sympy.Integer(int(lines_of(self, tile, at, line_bytes).sum()))

    def onchip(self, rule):
        size = symbolic_bytes(self.inputs[0].element, rule)
        return size * 2 if rule == "paper" else size

    def lower_machine(self, low):
        rows, cols = low.static_tile(self, 0).static_shape
        kind = Store(**low.tensor(self.args.tensor, self), rows=rows, cols=cols)
        if self.args.order is not None:
            kind = kind.but(order=[list(p) for p in self.args.order])
        low.feed(self, 0, low.unit(self, kind), 0)
        return []

    def lower_stepsim(self, low):
        return low.store(self)

    def evaluate(self, ev, stream):
        tensor = self.args.tensor
        rows, cols = self.inputs[0].type.tile.static_shape
        out = np.zeros((tensor.rows, tensor.cols), ev.dtype)
        width = ceil_div(tensor.cols, cols)
        for i, tile in enumerate(v for v, _ in stream if v is not None):
            if i >= (
                width * ceil_div(tensor.rows, rows)
                if self.args.order is None
                else len(self.args.order)
            ):
                raise self.error(
                    "has more tiles than its tensor", rule="a store fills its tensor once"
                )
            r, c = (
                (i // width * rows, i % width * cols)
                if self.args.order is None
                else self.args.order[i]
            )
            place(ev, tensor, out, r, c, tile)
        ev.outputs[tensor.name] = out
        return iter(())
