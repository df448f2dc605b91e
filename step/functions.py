"""Functions of operators by their public names in the authors' Python, each with the type of its
result and the function of the front end that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from .. import frontend as p
from ..machine.errors import ProgramError
from .calls import Parameters
from .datatype import DynTile, MultiHot, Tile, Uint64, tile


class MapFn:
    """A function of one element, or of a pair."""

    made: Callable[[Any], Any]
    form: Callable | None
    typed: Callable

    def apply(self, input_tp: tuple) -> Any:
        """Type of the result."""
        try:
            signature(self.typed).bind(*input_tp)
        except TypeError:
            raise ProgramError(
                f"{self} does not take {len(input_tp)} operands",
                remedy="put it in a UnaryMap if it takes one, in a BinaryMap if two",
            ) from None
        return self.typed(*input_tp)

    def function(self, *operands: Any) -> Any:
        """The front end's function of such elements; ProgramError where this machine has none."""
        made = self.made(*operands)
        if made is None:
            raise ProgramError(
                f"{self} has no unit on this machine",
                remedy="docs/step_scripts.md lists what runs where",
            )
        return made

    def __str__(self) -> str:
        return type(self).__name__


class MapAccumFn(MapFn):
    """A function of a pair whose results are summed."""


class AccumFn(MapFn):
    """A function of a state and an element."""


class InitFn:
    """A first state, or what pads."""

    def apply(self) -> Any:
        return self.typed()  # type: ignore[attr-defined]


class Rule(NamedTuple):
    """A function's parameters, the type of its result, and the front end's function; or ``form``,
    the operators that stand for it: of the function, the translation and the operands.
    """

    parameters: str
    typed: Callable
    made: Callable | None
    form: Callable | None = None


def _same(_, *operands):
    return operands[0]


def _spread(_, a, b):
    sizes = []
    for x, y in zip(a.shape, b.shape, strict=True):
        if x != y and 1 not in (x, y):
            raise ProgramError(
                f"tiles of {a.shape} and {b.shape} differ",
                rule="a size is the other's, or 1",
                remedy="load or compute tiles that agree",
            )
        sizes.append(y if x == 1 else x)
    return tile(a, *sizes)


def _product(fn, a, b):
    k, n = b.shape[::-1] if fn.weight_transposed else b.shape
    if not type(fn).__name__.startswith("Dyn") and not (
        isinstance(a, Tile) and isinstance(b, Tile)
    ):
        raise ProgramError(
            f"a product of static size over tiles of {a.shape} and {b.shape}",
            rule="Matmul takes tiles of static size",
            remedy="use DynMatmul",
        )
    if a.shape[1] != k:
        raise ProgramError(
            f"a product of tiles of {a.shape} and {b.shape}",
            rule="[M, K] x [N, K]" if fn.weight_transposed else "[M, K] x [K, N]",
            remedy=f"load tiles that agree in K, or weight_transposed={not fn.weight_transposed}",
        )
    return tile(a, a.shape[0], n)


def _row(_, a):
    return tile(a, a.shape[0], 1)


NUMBER = Tile(Uint64(), (1, 1))
PRODUCT = Rule(
    "weight_transposed=False", _product, lambda fn, *_: p.matmul(transposed=fn.weight_transposed)
)


def _unary(name: str) -> Rule:
    return Rule("", _same, lambda *_: p.function(name))


def _binary(name: str) -> Rule:
    return Rule("", _spread, lambda *_: p.function(name))


def _immediate(op: str) -> Rule:
    def made(fn, x):
        of = p.number if isinstance(x, p.ScalarType) else p.immediate
        return of(op, fn.constant)

    return Rule("constant", _same, made)


def _equal(fn, low, a, b):
    """Target 0 of two where numbers are equal, target 1 elsewhere."""
    apart = p.Map(a, b, fn=p.address(2**32 - 1))
    return p.Map(p.Map(apart, fn=p.number("min", 1)), fn=p.number("one_hot", 2))


