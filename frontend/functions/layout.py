"""Functions that move or reduce the rows and columns of a tile, or mask them by their numbers; and
what a program makes of several Maps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...machine.errors import ProgramError
from ...machine.functions import fp32_bits
from ...machine.image import DTYPES
from ...machine.kinds.rows import RowOffset
from ..types import ScalarType, TileType, dim, empty_tile
from .tiles import FORMS, Function, is_fp32, need_tiles

ROTATIONS = ("pairs", "halves")
MASKS = ("rows", "cols", "diagonal")


@dataclass(frozen=True)
class Transpose(Function):
    """Rows become columns: {R, C} to {C, R}."""

    name = rule = "transpose"

    def result(self, *operands) -> TileType:
        need_tiles(self.name, *operands)
        return TileType(operands[0].cols, operands[0].rows, operands[0].dtype)

    def value(self, ev, operands, *values):
        return values[0].T

    def lower(self, low, node):
        return low.transpose(node)


@dataclass(frozen=True)
class Rotate(Function):
    """Columns (a, b) become (-b, a): neighbours (``pairs``), or one of each half (``halves``)."""

    form: str

    name = rule = "rotate"

    def result(self, *operands) -> TileType:
        need_tiles(self.name, *operands)
        cols = operands[0].cols
        if cols.value is None or cols.value % 2:
            raise ProgramError(
                f"{self.name} takes pairs of columns, not {operands[0]}",
                remedy="give the tile a static, even number of columns",
            )
        return operands[0]

    def value(self, ev, operands, *values):
        x = values[0]
        n = operands[0].cols.number
        if x.size and x.shape[1] != n:
            raise ev.error(f"rotates rows of {x.shape[1]} valid columns, not of all {n}")
        if not x.size or x.dtype == np.bool_:  # sizes alone
            return x
        first = slice(0, n, 2) if self.form == "pairs" else slice(0, n // 2)
        second = slice(1, n, 2) if self.form == "pairs" else slice(n // 2, n)
        out = np.empty_like(x)
        out[:, first] = -x[:, second]
        out[:, second] = x[:, first]
        return out

    def lower(self, low, node):
        return low.rotate(node, self.form)


@dataclass(frozen=True)
class ColReduce(Function):
    """Each column's sum or maximum: {R, C} to {1, C}.

    Columns without a row, of a tile of run-time rows and static columns, give the identity.
    """

    op: str

    rule = "col_reduce"
    cost = 1

    @property
    def name(self) -> str:
        return {"add": "col_sum", "max": "col_max"}[self.op]

    def result(self, *operands) -> TileType:
        need_tiles(self.name, *operands, dtype="fp32")
        return TileType(dim(1), operands[0].cols, "fp32")

    def flops(self, *operands):
        return operands[0].elements

    def value(self, ev, operands, *values):
        if operands[0].rows.value is None and not values[0].shape[0]:
            return (
                ev.initial(self.op, self.result(*operands))
                if operands[0].cols.value is not None
                else np.zeros((0, 0), ev.dtype)
            )
        return ev.row_reduce(self.op, values[0].T).T

    def lower(self, low, node):
        return low.col_reduce(node, self.op)

    def __str__(self) -> str:
        return f"{self.name}()"


@dataclass(frozen=True)
class Mask(Function):
    """A tile with ``fill`` where its row r and column c are not r < n (``rows``), c < n (``cols``)
    or c < r + n (``diagonal``; n of 32 bits has a sign), for a scalar n.
    """

    along: str
    fill: float

    name = rule = "mask"
    arity = 2

    def result(self, *operands) -> TileType:
        need_tiles(self.name, operands[0])
        if not isinstance(operands[1], ScalarType):
            raise ProgramError(f"mask takes a tile and a number, not {operands[1]}")
        return operands[0]

    def value(self, ev, operands, *values):
        x, n = values
        if empty_tile(x.shape, operands[0]):
            raise ev.error("masks an empty tile, which has no beat for its number to meet")
        r, c = np.ogrid[: x.shape[0], : x.shape[1]]
        signed = int(n) - (1 << 32 if self.along == "diagonal" and int(n) >> 31 else 0)
        kept = {"rows": r < signed, "cols": c < signed, "diagonal": c < r + signed}[self.along]
        fill = np.float32(self.fill).astype(DTYPES[operands[0].dtype])
        return np.where(kept, x, fill).astype(x.dtype)

    def lower(self, low, node):
        a = node.operands()[0]
        fill = np.float32(self.fill).astype(DTYPES[a.dtype]).astype(np.float32)
        return low.pair(node, RowOffset(along=self.along, fill=fp32_bits(float(fill))))


def transpose() -> Transpose:
    """Rows as columns."""
    return Transpose()


def rotate(form: str = "halves") -> Rotate:
    """Columns (a, b) as (-b, a): of a column of each half, or of neighbours (``pairs``)."""
    return Rotate(_one_of("rotate", "form", form, ROTATIONS))


def col_sum() -> ColReduce:
    """Each column's sum."""
    return ColReduce("add")


def col_max() -> ColReduce:
    """Each column's maximum."""
    return ColReduce("max")


def mask(along: str, fill: float = float("-inf")) -> Mask:
    """``fill`` from row n on, from column n on, or where c >= r + n: causal with n = 1."""
    if not is_fp32(fill, infinite=True):
        raise ProgramError(f"fill must be a number of fp32, not {fill!r}", "function mask")
    return Mask(_one_of("mask", "along", along, MASKS), float(fill))


def _one_of(name: str, what: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ProgramError(
            f"{what} must be one of {', '.join(known)}, not {value!r}", f"function {name}"
        )
    return str(value)


FORMS.update({f.__name__: f for f in (transpose, rotate, col_sum, col_max, mask)})
