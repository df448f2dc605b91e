"""Map, and what applies it (paper table 5)."""

from __future__ import annotations

from typing import ClassVar

import sympy

from ...machine.functions import lookup
from ..arguments import argument
from ..functions.layout import rotate
from ..functions.streams import RowAppend, RowOffset
from ..functions.tiles import (
    Elementwise,
    Function,
    Matmul,
    RowReduce,
    as_function,
    row_sum,
    spread_of,
)
from ..graph import as_stream, operator
from ..types import NUMBER, TILES, TUPLE, ElementType, StreamType, TileType, check_dtype
from ..user_line import for_caller, user_variable
from .higher_order import Datapath


@operator
class Map(Datapath):
    """Applies a function to each element, or to pairs of those of two streams; the shape stays."""

    shapes = (
        "[D_a, ..., D_0] of A (not buffers), or several streams of one shape, or tuples "
        "(A, B, ...) -> [D_a, ..., D_0] of the function's result"
    )
    stops = "copied; operands of two streams carry equal ones"
    costs = (
        "on chip, matmul: 16 x columns of A + the weight tile B (rule `paper`), nothing "
        "(`published`)"
    )
    limits = (
        "matmul: sizes known only at run time agree in K",
        "matmul: K has a bound (`most`) where a row of tiles waits for its token: M of run-time "
        "size, or, transposed, N of run-time size",
        "matmul: K is not empty. Such a product would be zeros that nothing writes; Accum adds "
        "nothing for it",
        "matmul: where B is empty and A is not, A has static size and one row of physical tiles; "
        "not transposed, one physical tile",
        "row_sum, row_max: a row without a column, of a tile of static rows and run-time "
        "columns, gives 0 or -inf; col_sum, col_max likewise of rows",
        "transpose: a tile of run-time size is one physical tile high or wide",
        "rotate: whole rows; a half is within a physical tile, or of whole ones",
        "mask: no empty tile of run-time size",
        "element-wise functions: tiles of two operands have one size where only the run tells it",
        "an operand of one column or one row, spread over run-time columns: these have a "
        "bound (`most`), for the other operand waits in its channel; not both operands at a time",
        "a column of more than t rows is not spread over an empty tile",
        "row_append, row_offset: rows of static number; row_offset: no empty tile of run-time "
        "columns",
    )
    forms: ClassVar[dict[str, tuple]] = {
        "carries": (*TILES, NUMBER, TUPLE),
        "spread": ("none", "rows", "cols", "both"),
        "first_spread": ("none", "rows", "cols", "both"),
        "run_time_columns": (
            "row_sum",
            "row_max",
            "spread rows",
            "spread cols",
            "spread both",
            "row_append",
            "row_offset",
        ),
    }

    class Args(Datapath.Args):
        fn: Function = argument(
            "function of one or two elements: matmul(), element-wise ones (one row or column of "
            "an operand stands for all; add, mul and max of more operands: from left to "
            "right), number(op, value) on numbers, scale(c), immediate(name, c), row_sum(), "
            "row_max(), col_sum(), col_max(), transpose(), rotate(form), mask(along, fill) by a "
            "number, row_append(), row_offset(), address(stride)"
        )

    args: Args

    @classmethod
    def example(cls, given):
        return cls(given.x(), fn=row_sum())

    @property
    def run_time_columns(self) -> str | None:
        """The work done over columns whose number is known only at run time: rows are reduced,
        appended or cut, or how a second operand is repeated; None for all else.
        """
        fn = self.args.fn
        first = self.operands()[0]
        if not isinstance(first, TileType) or first.cols.value is not None:
            return None
        return (
            fn.name
            if isinstance(fn, (RowReduce, RowAppend, RowOffset))
            else f"spread {self.spread}"
            if self.spread not in (None, "none")
            else None
        )

    @property
    def spread(self) -> str | None:
        """Spread of the second operand of an element-wise function over the first; None for other
        functions.
        """
        fn = self.args.fn
        return (
            (spread_of(self.tile_pair()) or "none")
            if isinstance(fn, Elementwise) and len(self.operands()) == 2
            else None
        )

    @property
    def first_spread(self) -> str | None:
        """Likewise of the first over the second."""
        if self.spread is None:
            return None
        a, b = self.tile_pair()
        return spread_of((b, a)) or "none"

    def pairs(self) -> list[tuple[ElementType, ElementType]]:
        """Types of the two operands of each step of a function over several."""
        first, *rest = self.operands()
        found = []
        for other in rest:
            found.append((first, other))
            first = self.function_result(first, other)
        return found

    @property
    def several(self) -> bool:
        fn = self.args.fn
        return isinstance(fn, Elementwise) and lookup(fn.op).identity is not None

    def check(self):
        fn = self.args.fn = as_function(self.args.fn)
        self.check_function(fn.arity)
        *_, last = self.pairs() or [self.operands()]
        self.result = self.function_result(*last)

    def shape_rule(self):
        return [StreamType(self.result, self.inputs[0].shape)]

    def flops(self):
        steps = self.pairs() or [self.operands()]
        return self.inputs[0].type.count * sum(self.args.fn.flops(*x) for x in steps)

    def onchip(self, rule):
        return (
            self._matmul_paper()
            if rule == "paper" and isinstance(self.args.fn, Matmul)
            else sympy.Integer(0)
        )

    def lower_machine(self, low):
        return [self.args.fn.lower(low, self)]

    def lower_stepsim(self, low):
        return low.map(self)

    def evaluate(self, ev, *streams):
        steps = self.pairs()
        for values, s in self.elements(streams):
            if values is None:
                yield None, s
                continue
            out, *rest = values
            with self.located():
                for types, value in zip(steps, rest, strict=True):
                    out = ev.value(self, types, (out, value))
                if not steps:
                    out = ev.value(self, self.operands(), values)
            yield out, s


@for_caller
def cast(stream, dtype: str):
    """The stream with elements of ``dtype``: a Map of a cast function, or the stream itself where
    they are so already.
    """
    s = as_stream(stream)
    check_dtype(dtype)
    if isinstance(s.element, TileType) and s.element.dtype == dtype:
        return s
    name = None if user_variable() else f"{s.node.name}_{dtype}"
    return Map(s, fn=f"cast_{dtype}", name=name).stream


@for_caller
def where(condition, a, b):
    """The stream of ``a`` where the condition is not 0, else of ``b``, element by element; each may
    have one row or one column for all.
    """
    chosen = Map(a, condition, fn="select"), Map(b, condition, fn="unless")
    return Map(*chosen, fn="either").stream


@for_caller
def rotary(x, cos, sin, form: str = "halves"):
    """x cos + rotate(x) sin: rotary positions of halves of the columns or of neighbours
    (``pairs``).
    """
    turned = Map(Map(x, fn=rotate(form)), sin, fn="mul")
    return Map(Map(x, cos, fn="mul"), turned, fn="add").stream
