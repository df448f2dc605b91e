"""Stream types: the four kinds of dimension, element types, and the shape of a stream."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import sympy

from ..machine.beat import ELEMENT_BITS, FLOATS
from ..machine.errors import ProgramError


class DimKind(enum.Enum):
    """Knowledge about a dimension before the run (paper section 3.1).

    A *static* size is known when the program is written, a *dynamic* one depends on data. A
    *regular* size is one number, a *ragged* one differs from occurrence to occurrence.
    """

    STATIC_REGULAR = "static-regular"
    DYNAMIC_REGULAR = "dynamic-regular"
    STATIC_RAGGED = "static-ragged"
    DYNAMIC_RAGGED = "dynamic-ragged"

    @property
    def dynamic(self) -> bool:
        return self in (DimKind.DYNAMIC_REGULAR, DimKind.DYNAMIC_RAGGED)

    @property
    def ragged(self) -> bool:
        return self in (DimKind.STATIC_RAGGED, DimKind.DYNAMIC_RAGGED)

    @staticmethod
    def of(*, dynamic: bool, ragged: bool) -> DimKind:
        if ragged:
            return DimKind.DYNAMIC_RAGGED if dynamic else DimKind.STATIC_RAGGED
        return DimKind.DYNAMIC_REGULAR if dynamic else DimKind.STATIC_REGULAR

    def accepts(self, other: DimKind) -> bool:
        """True if an operator that takes this kind also takes ``other``: it does if ``other`` is
        more constrained.
        """
        return (self.dynamic or not other.dynamic) and (self.ragged or not other.ragged)

    def join(self, other: DimKind) -> DimKind:
        """The least constrained of the two: the kind of an expression over both. Ragged absorbs."""
        return DimKind.of(dynamic=self.dynamic or other.dynamic, ragged=self.ragged or other.ragged)


@dataclass(frozen=True)
class Dim:
    """One dimension: its size (SymPy, over non-negative integer symbols) and its kind."""

    size: sympy.Expr
    kind: DimKind = DimKind.STATIC_REGULAR

    @cached_property
    def value(self) -> int | None:
        """The size as a number, or None while it has symbols."""
        return int(self.size) if self.size.is_Integer else None

    @property
    def number(self) -> int:
        """The size as a number; ProgramError where only the run knows it."""
        if self.value is None:
            raise ProgramError(
                f"the size {self} is known only at run time", remedy="give a static size"
            )
        return self.value

    def __str__(self) -> str:
        return str(self.size)


def shown(value) -> str:
    """An argument as a message names it; dimensions by their size."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, Dim) for v in value):
        return f"[{', '.join(map(str, value))}]"
    return f"the dimension {value}" if isinstance(value, Dim) else repr(value)


def _expression(size: object) -> sympy.Expr:
    """A number, or an expression of such, as an expression; ProgramError for all else."""
    if isinstance(size, sympy.Expr):
        return size
    if isinstance(size, bool) or not isinstance(size, SupportsIndex):
        raise ProgramError(f"a dimension must be an integer or a symbolic size, not {size!r}")
    return sympy.Integer(int(size))


def dim(size: Dim | SupportsIndex | sympy.Expr) -> Dim:
    """A dimension from a number (static-regular) or from an expression of such."""
    if isinstance(size, Dim):
        return size
    expr = _expression(size)
    if expr.is_Integer:
        if expr <= 0:
            raise ProgramError(
                f"a dimension must be at least 1, not {expr}",
                rule="a stream of no values is written by leaving the operator out",
            )
        return Dim(expr)
    return Dim(expr, DimKind.DYNAMIC_REGULAR)


