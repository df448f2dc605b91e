"""Functions whose operand or result is a whole group of elements: what Accum collects, what FlatMap
expands, and the integer functions of metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import sympy

from ...machine.errors import ProgramError
from ...machine.kinds.numbers import Address as AddressUnit
from ...machine.kinds.rows import RowAppend as RowAppendUnit
from ...machine.kinds.rows import RowOffset as RowOffsetUnit
from ...machine.limits import ADDRESSES, NUMBER_BITS, REPEATS, within
from ..types import (
    Dim,
    DimKind,
    ElementType,
    ScalarType,
    SelectorType,
    TileType,
    dim,
    empty_tile,
    same_size,
)
from .tiles import DIVIDED, FORMS, Function, need_tiles

SPLIT = ("rows", "cols")
NUMBERS = ("add", "mul", "min", "max", "less", "equal", "constant", "one_hot")


# ---- Accum
# --------------------------------------------------------------------------


class Collect(Function):
    """A function that Accum folds over a group: ``start``, then ``update`` with every element."""

    operators = ("Accum",)

    def result_of(self, graph, element, dims: tuple[Dim, ...]):
        """Element type of a group of ``dims`` elements."""
        raise NotImplementedError

    def start(self, ev, out):
        """The value of an empty group; ``out`` is the result's type."""
        raise NotImplementedError

    def update(self, ev, acc, value):
        raise NotImplementedError

    def lower_accum(self, low, node):
        raise low.error(node, f"{self} has no unit on this machine")


@dataclass(frozen=True)
class Retile(Collect):
    """Concatenates tiles: one below the other (``rows``) or side by side (``cols``).

    Only valid rows and columns count.
    """

    along: str

    @property
    def name(self) -> str:
        return "retile_row" if self.along == "rows" else "retile_col"

    @property
    def rule(self) -> str:
        return self.name

    def result_of(self, graph, element, dims):
        need_tiles(self.name, element)
        size = getattr(element, self.along)
        total = graph.derived(size.size * sympy.prod([d.size for d in dims]), size, *dims)
        return (
            TileType(total, element.cols, element.dtype)
            if self.along == "rows"
            else TileType(element.rows, total, element.dtype)
        )

    def start(self, ev, out):
        return np.zeros(
            (0, out.cols.value or 0) if self.along == "rows" else (out.rows.value or 0, 0), ev.dtype
        )

    def update(self, ev, acc, value):
        if not value.size:
            return acc if acc.size else value
        axis = 0 if self.along == "rows" else 1
        if not acc.size:
            return value
        if acc.shape[1 - axis] != value.shape[1 - axis]:
            raise ev.error(
                f"concatenates tiles of {list(acc.shape)} and {list(value.shape)} elements by "
                f"{self.along}"
            )
        return np.concatenate([acc, value], axis)

    def lower_accum(self, low, node):
        return low.retile_row(node) if self.along == "rows" else low.retile_col(node)

    def __str__(self) -> str:
        return f"{self.name}()"


@dataclass(frozen=True)
class AllRead(Collect):
    """One token when a group has passed: a signal that all of it has been read."""

    name = "all_read"

    def result_of(self, graph, element, dims):
        return ScalarType(1)

    def start(self, ev, out):
        return 1

    def update(self, ev, acc, value):
        return 1

    def lower_accum(self, low, node):
        return low.signal(node, 0, low.inner(node, 0) + node.args.rank)


# ---- Map
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class RowAppend(Function):
    """Puts a row {1, C} below the valid rows of a tile {R, C}, which must have room for it."""

    name = rule = "row_append"
    arity = 2

    def result(self, *operands) -> TileType:
        need_tiles(self.name, *operands)
        a, b = operands
        if b.rows.value != 1 or same_size(a.cols, b.cols) is False or a.dtype != b.dtype:
            raise ProgramError(
                f"cannot put {b} below the rows of {a}",
                rule="row_append takes a tile {R, C} and a row {1, C} of one dtype",
            )
        if a.rows.value is None:
            raise ProgramError(
                f"cannot put a row below {a}",
                rule="row_append takes a tile of static rows",
                remedy="give the tile a static number of rows",
            )
        return a

    def value(self, ev, operands, *values):
        tile, row = values
        if operands[0].cols.value is None:
            if tile.shape[1] != row.shape[1]:
                raise ev.error(
                    f"puts a row of {row.shape[1]} columns below a tile of {tile.shape[1]}"
                )
            if not tile.shape[1]:
                return tile
        if tile.shape[0] >= operands[0].rows.value:
            raise ev.error(f"a tile of {tile.shape[0]} valid rows has no room for another")
        return np.concatenate([tile.reshape(-1, row.shape[1]), row])

    def lower(self, low, node):
        return low.pair(node, RowAppendUnit())


