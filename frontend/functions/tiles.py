"""Functions of one element (or a pair) that Map and Accum run.

Element-wise functions come from ``penstock.machine.functions`` by name (also the ones users
register there); ``matmul``, ``scale``, ``immediate``, ``row_sum`` and ``row_max`` are the others.
What Accum collects and FlatMap expands is in ``stream_functions``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import ClassVar

import numpy as np
import sympy

from ...machine.errors import ProgramError, nearest
from ...machine.functions import FUNCTIONS, UnknownFunctionError, fp32_bits, lookup
from ..types import StreamType, TileType, ceil_div, dim, empty_tile, same_size

INTEGERS = "take the numbers of its tiles: FlatMap(stream, fn=integers())"
"""Remedy where a function is given tiles of int32."""
DIVIDED = "a multiple of t"
"""In ``forms``: the numbers that t divides, from the last one named."""


class Function:
    """Function that a higher-order operator runs on elements.

    Subclasses are frozen dataclasses; their fields are the arguments in a program's text.

    Attributes
    ----------
    name
        As programs write it.
    operators
        Names of the operators that can run it.
    rule, cost
        Its rule in the timing `stepsim` (machine/stepsim_kinds.py), and FLOP per element there.
    """

    name: str
    arity = 1
    operators: tuple[str, ...] = ("Map",)
    rule = "fixed"
    cost = 0
    forms: ClassVar[
        dict[str, tuple]
    ] = {}  # what tells its forms apart (frontend/analysis/forms.py)

    def form(self, name: str, *operands):
        """The function that ``forms`` calls ``name``, on operands of these types."""
        return getattr(self, name)

    def result(self, *operands):
        """Element type of the result; ProgramError where the operands do not suit."""
        raise NotImplementedError

    def flops(self, *operands) -> sympy.Expr:
        """FLOP of one application."""
        return sympy.Integer(0)

    def value(self, ev, operands, *values):
        """NumPy meaning: ``operands`` are the element types, ``values`` the elements."""
        raise NotImplementedError

    def lower(self, low, node):
        """Units of a Map that runs it (timing `machine`); returns the port of its result."""
        raise low.error(node, f"{self} has no unit on this machine")

    def __str__(self) -> str:
        own = fields(self) if is_dataclass(self) else ()
        given = [
            f"{f.name}={getattr(self, f.name)!r}" for f in own if getattr(self, f.name) != f.default
        ]
        return f"{self.name}({', '.join(given)})"


def need_tiles(name: str, *operands, dtype: str | None = None) -> None:
    """Raise unless all operands are tiles, of ``dtype`` where given."""
    for x in operands:
        if not isinstance(x, TileType):
            raise ProgramError(f"{name} takes tiles, not {x}")
        if dtype and x.dtype != dtype:
            raise ProgramError(
                f"{name} takes {dtype}, not {x.dtype}",
                rule="element-wise functions are evaluated in fp32",
                remedy=INTEGERS if x.dtype == "int32" else f"put cast(stream, {dtype!r}) in front",
            )


@dataclass(frozen=True)
class Matmul(Function):
    """A [M, K] times B [K, N], or B [N, K] where ``transposed``; fp32 out."""

    transposed: bool = False

    arity = 2
    name = "matmul"
    operators = ("Map", "Accum", "Scan")
    cost = 2
    forms: ClassVar[dict[str, tuple]] = {
        "transposed sized": ((False, True), ("none", "M", "K", "N", "several"))
    }

    def form(self, name, *operands):
        """``sized``: which of M, K and N are of run-time size."""
        if name != "sized":
            return super().form(name)
        sized = [x for x, d in zip("MKN", self.sizes(*operands), strict=True) if d.value is None]
        return "several" if len(sized) > 1 else "".join(sized) or "none"

    def inner(self, b: TileType):
        """B's dimension K."""
        return b.cols if self.transposed else b.rows

    def sizes(self, a: TileType, b: TileType) -> tuple:
        """M, K and N; K of the operand that knows it."""
        return (
            a.rows,
            a.cols if a.cols.value is not None else self.inner(b),
            b.rows if self.transposed else b.cols,
        )

    @property
    def rule(self) -> str:
        return "matmul_t" if self.transposed else "matmul"

    def result(self, *operands) -> TileType:
        a, b = operands
        if not isinstance(a, TileType) or not isinstance(b, TileType):
            raise ProgramError(f"matmul takes tiles, not {a} and {b}")
        if "int32" in (a.dtype, b.dtype):
            raise ProgramError("matmul takes no int32", remedy=INTEGERS)
        if a.dtype != b.dtype:
            raise ProgramError(
                f"operands are {a.dtype} and {b.dtype}",
                rule="both operands of matmul have one dtype",
                remedy=f"cast one of them, for example cast(stream, {b.dtype!r})",
            )
        k, n = (b.cols, b.rows) if self.transposed else (b.rows, b.cols)
        if same_size(a.cols, k) is False:
            what = "columns" if self.transposed else "rows"
            raise ProgramError(
                f"A has {a.cols} columns, B has {k} {what}",
                rule="[M, K] x [N, K] transposed" if self.transposed else "[M, K] x [K, N]",
                remedy=(
                    f"load tiles that agree in K, or use matmul(transposed={not self.transposed})"
                ),
            )
        return TileType(a.rows, n, "fp32")

    def flops(self, *operands) -> sympy.Expr:
        a, b = operands
        return 2 * a.rows.size * a.cols.size * (b.rows.size if self.transposed else b.cols.size)

    def measured(self, ev, operands, a, b) -> tuple[int, int, int]:
        """M, K and N of one product, sizes known only at run time as the elements have them.

        RunError where the operands differ in K, or a product without elements cannot be told from
        an empty one.
        """
        b_shape = b.shape[::-1] if self.transposed else b.shape
        ours, theirs = (
            shape if d.value is None else d.value
            for d, shape in ((operands[0].cols, a.shape[1]), (self.inner(operands[1]), b_shape[0]))
        )
        if ours != theirs:
            raise ev.error(
                f"matmul: A has {ours} columns, B has {theirs} "
                f"{'columns' if self.transposed else 'rows'}"
            )
        m, _, n = (
            shape if d.value is None else d.value
            for d, shape in zip(self.sizes(*operands), (a.shape[0], ours, b_shape[1]), strict=True)
        )
        tiles = 1 if self.transposed else ceil_div(ours, ev.t)
        if m and ours and not n and (operands[0].rows.value is None or m > ev.t or tiles > 1):
            raise ev.error(
                f"matmul: B is empty (N = 0) where A has {m} rows and {ours} columns: a tile of "
                "rows without columns stands for one row of physical tiles"
                f"{'' if self.transposed else ', made of one tile'}, of static size"
            )
        if (
            m
            and ours
            and n
            and not (a.shape[0] and b_shape[1])
            and not self.result(*operands).static
        ):
            raise ev.error(
                f"matmul: the product {{{m}, {n}}}, of run-time size, has no valid "
                f"{'column' if a.shape[0] else 'row'}: such a tile reads as an empty one"
            )
        return m, ours, n

    def value(self, ev, operands, *values):
        m, k, n = self.measured(ev, operands, *values)
        if m and n and not k:
            raise ev.error(
                f"matmul: operands are empty (K = 0) where the product has {m} rows and {n} "
                "columns: nothing on the wire stands for its zeros"
            )
        return ev.matmul(None, *values, k, self.transposed)

    def lower(self, low, node):
        return low.matmul(node, self, fused=0)


