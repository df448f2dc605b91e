"""Types of streams, by their public names in the authors' Python: elements, tiles, buffers,
selectors, streams and sizes that only a run knows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy


class DynDim:
    """A size that only a run knows: a SymPy expression with integer arithmetic."""

    def __init__(self, name_or_expr: str | sympy.Expr, is_ragged: bool = False):
        if isinstance(name_or_expr, str):
            name_or_expr = sympy.Symbol(name_or_expr, integer=True, nonnegative=True)
        if not isinstance(name_or_expr, sympy.Expr):
            raise TypeError(f"a DynDim is a name or an expression, not {name_or_expr!r}")
        self.expr: sympy.Expr = name_or_expr
        self.is_ragged = is_ragged

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DynDim) and bool(self.expr.equals(other.expr))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return str(self.expr)


def expr(size: int | DynDim) -> sympy.Expr:
    """A size as an expression."""
    return size.expr if isinstance(size, DynDim) else sympy.Integer(int(size))


def _arithmetic(apply: Callable[[Any, Any], Any], reflected: bool) -> Callable:
    def method(self: DynDim, other: int | DynDim) -> DynDim:
        a, b = (other, self) if reflected else (self, other)
        return DynDim(apply(expr(a), expr(b)))

    return method


for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod"):
    for _prefix in ("", "r", "i"):
        setattr(
            DynDim, f"__{_prefix}{_name}__", _arithmetic(getattr(operator, _name), _prefix == "r")
        )


def total(sizes: tuple) -> sympy.Expr:
    """The product of sizes."""
    return sympy.Mul(*map(expr, sizes))


class ElementTP:
    """A type of numbers; ``size`` in bytes."""

    size = 4

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def size_in_bytes(self) -> sympy.Expr:
        return sympy.Integer(self.size)

    def __str__(self) -> str:
        return type(self).__name__


class Float32(ElementTP):
    """Numbers of 4 bytes."""


class Float16(ElementTP):
    """Numbers of 2 bytes."""

    size = 2


class Uint32(ElementTP):
    """Integers of 4 bytes."""


class Uint64(ElementTP):
    """Integers of 8 bytes: addresses and counts."""

    size = 8


class Bool(ElementTP):
    """Truth values."""

    size = 1


@dataclass
class DynTile:
    """A tile with sizes that only a run knows."""

    tile_dtype: ElementTP
    shape: tuple[int | DynDim, int | DynDim]

    def size_in_bytes(self) -> sympy.Expr:
        return total(self.shape) * self.tile_dtype.size_in_bytes()


class Tile(DynTile):
    """A tile of static size."""


def tile(like: DynTile, *shape: int | DynDim) -> DynTile:
    """A tile of the element type of another."""
    static = all(isinstance(d, int) for d in shape)
    return (Tile if static else DynTile)(like.tile_dtype, shape)  # type: ignore[arg-type]


@dataclass
class Buffer:
    """Tiles that lie on chip."""

    buff_dtype: DynTile
    shape: tuple[int | DynDim, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def size_in_bytes(self) -> sympy.Expr:
        return total(self.shape) * self.buff_dtype.size_in_bytes()


class Select:
    """A choice of targets."""


@dataclass
class MultiHot(Select):
    """One bit a target."""

    total_n: int

    def size_in_bytes(self) -> sympy.Expr:
        return sympy.Integer(self.total_n)


@dataclass
class Index(Select):
    """The numbers of the targets."""

    active_n: int

    @property
    def total_n(self) -> int:
        return self.active_n

    def size_in_bytes(self) -> sympy.Expr:
        return sympy.Integer(2 * self.active_n)


@dataclass
class Stream:
    """Elements of one type in a shape, outermost dimension first."""

    stream_dtype: Any
    shape: tuple[Any, ...]

    @property
    def rank(self) -> int:
        return len(self.shape) - 1

    def total_elements(self) -> sympy.Expr:
        return total(self.shape)