@dataclass(frozen=True)
class RowOffset(Function):
    """Cuts the valid rows of a tile to a scalar at most; the rows below read as zero and do not
    count.
    """

    name = rule = "row_offset"
    arity = 2

    def result(self, *operands) -> TileType:
        a, b = operands
        need_tiles(self.name, a)
        if not isinstance(b, ScalarType):
            raise ProgramError(f"row_offset takes a tile and a count, not {b}")
        if a.rows.value is None:
            raise ProgramError(
                f"cannot cut the rows of {a}",
                rule="row_offset takes a tile of static rows",
                remedy="give the tile a static number of rows",
            )
        return a

    def value(self, ev, operands, *values):
        tile, count = values
        if empty_tile(tile.shape, operands[0]):
            raise ev.error("cuts an empty tile, which has no beat for its count to meet")
        return tile[: int(count)]

    def lower(self, low, node):
        return low.pair(node, RowOffsetUnit())


def _scalars(name: str, *operands) -> None:
    for x in operands:
        if not isinstance(x, ScalarType):
            raise ProgramError(f"{name} takes scalars, not {x}")


def _word(x: int) -> int:
    return int(x) & 0xFFFFFFFF


@dataclass(frozen=True)
class Address(Function):
    """a * stride + b on scalars of 32 bits."""

    stride: int

    name = rule = "address"
    arity = 2

    def result(self, *operands) -> ScalarType:
        _scalars(self.name, *operands)
        return ScalarType(32)

    def value(self, ev, operands, *values):
        return _word(int(values[0]) * self.stride + int(values[1]))

    def lower(self, low, node):
        return low.pair(node, AddressUnit(stride=self.stride))


@dataclass(frozen=True)
class Number(Function):
    """A function of a scalar and a constant, on 32 bits."""

    op: str
    constant: int

    name = "number"

    @property
    def rule(self) -> str:
        return "address" if self.op in ("add", "mul", "constant") else "number"

    @property
    def linear(self) -> tuple[int, int]:
        """Factor and summand, where the function is linear."""
        n = self.constant
        return {"add": (1, n), "mul": (n, 0), "constant": (0, n)}[self.op]

    def result(self, *operands) -> ScalarType | SelectorType:
        _scalars(self.name, *operands)
        return SelectorType(self.constant) if self.op == "one_hot" else ScalarType(32)

    def value(self, ev, operands, *values):
        x = int(values[0])
        n = self.constant
        match self.op:
            case "add":
                return _word(x + n)
            case "mul":
                return _word(x * n)
            case "constant":
                return n
            case "one_hot":
                return frozenset({x} if x < n else ())
        return {"min": min(x, n), "max": max(x, n), "less": int(x < n), "equal": int(x == n)}[
            self.op
        ]

    def lower(self, low, node):
        n = self.constant
        settings = {
            "mul": {"stride": n},
            "constant": {"stride": 0, "constant": n},
            "one_hot": {"fn": "hot", "targets": n},
            "add": {"constant": n},
        }.get(self.op, {"fn": self.op, "constant": n})
        kind = AddressUnit(**{"stride": 1, "alone": True} | settings)
        payload = low.payload(node.outputs[0].element, node)
        return low.chain(low.take(node, 0), node, kind, payload=payload)

    def __str__(self) -> str:
        return f"number({self.op!r}, {self.constant})"


# ---- FlatMap
# --------------------------------------------------------------------------