@dataclass(frozen=True)
class TileType:
    """A two-dimensional tile ``rows x cols`` of ``dtype``; its size may be dynamic."""

    rows: Dim
    cols: Dim
    dtype: str

    @property
    def static(self) -> bool:
        return self.rows.value is not None and self.cols.value is not None

    @property
    def static_shape(self) -> tuple[int, int]:
        """Rows and columns as numbers; ProgramError where only the run knows one."""
        return self.rows.number, self.cols.number

    @property
    def elements(self) -> sympy.Expr:
        return self.rows.size * self.cols.size

    @property
    def bytes(self) -> sympy.Expr:
        return self.elements * element_bytes(self.dtype)

    def __str__(self) -> str:
        return f"tile {{{self.rows}, {self.cols}}} {self.dtype}"


@dataclass(frozen=True)
class SelectorType:
    """A multi-hot vector over ``n`` targets."""

    n: int

    elements = sympy.Integer(1)

    @property
    def bytes(self) -> sympy.Expr:
        return sympy.Integer((self.n + 7) // 8)

    def __str__(self) -> str:
        return f"selector {self.n}"


@dataclass(frozen=True)
class BufferType:
    """A read-only reference to a buffer of ``shape`` elements in the on-chip memory ``memory``."""

    element: ElementType
    shape: tuple[Dim, ...]
    memory: str = ""

    @property
    def static(self) -> bool:
        return all(d.value is not None for d in self.shape)

    @property
    def elements(self) -> sympy.Expr:
        return cardinality(self.shape) * self.element.elements

    @property
    def bytes(self) -> sympy.Expr:
        return cardinality(self.shape) * self.element.bytes

    def __str__(self) -> str:
        return f"buffer {show_shape(self.shape)} of {self.element}"


@dataclass(frozen=True)
class ScalarType:
    """An address or count of ``bits`` bits."""

    bits: int = 32

    elements = sympy.Integer(1)

    @property
    def bytes(self) -> sympy.Expr:
        return sympy.Integer((self.bits + 7) // 8)

    def __str__(self) -> str:
        return f"scalar {self.bits}"


@dataclass(frozen=True)
class TupleType:
    """Several values side by side."""

    members: tuple[ElementType, ...]

    @property
    def elements(self) -> sympy.Expr:
        return sum((m.elements for m in self.members), sympy.Integer(0))

    @property
    def bytes(self) -> sympy.Expr:
        return sum((m.bytes for m in self.members), sympy.Integer(0))

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.members)) + ")"


ElementType = TileType | SelectorType | BufferType | ScalarType | TupleType


STATIC_TILE, DYNAMIC_TILE, NUMBER, BUFFER, TUPLE = ELEMENT_KINDS = (
    "static tile",
    "dynamic tile",
    "number",
    "buffer",
    "tuple",
)
"""Kinds of elements: a tile is dynamic if only the run knows its size; a number is a selector or a
scalar.
"""
TILES = (STATIC_TILE, DYNAMIC_TILE)


def element_kind(element: ElementType) -> str:
    """The kind of an element type."""
    match element:
        case TileType():
            return STATIC_TILE if element.static else DYNAMIC_TILE
        case BufferType():
            return BUFFER
        case TupleType():
            return TUPLE
    return NUMBER


def need_tile(element: ElementType) -> TileType:
    """An element type that must be a tile; ProgramError where it is another."""
    if not isinstance(element, TileType):
        raise ProgramError(f"carries {element}", rule="the elements are tiles")
    return element


def need_buffer(element: ElementType) -> BufferType:
    """An element type that must refer to buffers; ProgramError where it is another."""
    if not isinstance(element, BufferType):
        raise ProgramError(f"carries {element}", rule="the elements are references to buffers")
    return element


def by_member(given: Any, element: TupleType) -> Sequence[Any]:
    """A value for each member of a tuple: those of a list, or one that all have."""
    return given if isinstance(given, (tuple, list)) else [given] * len(element.members)


def members_of(element: ElementType) -> tuple[ElementType, ...]:
    """The members of a tuple; an element that is none is its own only one."""
    return element.members if isinstance(element, TupleType) else (element,)


def leaves_of(element: ElementType) -> tuple[ElementType, ...]:
    """The members of a tuple, and of the tuples in it."""
    if not isinstance(element, TupleType):
        return (element,)
    return tuple(x for m in element.members for x in leaves_of(m))