def _first(fn, low, selector):
    """The number of a selector's only target."""
    return p.Flatten(p.FlatMap(selector, fn=p.expert_addresses(1), rank=1), lo=0, hi=1)


def _row_of(fn, low, row):
    """A column that is 1 in one row: the ones up to it, less those above it."""
    row = p.Promote(row).stream
    rank, shape = len(row.shape), (fn.tile.shape[0], 1)
    column: Any = np.ones(shape, np.float32)
    for _ in range(rank):
        column = [column]
    ones = p.Expand(low.source((1,) * rank, column, tile=shape), ref=row, rank=rank - 1)
    upto = p.Map(ones, p.Map(row, fn=p.number("add", 1)), fn=p.mask("rows", 0.0))
    found = p.Map(upto, p.Map(ones, row, fn=p.mask("rows", 0.0)), fn="sub")
    return p.Flatten(found, lo=rank - 2, hi=rank - 1)


MAP: dict[str, Rule] = {
    "Matmul": PRODUCT,
    "DynMatmul": PRODUCT,
    "Add": _binary("add"),
    "Mul": _binary("mul"),
    "Div": _binary("div"),
    "Silu": _unary("silu"),
    "Exp": _unary("exp"),
    "Pow2": _unary("exp2"),
    "Square": _unary("square"),
    "Rsqrt": _unary("rsqrt"),
    "RowWiseSum": Rule("", _row, lambda *_: p.row_sum()),
    "AddImmediate": _immediate("add"),
    "SubImmediate": _immediate("sub"),
    "MulImmediate": _immediate("mul"),
    "SetOffset": Rule("", _same, lambda *_: p.row_offset()),
    "RowWiseAppend": Rule("", _same, lambda *_: p.row_append()),
    "CacheWriteAddrGen": Rule(
        "row_offset", lambda *_: NUMBER, lambda fn, *_: p.address(fn.row_offset)
    ),
    "ToConstInt": Rule(
        "constant", lambda *_: NUMBER, lambda fn, *_: p.number("constant", fn.constant)
    ),
    "IsEqual": Rule("", lambda *_: MultiHot(2), None, _equal),
    "MaskRow": Rule("tile", lambda fn, _: tile(fn.tile, fn.tile.shape[0], 1), None, _row_of),
    "SelectToScalar": Rule("", lambda *_: NUMBER, None, _first),
}
MAP_ACCUM: dict[str, Rule] = {"Matmul": PRODUCT, "DynMatmul": PRODUCT}
ACCUM: dict[str, Rule] = {
    "Add": Rule("", _same, lambda *_: p.add()),
    "Mul": Rule("", _same, lambda *_: p.mul()),
    "Max": Rule("", _same, lambda *_: p.maximum()),
    "RetileRow": Rule("", _same, lambda *_: p.retile_row()),
    "RetileCol": Rule("", _same, lambda *_: p.retile_col()),
    "SignalReqAllRead": Rule("", lambda *_: NUMBER, lambda *_: p.all_read()),
}
INIT: dict[str, Rule] = {
    name: Rule("shape, dtype", lambda fn: tile(DynTile(fn.dtype, fn.shape), *fn.shape), None)
    for name in ("Zero", "Empty", "DynEmpty")
}


def _class(name: str, base: type, rule: Rule) -> type:
    parameters = Parameters(rule.parameters)

    def init(self, *args, **named):
        for key, value in parameters.bound(name, args, named).items():
            setattr(self, key, value)

    made = rule.made or (lambda *_: None)
    return type(
        name, (base,), {"__init__": init, "typed": rule.typed, "made": made, "form": rule.form}
    )


MODULES: dict[str, dict[str, type]] = {
    module: {base.__name__: base} | {n: _class(n, base, rule) for n, rule in rules.items()}
    for module, base, rules in (
        ("map_fn", MapFn, MAP),
        ("map_accum_fn", MapAccumFn, MAP_ACCUM),
        ("accum_fn", AccumFn, ACCUM),
        ("init_fn", InitFn, INIT),
    )
}
"""The modules of functions: name -> public names."""