class Expanding(Function):
    """A function that FlatMap runs: one element (or a pair) gives a list of elements."""

    operators = ("FlatMap",)

    def parts(self, graph, key, *operands) -> tuple[ElementType, Dim]:
        """Element type and number of the parts of one element; ``key`` names the place for a
        symbol.
        """
        raise NotImplementedError

    def values(self, ev, operands, *values) -> Iterator:
        """The parts of one element."""
        raise NotImplementedError

    def lower_flat(self, low, node):
        """Units of a FlatMap that gives the parts of each element as a dimension of their own."""
        raise low.error(node, f"{self} has no unit on this machine")

    def stepsim(self) -> tuple[str, dict]:
        """Kind and parameters of its unit in the timing `stepsim` (machine/stepsim_kinds.py)."""
        raise ProgramError(f"{self} has no form in the published simulator")


@dataclass(frozen=True)
class RetileStreamify(Expanding):
    """Cuts a tile into tiles of ``size`` rows or columns; with ``mask`` only those with a valid row
    or column leave (no row, no column), the last one perhaps smaller.
    """

    along: str = "rows"
    size: int = 1
    mask: bool = False

    name = "retile_streamify"
    forms: ClassVar[dict[str, tuple]] = {"along mask size": (SPLIT, (False, True), (1, 2, DIVIDED))}

    def parts(self, graph, key, *operands):
        need_tiles(self.name, *operands)
        a = operands[0]
        whole = getattr(a, self.along)
        if whole.value is None and not self.mask:
            raise ProgramError(
                f"cuts {a} of run-time size",
                rule="a tile of run-time size is cut by its valid part",
                remedy="give mask=True",
            )
        if whole.value is not None and whole.value % self.size and not self.mask:
            raise ProgramError(
                f"{whole} {self.along} are not a multiple of {self.size}",
                remedy=(
                    "choose a size that divides the tile, or give mask=True: the last part is "
                    "smaller then"
                ),
            )
        if self.mask:
            most = graph.most(whole)
            n = graph.fresh(
                "V",
                (key, self.along, self.size),
                DimKind.DYNAMIC_RAGGED,
                most and -(-most // self.size),
            )
        else:
            n = dim(whole.number // self.size)
        part = (dim(self.size), a.cols) if self.along == "rows" else (a.rows, dim(self.size))
        return TileType(*part, a.dtype), n

    def values(self, ev, operands, *values):
        tile = values[0]
        axis = SPLIT.index(self.along)
        whole = getattr(operands[0], self.along).value
        end = (tile.shape[axis] if axis == 0 or tile.shape[0] else 0) if self.mask else whole
        for i in range(0, end, self.size):
            yield tile[i : i + self.size] if axis == 0 else tile[:, i : i + self.size]

    def lower_flat(self, low, node):
        return low.retile_streamify(node, self)

    def stepsim(self):
        return "split", {"along": self.along, "size": self.size, "mask": self.mask}


@dataclass(frozen=True)
class AddressRange(Expanding):
    """Addresses a * stride + i, i < n, for scalars a, n."""

    stride: int

    name = "address_range"
    arity = 2

    def parts(self, graph, key, *operands):
        _scalars(self.name, *operands)
        return ScalarType(32), graph.fresh("L", key, DimKind.DYNAMIC_RAGGED)

    def values(self, ev, operands, *values):
        a, n = values
        return (_word(int(a) * self.stride + i) for i in range(int(n)))

    def lower_flat(self, low, node):
        return low.generate(node, "address", stride=self.stride)

    def stepsim(self):
        return "address_range", {"step": self.stride}


@dataclass(frozen=True)
class ExpertAddresses(Expanding):
    """Addresses e * count + i, i < count, for a one-hot selector of target e."""

    count: int

    name = "expert_addresses"

    def parts(self, graph, key, *operands):
        if not isinstance(operands[0], SelectorType):
            raise ProgramError(f"{self.name} takes selectors, not {operands[0]}")
        return ScalarType(32), dim(self.count)

    def values(self, ev, operands, *values):
        if len(values[0]) != 1:
            raise ev.error(f"selector {sorted(values[0])} has {len(values[0])} targets, not one")
        (target,) = values[0]
        return (target * self.count + i for i in range(self.count))

    def lower_flat(self, low, node):
        return low.generate(node, "expert", count=self.count)

    def stepsim(self):
        return "expert_addresses", {"step": self.count}


@dataclass(frozen=True)
class LastTileFilter(Expanding):
    """Selectors of two targets, n of them for a scalar n, one-hot: target 1 but for the last, which
    has target 0.
    """

    name = "last_tile_filter"

    def parts(self, graph, key, *operands):
        _scalars(self.name, *operands)
        return SelectorType(2), graph.fresh("L", key, DimKind.DYNAMIC_RAGGED)

    def values(self, ev, operands, *values):
        n = int(values[0])
        return (frozenset({0 if i == n - 1 else 1}) for i in range(n))

    def lower_flat(self, low, node):
        return low.generate(node, "last")

    def stepsim(self):
        return "last_filter", {}


@dataclass(frozen=True)
class Integers(Expanding):
    """The numbers of a tile {1, C} of int32: those of a tensor as a stream."""

    name = "integers"

    def parts(self, graph, key, *operands):
        (a,) = operands
        if not isinstance(a, TileType) or a.dtype != "int32" or a.rows.value != 1:
            raise ProgramError(
                f"{self.name} takes tiles of one row of int32, not {a}",
                remedy='load a tensor of dtype "int32" in tiles of one row',
            )
        return ScalarType(32), a.cols

    def values(self, ev, operands, *values):
        (tile,) = values
        if tile.shape != operands[0].static_shape:
            raise ev.error(
                f"takes the numbers of a tile of {tile.shape[1]} valid columns, not of all "
                f"{operands[0].cols}: tiles divide the tensor"
            )
        return (int(x) & 0xFFFFFFFF for x in tile[0])

    def lower_flat(self, low, node):
        return low.integers(node)


# ---- constructors
# --------------------------------------------------------------------------


def _within(name: str, what: str, value: object, allowed: range) -> int:
    return within(what, value, allowed, f"function {name}", ProgramError)


def retile_row() -> Retile:
    """Tiles one below the other."""
    return Retile("rows")


def retile_col() -> Retile:
    """Tiles side by side."""
    return Retile("cols")


def all_read() -> AllRead:
    """A token per group."""
    return AllRead()


def row_append() -> RowAppend:
    """A row below a tile's valid rows."""
    return RowAppend()


def row_offset() -> RowOffset:
    """A tile's number of valid rows."""
    return RowOffset()


def address(stride: int) -> Address:
    """a * stride + b."""
    return Address(_within("address", "stride", stride, ADDRESSES))


def number(op: str, value: int) -> Number:
    """A function of a number x and a constant: add, mul, min, max, less (1 or 0), equal, constant
    (the value itself), one_hot (the selector of target x, of so many targets; none beyond).
    """
    if op not in NUMBERS:
        raise ProgramError(f"op must be one of {', '.join(NUMBERS)}, not {op!r}", "function number")
    allowed = range(1, NUMBER_BITS + 1) if op == "one_hot" else ADDRESSES
    return Number(op, _within("number", "value", value, allowed))


def retile_streamify(along: str = "rows", size: int = 1, mask: bool = False) -> RetileStreamify:
    """Parts of a tile, by rows or columns."""
    if along not in SPLIT:
        raise ProgramError(
            f"along must be 'rows' or 'cols', not {along!r}", "function retile_streamify"
        )
    taken = _within("retile_streamify", "size", size, REPEATS)
    return RetileStreamify(along, taken, bool(mask))


def address_range(stride: int) -> AddressRange:
    """a * stride + i for i < n."""
    return AddressRange(_within("address_range", "stride", stride, ADDRESSES))


def expert_addresses(count: int) -> ExpertAddresses:
    """The addresses of a one-hot selector's target."""
    return ExpertAddresses(_within("expert_addresses", "count", count, REPEATS))


def last_tile_filter() -> LastTileFilter:
    """Selectors that mark the last of n."""
    return LastTileFilter()


def integers() -> Integers:
    """The numbers of tiles of int32."""
    return Integers()


FORMS.update(
    {
        f.__name__: f
        for f in (
            retile_row,
            retile_col,
            all_read,
            row_append,
            row_offset,
            address,
            number,
            retile_streamify,
            address_range,
            expert_addresses,
            last_tile_filter,
            integers,
        )
    }
)
