"""Operators on memory: LinearOffChipLoad, LinearOffChipStore, Bufferize, Streamify (paper tables 3 and 4)."""

from __future__ import annotations

import numpy as np
import sympy

from .graph import Operator, TensorRef, operator
from .functions import require_tiles
from .types import BufferType, DimKind, StreamType, TileType, ceil_div, check_dtype, dim, element_bytes, strides


def _int_tuple(op: Operator, name: str, least: int) -> tuple[int, ...]:
    v = op.args[name]
    if not isinstance(v, (tuple, list)) or any(isinstance(x, bool) or not isinstance(x, int) or x < least for x in v):
        raise op.error(f"{name} must be a list of integers of at least {least}, not {v!r}")
    return tuple(v)


def _places(op: Operator) -> tuple[tuple[int, int], ...]:
    """The argument ``order``: element row and column of each tile."""
    order = op.args["order"]
    if not isinstance(order, (tuple, list)) or not order:
        raise op.error(f"order must be a list of [row, col], not {order!r}")
    for p in order:
        if not isinstance(p, (tuple, list)) or len(p) != 2 or any(isinstance(x, bool) or not isinstance(x, int) or not 0 <= x < 1 << 20 for x in p):
            raise op.error(f"order must list places [row, col] of 0 to 2^20 - 1 elements, not {p!r}")
    return tuple((r, c) for r, c in order)


def _tile_type(op: Operator) -> TileType:
    tensor, tile = op.args["tensor"], _int_tuple(op, "tile", 1)
    if len(tile) != 2:
        raise op.error(f"tile must be [rows, cols], not {list(tile)!r}")
    return TileType(dim(tile[0]), dim(tile[1]), tensor.dtype)


def _symbolic_bytes(t, rule: str):
    """Size of an element type; the published tools count 4 B per element whatever the data are."""
    return t.elements * 4 if rule == "published" and isinstance(t, (TileType, BufferType)) else t.bytes


