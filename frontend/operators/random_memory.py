"""Off-chip memory by address: RandomOffChipLoad, RandomOffChipStore (paper table 3)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ...machine.beat import Scalar
from ...machine.kinds.numbers import Address
from ...machine.kinds.offchip import Load, RandomStore
from ..arguments import argument
from ..graph import Operator, TensorRef, operator
from ..types import ScalarType, StreamType, TileType, ceil_div
from .tensors import (
    OffChip,
    TensorStore,
    check_read,
    check_tensor,
    int_tuple,
    lines_of,
    place,
    reader,
    static_tiles,
    tile_type,
)


def check_addresses(op: Operator, i: int) -> None:
    if not isinstance(op.inputs[i].element, ScalarType):
        raise op.stream_error(
            i,
            f"carries {op.inputs[i].element}",
            rule="an address is a scalar: a tile of the tensor's row-major tile grid",
        )


class RandomAccess(OffChip):
    """Base of the random accesses: an address is the index of a tile in the tensor's row-major tile
    grid.
    """

    @property
    def tile(self) -> TileType:
        """Type of the tiles that are moved."""
        return self.inputs[1].type.tile

    @property
    def grid(self) -> tuple[int, int]:
        """Tile rows and tile columns of the tensor."""
        t = self.args.tensor
        rows, cols = self.tile.static_shape
        return ceil_div(t.rows, rows), ceil_div(t.cols, cols)

    @cached_property
    def extent(self) -> tuple[int, int, int, int]:
        """Tile rows and tile columns of the tensor, rows and columns of a tile: of a run, which
        asks for every tile.
        """
        return (*self.grid, *self.tile.static_shape)

    def place(self, ev, address: int) -> tuple[int, int]:
        """Element row and column of a tile."""
        rows, cols, height, width = self.extent
        if not 0 <= address < rows * cols:
            t = self.args.tensor
            raise ev.error(
                f"address {address} lies outside tensor {t.name}, which has tiles 0 to "
                f"{rows * cols - 1}"
            )
        r, c = divmod(address, cols)
        return r * height, c * width

    def offchip_lines(self, line_bytes):
        cols = np.arange(self.grid[1]) * self.extent[3]
        at = np.stack([np.zeros_like(cols), cols], 1)
        whole = self.args.tensor.cols - cols >= self.extent[3]
        lines = lines_of(self, self.extent[2:], at[whole] if whole.any() else at, line_bytes)
        return self.inputs[0].type.count * int(lines.min())

    def params(self, low) -> dict[str, Any]:
        """Parameters of the unit that finds a tile by its address."""
        rows, cols = self.tile.static_shape
        return {
            **low.tensor(self.args.tensor, self),
            "rows": rows,
            "cols": cols,
            "shift": (self.grid[1] - 1).bit_length(),
        }

    def places(self, low):
        """The addresses as the unit splits them: by a shift, so that those of a row of another
        number of tiles than a power of two are spread first.
        """
        port = low.take(self, 0)
        width = self.grid[1]
        spread = (1 << (width - 1).bit_length()) - width
        if not spread:
            return port
        kind = Address(stride=1, fn="place", alone=True, divisor=width, constant=spread)
        return low.chain(port, self, kind, "place", Scalar(32))


@operator
class RandomOffChipLoad(RandomAccess):
    """Streams one tile of an off-chip tensor per address; the shape is that of the addresses.

    An address is the number of a tile, row by row from 0.
    """

    shapes = "addresses [D_a, ..., D_0], scalars -> [D_a, ..., D_0] of tiles of static size"
    stops = "those of the addresses"
    costs = "off chip: ||output|| x a tile; on chip: 2 tiles (rule `paper`), 1 (`published`)"
    streams = ("addresses",)

    class Args(OffChip.Args):
        tensor: TensorRef = argument("off-chip tensor read")
        tile: tuple[int, ...] = argument("[rows, cols] of a tile in elements")

    args: Args

    @property
    def tile(self):
        return tile_type(self)

    @classmethod
    def example(cls, given):
        return cls(given.number(), given.w(), tile=(8, 16))

    def check(self):
        check_tensor(self)
        self.args.tile = int_tuple(self, "tile", 1)
        tile_type(self)
        check_addresses(self, 0)

    def check_complete(self):
        check_read(self)

    def shape_rule(self):
        return [StreamType(tile_type(self), self.inputs[0].shape)]

    def offchip(self):
        return self.inputs[0].type.count * tile_type(self).bytes

    def onchip(self, rule):
        size = tile_type(self).bytes
        return size * 2 if rule == "paper" else size

    def lower_machine(self, low):
        unit = low.unit(
            self,
            Load(**self.params(low), trigger="address", rank=0, shape=[], row_step=[], col_step=[]),
        )
        low.connect(self.places(low), unit, 0)
        return [low.port(unit, 0, low.payload(tile_type(self), self))]

    def lower_stepsim(self, low):
        return low.load(self, tile_type(self), [])

    def evaluate(self, ev, addresses):
        read = reader(self, ev)
        for a, s in addresses:
            yield (None if a is None else read(*self.place(ev, a))), s


@operator
class RandomOffChipStore(RandomAccess, TensorStore):
    """Stores each tile at its address and acknowledges it, with the addresses' shape, when a later
    read sees it.

    An address is the number of a tile, row by row from 0.

    A load that waits for the acknowledgement (its reference, or what its addresses are made of)
    reads what was stored. A run fails where a load and a store of the same elements do not wait for
    each other.
    """

    acknowledges = True
    shapes = (
        "addresses [D_b, ..., D_0] and as many tiles of static size, in a shape of their own -> "
        "[D_b, ..., D_0] of scalars of one bit"
    )
    stops = "those of the addresses"
    costs = "off chip: ||output|| x a tile; on chip: 2 tiles (rule `paper`), 1 (`published`)"
    streams = ("addresses", "tiles")

    class Args(OffChip.Args):
        tensor: TensorRef = argument("off-chip tensor written")

    @classmethod
    def example(cls, given):
        return cls(given.number(), given.flat(), given.y())

    def check(self):
        tensor = check_tensor(self)
        check_addresses(self, 0)
        t = static_tiles(self, 1)
        if t.dtype != tensor.dtype:
            raise self.stream_error(
                1,
                f"carries {t.dtype}, tensor {tensor.name} holds {tensor.dtype}",
                remedy=f"store cast(stream, {tensor.dtype!r})",
            )
        if (self.inputs[0].type.count - self.inputs[1].type.count).is_nonzero:
            raise self.stream_error(
                1,
                f"has {self.inputs[1].type.count} tiles, there are {self.inputs[0].type.count} "
                "addresses",
                rule="one address per tile",
            )

    def shape_rule(self):
        return [StreamType(ScalarType(1), self.inputs[0].shape)]

    def optional_output(self, port):
        return True

    def offchip(self):
        return self.inputs[0].type.count * self.inputs[1].element.bytes

    def onchip(self, rule):
        size = self.inputs[1].element.bytes
        return size * 2 if rule == "paper" else size

    def lower_machine(self, low):
        unit = low.unit(self, RandomStore(**self.params(low)))
        low.connect(self.places(low), unit, 0)
        low.feed(self, 1, unit, 1)
        port = low.port(unit, 0, low.payload(ScalarType(1), self))
        return [low.unread(self, 0, port)]

    def lower_stepsim(self, low):
        return low.store_at(self)

    def evaluate(self, ev, addresses, tiles):
        tensor = self.args.tensor
        out = ev.stored(tensor)
        held = (v for v, _ in tiles if v is not None)
        for a, s in addresses:
            if a is None:
                yield None, s
                continue
            tile = next(held, None)
            if tile is None:
                raise self.error("has more addresses than tiles", rule="one address per tile")
            r, c = self.place(ev, a)
            place(ev, tensor, out, r, c, tile)
            ev.access(self, r, c, *tile.shape)
            yield 1, s
        if next(held, None) is not None:
            raise self.error("has more tiles than addresses", rule="one address per tile")
