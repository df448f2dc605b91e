"""Base of the operators of off-chip memory: tensors, tiles, and where tiles lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ...machine.limits import SIZES
from ..arguments import Arguments
from ..functions.tiles import require_tiles
from ..graph import Operator, TensorRef
from ..types import BufferType, TileType, dim, element_bytes, shown

Place = tuple[int, int]
"""Element row and column of a tile."""


class OffChip(Operator):
    """Base of the operators of off-chip memory, each of one tensor."""

    class Args(Arguments):
        tensor: TensorRef

    args: Args


def int_tuple(op: Operator, name: str, least: int) -> tuple[int, ...]:
    v = getattr(op.args, name)
    if not isinstance(v, (tuple, list)) or any(
        isinstance(x, bool) or not isinstance(x, int) or x < least for x in v
    ):
        raise op.error(
            f"{name} must be a list of integers of at least {least}, not {shown(v)}",
            remedy=op.run_time(name, v),
        )
    return tuple(v)


def places(op: Operator, name: str = "order") -> tuple[Place, ...]:
    """An argument that lists element row and column of each tile."""
    order = getattr(op.args, name)
    if not isinstance(order, (tuple, list)) or not order:
        raise op.error(f"{name} must be a list of [row, col], not {order!r}")
    for p in order:
        if (
            not isinstance(p, (tuple, list))
            or len(p) != 2
            or any(isinstance(x, bool) or not isinstance(x, int) or x not in SIZES for x in p)
        ):
            allowed = f"{SIZES[0]} to {SIZES[-1]} elements"
            raise op.error(f"{name} must list places [row, col] of {allowed}, not {p!r}")
    return tuple((r, c) for r, c in order)


def tile_type(op: OffChip) -> TileType:
    tensor = op.args.tensor
    tile = int_tuple(op, "tile", 1)
    if len(tile) != 2:
        raise op.error(f"tile must be [rows, cols], not {list(tile)!r}")
    return TileType(dim(tile[0]), dim(tile[1]), tensor.dtype)


def symbolic_bytes(t, rule: str):
    """Size of an element type; the published tools count 4 B per element whatever the data are."""
    return (
        t.elements * 4 if rule == "published" and isinstance(t, (TileType, BufferType)) else t.bytes
    )


def static_tiles(op: Operator, i: int) -> TileType:
    """The element type of input ``i``, which must be a tile of static size (type class S of the
    paper's appendix B.1).
    """
    t = require_tiles(op, op.inputs[i].type, i)
    if not t.static:
        raise op.stream_error(
            i,
            f"carries {t}, whose size is known only at run time",
            rule=f"{type(op).__name__} takes tiles of static size",
            remedy=(
                "cut it with FlatMap(fn=retile_streamify(mask=True)), or give the tile a static "
                "size"
            ),
        )
    return t


def place(ev, tensor: TensorRef, out: np.ndarray, row: int, col: int, tile: np.ndarray) -> None:
    """Write the valid part of a tile into a tensor's values; RunError where it reaches beyond the
    tensor.
    """
    rows, cols = tile.shape
    if tile.size and (row + rows > tensor.rows or col + cols > tensor.cols):
        raise ev.error(
            f"writes rows {row} to {row + rows - 1}, columns {col} to {col + cols - 1}, which "
            f"lies outside tensor {tensor.name} of {tensor.rows} rows and {tensor.cols} columns, "
            "both counted from 0"
        )
    if tile.size:
        ev.put(out, row, col, tile)


def check_tensor(op: OffChip, role: str | None = None) -> TensorRef:
    tensor = op.args.tensor
    if not isinstance(tensor, TensorRef) or (role and tensor.role != role):
        what, how = ("an output tensor", "output") if role else ("a tensor", "input")
        raise op.error(
            f"tensor must be {what} of the graph, not {tensor!r}",
            remedy=f"declare it with graph.{how}(name, shape, dtype)",
        )
    return tensor


class TensorStore(OffChip):
    """An operator that writes its tensor.

    Attributes
    ----------
    acknowledges : bool
        Whether an output tells when a tile can be read.
    """

    acknowledges: ClassVar[bool]


def lines_of(op: OffChip, tile: tuple[int, ...], at: np.ndarray, line_bytes: int) -> np.ndarray:
    """Lines of the tiles of ``op``'s tensor at element rows and columns [tiles, 2], each."""
    t = op.args.tensor
    line = line_bytes // element_bytes(t.dtype)
    rows = np.clip(t.rows - at[:, 0], 0, tile[0])
    cols = np.clip(t.cols - at[:, 1], 0, tile[1])
    return np.where(cols > 0, rows * -(-(at[:, 1] % line + cols) // line), 0)


def stores(op: OffChip) -> list[TensorStore]:
    """The operators that write the tensor of ``op``."""
    users = op.graph.users(op.args.tensor)
    return [node for node in users if isinstance(node, TensorStore)]


def check_read(op: OffChip) -> None:
    """Refuse a read of what is written without a word."""
    for store in stores(op):
        if not store.acknowledges:
            raise op.error(
                f"reads tensor {op.args.tensor.name}, which {store.name} stores",
                rule="a LinearOffChipStore does not tell when its tiles can be read",
                remedy="store with RandomOffChipStore, and let its acknowledgements start "
                "the reads",
            )


def reader(op: OffChip, ev) -> Callable[[int, int], np.ndarray]:
    """The tile of ``op``'s tensor at an element row and column: of its values, or of what stores
    that acknowledge have made of them so far.
    """
    tensor = op.args.tensor
    rows, cols = tile_type(op).static_shape
    if not any(store.acknowledges for store in stores(op)):
        data = ev.tensor(tensor)
        return lambda r, c: ev.cut(data, r, c, rows, cols)

    def latest(r: int, c: int) -> np.ndarray:
        ev.access(op, r, c, rows, cols)
        return ev.latest(tensor, r, c, rows, cols)

    return latest