@operator
class LinearOffChipLoad(Operator):
    """Streams tiles of an off-chip tensor in an affine order: once, or once per element of a reference stream.

    Stride and shape count tiles of the tensor's row-major tile grid, outermost first. Without a reference stream the output
    shape has a leading 1. The tensor's last tiles may be partial.
    """

    streams = ("ref?",)
    arguments = {"tensor": "off-chip tensor read", "tile": "[rows, cols] of a tile in elements",
                 "shape": "tiles read in each dimension, outermost first (default: the tensor's tile grid)",
                 "stride": "distance in tiles of each dimension (default: row-major over shape)",
                 "order": "[row, col] in elements of each tile, instead of shape and stride: any order, any repeats; outside the tensor a tile is empty"}
    defaults = {"shape": None, "stride": None, "order": None}

    def check(self):
        if not isinstance(self.args["tensor"], TensorRef):
            raise self.error(f"tensor must be a tensor of the graph, not {self.args['tensor']!r}", remedy="declare it with graph.input(name, shape, dtype)")
        self.args["tile"] = _int_tuple(self, "tile", 1)
        _tile_type(self)
        if self.args["order"] is not None:
            order = self.args["order"] = _places(self)
            if self.inputs or tuple(self.args["shape"] or (len(order),)) != (len(order),) or tuple(self.args["stride"] or (0,)) != (0,):
                raise self.error("order stands alone", remedy="leave out ref, shape and stride")
            self.args["shape"], self.args["stride"] = (len(order),), (0,)
            return
        if self.args["shape"] is None:
            self.args["shape"] = self.grid
        shape = self.args["shape"] = _int_tuple(self, "shape", 1)
        if self.args["stride"] is None:
            self.args["stride"] = tuple(strides(shape))
        stride = self.args["stride"] = _int_tuple(self, "stride", 0)
        if len(shape) != len(stride):
            raise self.error(f"shape has {len(shape)} dimensions, stride {len(stride)}", remedy="give one stride per dimension")
        if not shape:
            raise self.error("shape is empty", remedy="give at least one dimension")
        last, tiles = sum((n - 1) * s for n, s in zip(shape, stride)), self.grid[0] * self.grid[1]
        if last >= tiles:
            t = self.args["tensor"]
            raise self.error(f"reads tile {last}, tensor {t.name} [{t.rows}, {t.cols}] has tiles 0 to {tiles - 1}",
                             rule="the last address of an affine read lies in the tensor", remedy="check shape and stride")

    @property
    def grid(self) -> tuple[int, int]:
        """Tile rows and tile columns of the tensor."""
        t, (rows, cols) = self.args["tensor"], self.args["tile"]
        return ceil_div(t.rows, rows), ceil_div(t.cols, cols)

    def shape_rule(self):
        lead = self.inputs[0].shape if self.inputs else (dim(1),)
        return [StreamType(_tile_type(self), lead + tuple(map(dim, self.args["shape"])))]

    def origins(self) -> np.ndarray:
        """Element row and column of each tile of one pass, in stream order: int [tiles, 2]."""
        if self.args["order"] is not None:
            return np.array(self.args["order"], np.int64)
        shape, stride = self.args["shape"], self.args["stride"]
        linear = np.zeros(shape, np.int64)
        for axis, s in enumerate(stride):
            linear += s * np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        row, col = np.divmod(linear.ravel(), self.grid[1])
        return np.stack([row * self.args["tile"][0], col * self.args["tile"][1]], 1)

    def offchip(self):
        t, (rows, cols) = self.args["tensor"], self.args["tile"]
        if t.rows % rows == 0 and t.cols % cols == 0 and self.args["order"] is None:
            per_pass = int(np.prod(self.args["shape"])) * rows * cols
        else:
            o = self.origins()
            per_pass = int((np.clip(t.rows - o[:, 0], 0, rows) * np.clip(t.cols - o[:, 1], 0, cols)).sum())
        passes = self.inputs[0].type.count if self.inputs else 1
        return sympy.sympify(passes * per_pass * element_bytes(t.dtype))

    def onchip(self, rule):
        size = _tile_type(self).bytes
        return size * 2 if rule == "paper" else size

    def lower_machine(self, low):
        if self.inputs:
            raise low.error(self, "a load by reference stream has no unit yet", remedy="give shape and stride, without ref")
        tile = _tile_type(self)
        if self.args["order"] is not None:
            unit = low.unit("load", self, {**low.tensor(self.args["tensor"], self), "rows": self.args["tile"][0], "cols": self.args["tile"][1], "rank": 1,
                                           "shape": list(self.args["shape"]), "row_step": [0], "col_step": [0], "order": [list(p) for p in self.args["order"]]})
            return [low.port(unit, 0, low.payload(tile, self))]
        rows_per, cols_per, shape = [], [], self.args["shape"]
        grid_cols = self.grid[1]
        for n, s in zip(shape, self.args["stride"]):
            r, c = (0, 0) if n == 1 else divmod(s, grid_cols)
            rows_per.append(r * self.args["tile"][0])
            cols_per.append(c * self.args["tile"][1])
        reach = sum((n - 1) * c for n, c in zip(shape, cols_per)) // self.args["tile"][1]
        if reach >= grid_cols:
            raise low.error(self, f"the walk reaches tile column {reach} of a grid of {grid_cols} and would wrap into the next row",
                            rule="each loop dimension of a load steps whole rows and whole columns of tiles",
                            remedy="split the dimension that wraps into one over columns and one over rows")
        unit = low.unit("load", self, {**low.tensor(self.args["tensor"], self), "rows": self.args["tile"][0], "cols": self.args["tile"][1],
                                       "rank": len(shape), "shape": list(shape), "row_step": rows_per, "col_step": cols_per})
        return [low.port(unit, 0, low.payload(tile, self))]

    def lower_published(self, low):
        tile = _tile_type(self)
        return low.load(self, tile)

    def evaluate(self, ev, *ref):
        data, (rows, cols) = ev.tensor(self.args["tensor"]), self.args["tile"]
        shape = self.args["shape"]
        tiles = [data[r : r + rows, c : c + cols] for r, c in self.origins()]
        stops = [0] * len(tiles)
        for i in range(len(tiles)):
            size = 1
            for level, n in enumerate(reversed(shape), 1):
                size *= n
                if (i + 1) % size == 0:
                    stops[i] = level
        out = []
        for _, outer in ref[0] if ref else [(None, 0)]:
            out += zip(tiles[:-1], stops[:-1])
            out.append((tiles[-1], len(shape) + outer))
        return [out]