def values_of(element: ElementType, value) -> tuple:
    """The values of a tuple's members, and of the tuples in it."""
    if not isinstance(element, TupleType):
        return (value,)
    pairs = zip(element.members, value, strict=True)
    return tuple(x for m, v in pairs for x in values_of(m, v))


def inner_dims(element: ElementType) -> int:
    """Inner dimensions that tiling adds to a stream of such elements."""
    if isinstance(element, TupleType):
        return inner_dims(element.members[0])
    return 2 if isinstance(element, TileType) else 0


@dataclass(frozen=True)
class StreamType:
    """Element type and shape ``[D_N, ..., D_0]``, outermost first; the rank is N."""

    element: ElementType
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.shape) - 1

    @property
    def count(self) -> sympy.Expr:
        """Number of elements."""
        return cardinality(self.shape)

    @property
    def tile(self) -> TileType:
        """The element type of a stream of tiles; ProgramError where it is another."""
        return need_tile(self.element)

    @property
    def buffer(self) -> BufferType:
        """The element type of a stream of references; ProgramError where it is another."""
        return need_buffer(self.element)

    def __str__(self) -> str:
        return f"{show_shape(self.shape)} {self.element}"


def element_bytes(dtype: str) -> int:
    return ELEMENT_BITS[dtype] // 8


def check_dtype(dtype: str, integers: bool = False) -> str:
    known = [*FLOATS, *(["int32"] if integers else [])]
    if dtype not in known:
        raise ProgramError(f"dtype must be one of {', '.join(known)}, not {dtype!r}")
    return dtype


def show_shape(shape: Sequence[Dim]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def cardinality(shape: Iterable[Dim]) -> sympy.Expr:
    return sympy.prod([d.size for d in shape]) if shape else sympy.Integer(1)


def empty_tile(shape: Sequence[int], t: TileType) -> bool:
    """True if a tile of this shape has no place on the wire: no row, or no column, of those whose
    number only the run tells.
    """
    return any(d.value is None and not n for d, n in zip((t.rows, t.cols), shape, strict=True))


def same_size(a: Dim, b: Dim) -> bool | None:
    """True if two dimensions have the same size; None where only the run can tell."""
    if a.size == b.size:
        return True
    difference = sympy.expand(a.size - b.size)
    if difference.has(sympy.Piecewise, sympy.ceiling):
        difference = sympy.simplify(difference)
    if difference == 0:
        return True
    return False if difference.is_nonzero else None


def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """True if two shapes may be the same: of one rank, and no size provably another."""
    return len(a) == len(b) and False not in [same_size(x, y) for x, y in zip(a, b, strict=True)]


def same_element(a: ElementType, b: ElementType) -> bool:
    """True if two element types may be the same."""
    match a, b:
        case TileType(), TileType():
            return a.dtype == b.dtype and same_shape((a.rows, a.cols), (b.rows, b.cols))
        case BufferType(), BufferType():
            return (
                a.memory == b.memory
                and same_shape(a.shape, b.shape)
                and same_element(a.element, b.element)
            )
        case TupleType(), TupleType():
            return len(a.members) == len(b.members) and all(map(same_element, a.members, b.members))
    return a == b


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up: how many parts of size b cover a."""
    for x in (a, b):
        if isinstance(x, bool) or not hasattr(x, "__index__"):
            raise ProgramError(f"sizes must be integers, not {x!r}")
    if b < 1 or a < 0:
        raise ProgramError(
            f"cannot cut a size of {a} into parts of {b}", rule="tile sizes are at least 1"
        )
    return -(-a // b)


def tiles_along(d: Dim, edge: int = 1) -> sympy.Expr | int:
    """Tiles of ``edge`` along a dimension, at least one; an expression where only the run knows."""
    if d.value is None:
        return sympy.Max(1, sympy.ceiling(d.size / edge))
    return ceil_div(d.value, edge)


def strides(shape: Sequence[int]) -> list[int]:
    """Row-major strides of a grid, outermost first."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
