"""Functions that higher-order operators run on elements.

Element-wise functions come from ``penstock.machine.functions`` by name (also the ones users register there);
``matmul`` is the one function that is not element-wise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sympy

from penstock.machine.errors import ProgramError
from penstock.machine.functions import FUNCTIONS, UnknownFunctionError, lookup

from .types import StreamType, TileType, same_size


@dataclass(frozen=True)
class Matmul:
    """A [M, K] times B [K, N], or B [N, K] where ``transposed``; fp32 out."""

    transposed: bool = False

    arity = 2
    name = "matmul"

    def result(self, *operands) -> TileType:
        a, b = operands
        if not isinstance(a, TileType) or not isinstance(b, TileType):
            raise ProgramError(f"matmul takes tiles, not {a} and {b}")
        if a.dtype != b.dtype:
            raise ProgramError(f"operands are {a.dtype} and {b.dtype}", rule="both operands of matmul have one dtype",
                               remedy=f"cast one of them, for example cast(stream, {b.dtype!r})")
        k, n = (b.cols, b.rows) if self.transposed else (b.rows, b.cols)
        if same_size(a.cols, k) is False:
            what = "columns" if self.transposed else "rows"
            raise ProgramError(f"A has {a.cols} columns, B has {k} {what}",
                               rule="[M, K] x [N, K] transposed" if self.transposed else "[M, K] x [K, N]",
                               remedy=f"load tiles that agree in K, or use matmul(transposed={not self.transposed})")
        return TileType(a.rows, n, "fp32")

    def flops(self, *operands) -> sympy.Expr:
        a, b = operands
        return 2 * a.rows.size * a.cols.size * (b.rows.size if self.transposed else b.cols.size)

    def __str__(self) -> str:
        return f"matmul(transposed={self.transposed})" if self.transposed else "matmul()"


@dataclass(frozen=True)
class Elementwise:
    """A function of machine/functions.py on tiles of one shape."""

    name: str

    @property
    def arity(self) -> int:
        return lookup(self.name).arity

    def result(self, *operands) -> TileType:
        for x in operands:
            if not isinstance(x, TileType):
                raise ProgramError(f"{self.name} takes tiles, not {x}")
        need = "bf16" if self.name == "cast_fp32" else "fp32"
        for x in operands:
            if x.dtype != need:
                raise ProgramError(f"{self.name} takes {need}, not {x.dtype}", rule="element-wise functions are evaluated in fp32",
                                   remedy=f"put cast(stream, {need!r}) in front" if self.name != "cast_fp32" else "leave the cast out")
        if len(operands) == 2:
            a, b = operands
            if same_size(a.rows, b.rows) is False or same_size(a.cols, b.cols) is False:
                raise ProgramError(f"tiles are {{{a.rows}, {a.cols}}} and {{{b.rows}, {b.cols}}}",
                                   rule=f"{self.name} takes two tiles of one shape",
                                   remedy="load or compute tiles that agree")
        return TileType(operands[0].rows, operands[0].cols, "bf16" if self.name == "cast_bf16" else "fp32")

    def flops(self, *operands) -> sympy.Expr:
        return lookup(self.name).flops_per_element * operands[0].elements

    def __str__(self) -> str:
        return f"{self.name}()"


Function = Matmul | Elementwise


def matmul(transposed: bool = False) -> Matmul:
    return Matmul(bool(transposed))


def function(name: str) -> Elementwise:
    """The element-wise function called ``name``; unknown names raise with the list of known ones."""
    try:
        lookup(name)
    except UnknownFunctionError as e:
        raise ProgramError(e.what, rule=e.rule, remedy=e.remedy) from None
    return Elementwise(name)


def as_function(f) -> Function:
    """A function from itself, from its name, or from a constructor like ``matmul``."""
    if isinstance(f, (Matmul, Elementwise)):
        return f
    if isinstance(f, str):
        return Matmul() if f == "matmul" else function(f)
    if callable(f):
        return as_function(f())
    raise ProgramError(f"{f!r} is not a function", remedy=f"known: matmul, {', '.join(sorted(FUNCTIONS))}")


def _named(name: str):
    def make() -> Elementwise:
        return function(name)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = lookup(name).doc
    return make


add, sub, mul, div, exp, silu = map(_named, ("add", "sub", "mul", "div", "exp", "silu"))
maximum = _named("max")


def _divide(a, b):
    with np.errstate(all="ignore"):
        return a / b


def _silu(x):
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


FLOAT64: dict[str, Callable] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _divide, "max": np.maximum, "exp": np.exp, "silu": _silu,
    "cast_bf16": np.copy, "cast_fp32": np.copy,
}
"""Element-wise functions in float64, for the error that results are measured against."""


def register_float64(name: str, meaning: Callable) -> None:
    """Give a user's function its float64 meaning: arrays in, array out."""
    lookup(name)
    FLOAT64[name] = meaning


def require_tiles(op, t: StreamType, i: int) -> TileType:
    """The element type of input ``i``, which must be a tile."""
    if not isinstance(t.element, TileType):
        raise op.stream_error(i, f"carries {t.element}", rule="the input must be a stream of tiles")
    return t.element
