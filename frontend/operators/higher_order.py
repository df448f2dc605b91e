"""Bases of the higher-order operators, which run a function on elements."""

from __future__ import annotations

import sympy

from ...machine.errors import ProgramError
from ..arguments import Arguments, argument
from ..functions.tiles import Function
from ..graph import Operator
from ..meaning.elements import pairs
from ..types import (
    BufferType,
    ElementType,
    TileType,
    TupleType,
    leaves_of,
    need_tile,
    same_shape,
    show_shape,
    values_of,
)


class HigherOrder(Operator):
    """Base of the higher-order operators: a function over one stream, several streams of one
    shape, or one stream of tuples, whose members are the operands.
    """

    streams = ("inputs*",)
    higher_order = True
    result: ElementType

    class Args(Arguments):
        fn: Function

    args: Args

    @property
    def several(self) -> bool:
        """True if its function of two operands takes more of them, from left to right."""
        return False

    def operands(self) -> tuple[ElementType, ...]:
        """Element types that the function sees."""
        if len(self.inputs) == 1:
            return leaves_of(self.inputs[0].element)
        return tuple(s.element for s in self.inputs)

    @property
    def result_tile(self) -> TileType:
        """The result of a function that gives tiles."""
        return need_tile(self.result)

    def tile_pair(self) -> tuple[TileType, TileType]:
        """The operands of a function of two tiles."""
        a, b = self.operands()
        if not isinstance(a, TileType) or not isinstance(b, TileType):
            raise self.error(f"{self.args.fn.name} takes tiles, not {a} and {b}")
        return a, b

    def elements(self, streams):
        """(values that the function sees, stop) of each element; values of None: a bare stop."""
        if len(streams) == 1:
            paired = isinstance(self.inputs[0].element, TupleType)
            element = self.inputs[0].element
            for v, s in streams[0]:
                yield (None if v is None else values_of(element, v) if paired else (v,)), s
            return
        first, *rest = streams
        found = ((None if v is None else (v,), s) for v, s in first)
        for other in rest:
            found = (
                (None if both is None else (*both[0], both[1]), s)
                for both, s in pairs(self, found, other, "operands have equal shapes")
            )
        yield from found

    def check_function(self, arity: int) -> None:
        fn: Function = self.args.fn
        operands = self.operands()
        if type(self).__name__ not in fn.operators:
            raise self.error(
                f"cannot run {fn.name}",
                rule=f"{fn.name} is a function of {' and '.join(fn.operators)}",
            )
        if len(operands) != arity and not (arity == 2 < len(operands) and self.several):
            raise self.error(
                f"{fn.name} takes {arity} operands here, not {len(operands)}",
                remedy="pass one stream per operand"
                if len(operands) < arity
                else "pass fewer streams",
            )
        for i, s in enumerate(self.inputs):
            if any(isinstance(m, BufferType) for m in leaves_of(s.element)):
                raise self.stream_error(
                    i,
                    f"carries {s.element}",
                    rule="functions take tiles, selectors and scalars, not buffers",
                    remedy="put Streamify in front",
                )
        for i, s in enumerate(self.inputs):
            a = self.inputs[0]
            if not same_shape(a.shape, s.shape):
                raise self.stream_error(
                    i,
                    f"has shape {show_shape(s.shape)}, stream {a.name} has {show_shape(a.shape)}",
                    rule="the inputs have one shape",
                    remedy="reshape, expand or reload one of them",
                )

    def function_result(self, *operands):
        """Element type of the function's result on ``operands``; its errors name the streams."""
        try:
            return self.args.fn.result(*operands)
        except ProgramError as e:
            raise self.function_error(e) from None

    def function_error(self, e: ProgramError) -> ProgramError:
        return self.error(
            e.what,
            stream="streams " + ", ".join(f"{s.name} {s.type}" for s in self.inputs),
            rule=e.rule,
            remedy=e.remedy,
        )


class Datapath(HigherOrder):
    """Base of Map, Accum and Scan, whose functions run on datapaths."""

    class Args(HigherOrder.Args):
        units: int | None = argument(
            "hardware units that share the work (default: the configuration's)", None
        )
        compute_bw: int | None = argument(
            "FLOP per cycle in the timing `stepsim` (default: the configuration's)", None
        )
        write_back: bool = argument(
            "whether the result is put into a memory unit (timing `stepsim`)", False
        )

    args: Args

    def check_function(self, arity):
        super().check_function(arity)
        for name in ("units", "compute_bw"):
            if getattr(self.args, name) is not None:
                self.positive(name)

    def _matmul_paper(self) -> sympy.Expr:
        a, b = self.tile_pair()
        bytes_ = a.bytes / a.elements
        return 16 * a.cols.size * bytes_ + b.bytes