@dataclass(frozen=True)
class Elementwise(Function):
    """A function of machine/functions.py on tiles of one shape; one row or one column of an operand
    stands for all.
    """

    op: str

    operators = ("Map", "Accum", "Scan")
    rule = "elementwise"

    @property
    def name(self) -> str:
        return self.op

    @property
    def arity(self) -> int:
        return lookup(self.op).arity

    @property
    def cost(self) -> int:
        return lookup(self.op).flops_per_element

    def result(self, *operands) -> TileType:
        for x in operands:
            if not isinstance(x, TileType):
                raise ProgramError(f"{self.name} takes tiles, not {x}")
        need = "bf16" if self.name == "cast_fp32" else "fp32"
        for x in operands:
            if x.dtype != need:
                raise ProgramError(
                    f"{self.name} takes {need}, not {x.dtype}",
                    rule="element-wise functions are evaluated in fp32",
                    remedy=INTEGERS
                    if x.dtype == "int32"
                    else f"put cast(stream, {need!r}) in front"
                    if self.name != "cast_fp32"
                    else "leave the cast out",
                )
        dtype = "bf16" if self.name == "cast_bf16" else "fp32"
        if len(operands) == 1:
            return TileType(operands[0].rows, operands[0].cols, dtype)
        a, b = operands
        sizes = ((a.rows, b.rows), (a.cols, b.cols))
        if any(same_size(x, y) is False and 1 not in (x.value, y.value) for x, y in sizes):
            raise ProgramError(
                f"tiles are {{{a.rows}, {a.cols}}} and {{{b.rows}, {b.cols}}}",
                rule=f"{self.name} takes two tiles of one shape, or one row or column for all",
                remedy="load or compute tiles that agree",
            )
        rows, cols = (y if x.value == 1 else x for x, y in sizes)
        return TileType(rows, cols, dtype)

    def flops(self, *operands) -> sympy.Expr:
        return self.cost * self.result(*operands).elements

    def value(self, ev, operands, *values):
        if len(values) == 2:
            for (a, b), (x, y) in ((operands, values), (operands[::-1], values[::-1])):
                if (
                    a.cols.value is None
                    and empty_tile(x.shape, a)
                    and spread_of((a, b)) == "cols"
                    and y.shape[0] > ev.t
                ):
                    raise ev.error(
                        f"{self.name} spreads a column of {y.shape[0]} rows over an empty "
                        f"tile: that one has no beat for each of more than {ev.t} rows"
                    )
            values = spread_values(operands, *values)
            ev.agree(f"{self.name} takes", operands, values[0].shape, values[1].shape)
        return ev.elementwise(self.op, *values)

    def lower(self, low, node):
        return low.elementwise(node, self)

    def __str__(self) -> str:
        return f"function({self.op!r})"