@operator
class LinearOffChipStore(Operator):
    """Stores a stream's tiles to an off-chip tensor: in order to its row-major tile grid, or where a list says."""

    arguments = {"tensor": "off-chip tensor written",
                 "order": "[row, col] in elements of each tile of the stream (default: row-major); a place outside the tensor takes an empty tile"}
    defaults = {"order": None}

    def check(self):
        tensor = self.args["tensor"]
        if not isinstance(tensor, TensorRef) or tensor.role != "output":
            raise self.error(f"tensor must be an output tensor of the graph, not {tensor!r}", remedy="declare it with graph.output(name, shape, dtype)")
        for other in self.graph.nodes:
            if isinstance(other, LinearOffChipStore) and other.args["tensor"] is tensor:
                raise self.error(f"tensor {tensor.name} is already stored by {other.name}", remedy="declare another output tensor")
        t = require_tiles(self, self.inputs[0].type, 0)
        if t.dtype != tensor.dtype:
            raise self.stream_error(0, f"carries {t.dtype}, tensor {tensor.name} holds {tensor.dtype}", remedy=f"store cast(stream, {tensor.dtype!r})")
        count = self.inputs[0].type.count
        if self.args["order"] is not None:
            order = self.args["order"] = _places(self)
            if not t.static or (count - len(order)).is_nonzero:
                raise self.stream_error(0, f"has {count} tiles {t}, order has {len(order)} places", remedy="give one place per tile of a static size")
            grid = {(r, c) for r in range(0, tensor.rows, t.rows.value) for c in range(0, tensor.cols, t.cols.value)}
            inside = [p for p in order if p[0] < tensor.rows and p[1] < tensor.cols]
            if len(inside) != len(grid) or set(inside) != grid:
                raise self.error(f"order does not visit each of the {len(grid)} tiles of tensor {tensor.name} once", rule="a store fills its tensor once")
        elif t.static:
            rows, cols = ceil_div(tensor.rows, t.rows.value), ceil_div(tensor.cols, t.cols.value)
            if (count - rows * cols).is_nonzero:
                raise self.stream_error(0, f"has {count} tiles, tensor {tensor.name} [{tensor.rows}, {tensor.cols}] takes {rows} x {cols}",
                                        rule="a store fills its tensor once", remedy="check the tensor's shape and the tile size")

    def shape_rule(self):
        return []

    def offchip(self):
        tensor = self.args["tensor"]
        return sympy.Integer(tensor.rows * tensor.cols * element_bytes(tensor.dtype))

    def onchip(self, rule):
        size = _symbolic_bytes(self.inputs[0].element, rule)
        return size * 2 if rule == "paper" else size

    def lower_machine(self, low):
        t = low.static_tile(self, 0)
        order = {} if self.args["order"] is None else {"order": [list(p) for p in self.args["order"]]}
        unit = low.unit("store", self, {**low.tensor(self.args["tensor"], self), "rows": t.rows.value, "cols": t.cols.value, **order})
        low.feed(self, 0, unit, 0)
        return []

    def lower_published(self, low):
        return low.store(self)

    def evaluate(self, ev, stream):
        tensor, t = self.args["tensor"], self.inputs[0].element
        rows, cols = t.rows.value, t.cols.value
        out = np.zeros((tensor.rows, tensor.cols), ev.dtype)
        width = ceil_div(tensor.cols, cols)
        for i, (tile, _) in enumerate(stream):
            r, c = (i // width * rows, i % width * cols) if self.args["order"] is None else self.args["order"][i]
            valid = tile[: tensor.rows - r, : tensor.cols - c]
            out[r : r + valid.shape[0], c : c + valid.shape[1]] = valid
        ev.outputs[tensor.name] = out
        return []


@operator
class Bufferize(Operator):
    """Stores the inner ``rank`` dimensions of a stream on chip and streams references to these buffers."""

    arguments = {"rank": "inner dimensions that make one buffer"}

    def check(self):
        require_tiles(self, self.inputs[0].type, 0)
        s, b = self.inputs[0].type, self.args["rank"]
        if isinstance(b, bool) or not isinstance(b, int) or not 0 <= b <= s.rank:
            raise self.stream_error(0, f"rank must be an integer from 0 to the stream's rank {s.rank}, not {b!r}")
        for i, d in enumerate(s.shape[len(s.shape) - b :][1:]):
            if not DimKind.DYNAMIC_REGULAR.accepts(d.kind):
                raise self.stream_error(0, f"dimension {b - 2 - i} is {d.kind.value}",
                                        rule="of the buffered dimensions only the outermost may be ragged", remedy="bufferize fewer dimensions")

    def shape_rule(self):
        s, b = self.inputs[0].type, self.args["rank"]
        cut = len(s.shape) - b
        return [StreamType(BufferType(s.element, s.shape[cut:]), s.shape[:cut])]

    def onchip(self, rule):
        size = _symbolic_bytes(self.inputs[0].element, rule)
        return size + 2 * self.outputs[0].element.elements / self.inputs[0].element.elements * size

    def lower_machine(self, low):
        return [low.bufferize(self)]

    def lower_published(self, low):
        return low.one(self, "bufferize", {"rank": self.args["rank"]})

    def evaluate(self, ev, stream):
        b, out, held = self.args["rank"], [], []
        for tile, s in stream:
            held.append((tile, s))
            if s >= b:
                out.append((held, s - b))
                held = []
        return [out]


@operator
class Streamify(Operator):
    """Streams the elements of each buffer, ``repeat`` times where given (a new dimension outside the buffer's).

    A list of repeats, one for each buffer of the innermost dimension, makes no new dimension: the repeats follow each other in that dimension.
    """

    streams = ("buffers",)
    arguments = {"repeat": "times each buffer is streamed (default: once, without a new dimension), or a list of them"}
    defaults = {"repeat": None}

    def check(self):
        if not isinstance(self.inputs[0].element, BufferType):
            raise self.stream_error(0, f"carries {self.inputs[0].element}", rule="the input must be a stream of buffers", remedy="put Bufferize in front")
        if self.listed:
            turns, buffers = _int_tuple(self, "repeat", 1), self.inputs[0].shape[-1]
            self.args["repeat"] = turns
            if buffers.value != len(turns):
                raise self.stream_error(0, f"has {buffers} buffers in its innermost dimension, repeat lists {len(turns)}", remedy="list one number per buffer")
        elif self.args["repeat"] is not None:
            self.positive("repeat")

    @property
    def listed(self) -> bool:
        """Whether the repeats of each buffer are listed."""
        return isinstance(self.args["repeat"], (tuple, list))

    def shape_rule(self):
        s, repeat = self.inputs[0].type, self.args["repeat"]
        if self.listed:
            return [StreamType(s.element.element, s.shape[:-1] + (dim(sum(repeat)),) + s.element.shape)]
        return [StreamType(s.element.element, s.shape + ((dim(repeat),) if repeat is not None else ()) + s.element.shape)]

    def onchip(self, rule):
        if rule == "paper":
            return sympy.Integer(0)
        return _symbolic_bytes(self.inputs[0].element, rule) + _symbolic_bytes(self.outputs[0].element, rule)

    def lower_machine(self, low):
        return [low.streamify(self)]

    def lower_published(self, low):
        repeat = self.args["repeat"]
        if self.listed:
            raise low.error(self, "a list of repeats has no form in the published simulator", remedy="give one number")
        return low.one(self, "streamify", {"rank": len(self.inputs[0].element.shape), "repeat": [] if repeat is None else [repeat]})

    def evaluate(self, ev, stream):
        repeat, rank, out = self.args["repeat"], len(self.inputs[0].element.shape), []
        for k, (buffer, s) in enumerate(stream):
            turns = repeat[k % len(repeat)] if self.listed else repeat or 1
            for i in range(turns):
                last = i == turns - 1
                end = rank if not last else rank + s + (1 if repeat is not None and not self.listed else 0)
                out += buffer[:-1]
                out.append((buffer[-1][0], end))
        return [out]


@operator
class Source(Operator):
    """A stream of tiles from outside the fabric; the run is given its elements."""

    streams = ()
    arguments = {"shape": "stream shape, outermost first", "tile": "[rows, cols] of a tile in elements", "dtype": "element type of the tile"}
    defaults = {"dtype": "fp32"}

    def check(self):
        for name in ("shape", "tile"):
            if not isinstance(self.args[name], (tuple, list)) or not self.args[name]:
                raise self.error(f"{name} must be a list of sizes, not {self.args[name]!r}")
            self.args[name] = tuple(dim(d) for d in self.args[name])
        if len(self.args["tile"]) != 2:
            raise self.error(f"tile must be [rows, cols], not {len(self.args['tile'])} sizes")
        check_dtype(self.args["dtype"])

    def shape_rule(self):
        return [StreamType(TileType(*self.args["tile"], self.args["dtype"]), self.args["shape"])]

    def lower_machine(self, low):
        payload = low.payload(low.check_static(self.outputs[0].element, self, self.name), self)
        return [low.port(low.unit("source", self, {}), 0, payload)]

    def evaluate(self, ev):
        return [ev.source(self)]


@operator
class Sink(Operator):
    """A stream to outside the fabric; the run gives its elements."""

    arguments = {}

    def shape_rule(self):
        return []

    def lower_machine(self, low):
        low.feed(self, 0, low.unit("sink", self, {}), 0)
        return []

    def lower_published(self, low):
        low.feed(self, 0, low.unit("sink", self, {}), 0)
        return []

    def evaluate(self, ev, stream):
        ev.sinks[self.name] = stream
        return []


__all__ = ["LinearOffChipLoad", "LinearOffChipStore", "Bufferize", "Streamify", "Source", "Sink"]
