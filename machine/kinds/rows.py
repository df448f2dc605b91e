"""Kinds that pack, count and move the rows and columns of tiles (docs/timing.md section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping

from ..beat import Payload, Scalar, Tile
from ..limits import COUNTS, SIZES
from ..widths import Widths
from .kind import Combinational, In, Kind, Out, Payloads, need, param, register, tile
from .setting import Level, OneOf, UpTo
from .uses import ACCUMULATORS


def _one_type(inputs: Payloads) -> Payloads:
    need(
        all(isinstance(x, Tile) for x in inputs) and len(set(inputs)) == 1,
        "its inputs are tiles of one element type",
    )
    return inputs[:1]


class _Along(Kind):
    """Rows, or columns, of tiles."""

    along: str
    depth: int
    kept = 1
    """Bands."""

    def memories(
        self, t: int, inputs: Payloads, outputs: Payloads, posts: int, widths: Widths
    ) -> Mapping[str, int]:
        each = tile(inputs[0], "its input is a tile")
        return {ACCUMULATORS: self.kept * self.depth * (each.bits - each.count_bits)}

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        need(self.along in ("rows", "cols"), "along is 'rows' or 'cols'")
        return _one_type(inputs)


@register
class RowPack(_Along):
    """Concatenates the valid rows of one-band tiles (docs/timing.md section 3.3).

    Stalls where the next row does not fit into the band, and at the end of a group, until the band
    has left.
    """

    name = "row_pack"
    depth: int = param("tiles of a band, at most", COUNTS, setting=UpTo(least=1))
    level: int = param("stop level that ends a group", setting=Level(least=2))
    bands: int = param("bands of the result, 0: of run-time size", SIZES, runtime=True, default=0)
    cols: int = param("columns of the result in elements", SIZES, runtime=True)
    along: str = param(
        "'cols': columns are packed instead of rows, and a band is a column of tiles",
        setting=OneOf("rows", "cols"),
        default="rows",
    )
    data = In("tiles")
    result = Out("tiles that are full but for the last band")

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (max(1, 2 + inputs[0] - self.level),)


@register
class RowUnpack(_Along):
    """Streams the rows, or the columns, of tiles one by one (docs/timing.md section 3.3).

    Keeps two bands: one that fills and one that leaves.
    """

    name = "row_unpack"
    kept = 2
    depth: int = param("tiles of a band, at most", COUNTS, setting=UpTo(least=1))
    mask: bool = param("whether only valid rows leave", setting=UpTo(True))
    rows: int = param("rows of a logical tile (used without mask)", SIZES, runtime=True)
    along: str = param(
        "'cols': columns leave instead of rows, and a band is a column of tiles",
        setting=OneOf("rows", "cols"),
        default="rows",
    )
    data = In("tiles")
    result = Out("tiles of one row")

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        return (max(inputs[0] + 1, 2),)


@register
class RowAppend(Combinational):
    """Puts a row below a tile's valid rows.

    Waits for the tile, and for the row where it goes into this tile.
    """

    name = "row_append"
    beat_for_beat = True
    tile = In("tiles")
    row = In("tiles of one row, one a logical tile")
    result = Out("tiles of a row more")

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        return _one_type(inputs)


@register
class RowOffset(Combinational):
    """Sets how many rows of a tile are valid, or fills it from a row, a column or a diagonal on.

    Waits for both; the count is taken with the tile's last beat.
    """

    name = "row_offset"
    beat_for_beat = True
    along: str = param(
        "'rows': row r counts where r < count; with `fill` also 'cols': column c where c < count, "
        "or 'diagonal': c < r + count, of a count of 32 bits with its sign",
        default="rows",
    )
    fill: int | None = param("fp32 bits in place of what does not count", default=None)
    tile = In("tiles")
    count = In("rows that stay valid, or columns, one number a logical tile")
    result = Out("tiles of fewer valid rows, or filled")

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        need(
            isinstance(inputs[0], Tile) and isinstance(inputs[1], Scalar),
            "its inputs are tiles and counts",
        )
        need(self.fill is not None or self.along == "rows", "only rows are cut")
        return inputs[:1]


PERMUTATIONS = ("transpose", "pairs", "halves")
"""Functions of `permute`."""


@register
class Permute(Combinational):
    """Moves the elements of each physical tile.

    Waits for the tile.
    """

    name = "permute"
    beat_for_beat = True
    fn: str = param(
        "'transpose': rows become columns; 'pairs': columns (a, b) become (-b, a); 'halves': "
        "likewise of a column of each half"
    )
    half: int = param(
        "columns of a half, within one tile; or a multiple of t: its tiles have changed places "
        "before, and those of the first half are negated",
        SIZES,
        default=0,
    )
    data = In("tiles")
    result = Out("tiles of one type with them")

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        need(self.fn in PERMUTATIONS, f"fn is one of {', '.join(PERMUTATIONS)}")
        t = tile(inputs[0], "its input is a tile").t
        need(2 * self.half <= t or not self.half % t, "a half is within a tile, or of whole ones")
        return inputs