def spread_of(operands: tuple[TileType, TileType]) -> str | None:
    """Spread of the second operand over the first: ``cols``, ``rows``, ``both`` or None."""
    a, b = operands
    cols = b.cols.value == 1 and a.cols.value != 1
    rows = b.rows.value == 1 and a.rows.value != 1
    return "both" if rows and cols else "cols" if cols else "rows" if rows else None


def spread_values(
    operands: tuple[TileType, TileType], a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The values of two operands, each spread over the other."""
    first, second = spread_of((operands[1], operands[0])), spread_of(operands)
    shape = (
        (b if first in ("rows", "both") else a).shape[0],
        (b if first in ("cols", "both") else a).shape[1],
    )

    def over(x: np.ndarray, how: str | None) -> np.ndarray:
        if how is None or not x.size:
            return x
        if how in ("cols", "both"):
            x = np.repeat(x[:, :1], shape[1], 1)
        return np.repeat(x[:1], shape[0], 0) if how in ("rows", "both") else x

    if first and not a.size:
        a = np.zeros(shape, a.dtype)
    return over(a, first), over(b, second)


@dataclass(frozen=True)
class Immediate(Function):
    """A function ``op`` of every element and a number, rounded to fp32; ``scale`` for mul."""

    op: str
    operand: float

    rule = "elementwise"

    @property
    def name(self) -> str:
        return "scale" if self.op == "mul" else "immediate"

    @property
    def cost(self) -> int:
        return lookup(self.op).flops_per_element

    def result(self, *operands) -> TileType:
        need_tiles(self.name, *operands, dtype="fp32")
        return operands[0]

    def flops(self, *operands) -> sympy.Expr:
        return self.cost * operands[0].elements

    def value(self, ev, operands, *values):
        return ev.elementwise(
            self.op, values[0], np.full(values[0].shape, np.float32(self.operand), ev.dtype)
        )

    def lower(self, low, node):
        return low.elementwise(node, Elementwise(self.op), constant=fp32_bits(self.operand))

    def __str__(self) -> str:
        return f"scale(factor={self.operand!r})" if self.op == "mul" else super().__str__()


@dataclass(frozen=True)
class RowReduce(Function):
    """Each row's sum or maximum: {R, C} to {R, 1}.

    Rows without a column, of a tile of static rows and run-time columns, give the identity.
    """

    op: str

    rule = "row_reduce"
    cost = 1

    @property
    def name(self) -> str:
        return {"add": "row_sum", "max": "row_max"}[self.op]

    def result(self, *operands) -> TileType:
        need_tiles(self.name, *operands, dtype="fp32")
        return TileType(operands[0].rows, dim(1), "fp32")

    def flops(self, *operands) -> sympy.Expr:
        return operands[0].elements

    def value(self, ev, operands, *values):
        if (
            operands[0].cols.value is None and not values[0].shape[1]
        ):  # of run-time rows such a tile has no element, and so has what is made of it
            return (
                ev.initial(self.op, self.result(*operands))
                if operands[0].rows.value is not None
                else np.zeros((0, 0), ev.dtype)
            )
        return ev.row_reduce(self.op, values[0])

    def lower(self, low, node):
        return low.row_reduce(node, self.op)

    def __str__(self) -> str:
        return f"{self.name}()"


def matmul(transposed: bool = False) -> Matmul:
    return Matmul(bool(transposed))


def function(name: str) -> Elementwise:
    """The element-wise function called ``name``; an unknown name raises with the known ones."""
    try:
        lookup(name if isinstance(name, str) else repr(name))
    except UnknownFunctionError as e:
        raise ProgramError(e.what, rule=e.rule, remedy=e.remedy) from None
    return Elementwise(name)


MOST = float(np.finfo(np.float32).max)

FORMS: dict[str, Callable[..., Function]] = {
    "matmul": matmul,
    "function": function,
    "scale": lambda factor: Immediate("mul", float(factor)),
    "immediate": lambda op, operand: immediate(op, operand),
    "row_sum": lambda: RowReduce("add"),
    "row_max": lambda: RowReduce("max"),
}
"""Functions as a program's text writes them: name -> constructor."""


GIVEN = ("function", "scale", "immediate")
"""Functions with an argument that has no default."""


def is_fp32(x: object, infinite: bool = False) -> bool:
    """True for a number within the range of fp32; ``infinite``: an infinity is one, too."""
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return False
    return abs(x) <= MOST or (infinite and isinstance(x, float) and np.isinf(x))


def scale(factor: float) -> Immediate:
    """Every element times ``factor``."""
    if not is_fp32(factor):
        raise ProgramError(f"factor must be a number of fp32, not {factor!r}", "function scale")
    return Immediate("mul", float(factor))


def immediate(op: str, operand: float) -> Immediate:
    """An element-wise function of two operands with a number as the second one: ``add``, ``mul``,
    ``min``, ``max``, ``lt``, ...
    """
    if function(op).arity != 2:
        raise ProgramError(f"{op} has one operand", "function immediate")
    if not is_fp32(operand):
        raise ProgramError(
            f"operand must be a number of fp32, not {operand!r}", "function immediate"
        )
    return Immediate(op, float(operand))


def row_sum() -> RowReduce:
    """Each row's sum."""
    return RowReduce("add")


def row_max() -> RowReduce:
    """Each row's maximum."""
    return RowReduce("max")


def as_function(f) -> Function:
    """A function from itself, from its name, or from a constructor like ``matmul``."""
    if isinstance(f, Function):
        return f
    if isinstance(f, str):
        return (
            FORMS[f]()
            if f in FORMS and f not in ("function", "scale", "immediate")
            else function(f)
        )
    made = f
    if callable(f):
        try:
            made = f()
        except TypeError:  # it takes arguments: not one of ours
            made = None
    if isinstance(made, Function):
        return made
    raise ProgramError(
        f"{f!r} is not a function of tiles",
        remedy=nearest(
            getattr(f, "__name__", f), [*sorted(set(FORMS) - {"function"}), *sorted(FUNCTIONS)]
        ),
    )


def _named(name: str):
    def make() -> Elementwise:
        return function(name)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = lookup(name).doc
    return make


add, sub, mul, div, exp, silu = map(_named, ("add", "sub", "mul", "div", "exp", "silu"))
maximum = _named("max")


FLOAT64: dict[str, Callable] = {}
"""Meanings of functions in float64 that their definitions do not have."""


def register_float64(name: str, meaning: Callable) -> None:
    """Give a user's function its float64 meaning, where its definition has none: arrays in, array
    out.
    """
    lookup(name)
    FLOAT64[name] = meaning


def float64_of(name: str) -> Callable:
    """An element-wise function in float64, for the error that results are measured against."""
    meaning = FLOAT64.get(name) or lookup(name).float64
    if meaning is None:
        raise ProgramError(
            f"function {name!r} has no float64 meaning",
            remedy=f"call penstock.frontend.register_float64({name!r}, ...)",
        )
    return meaning


def require_tiles(op, t: StreamType, i: int) -> TileType:
    """The element type of input ``i``, which must be a tile."""
    if not isinstance(t.element, TileType):
        raise op.stream_error(i, f"carries {t.element}", rule="the input must be a stream of tiles")
    return t.element
