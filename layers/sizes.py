"""Sizes of an archive, as expressions of symbols: parsed, never evaluated.

A size is SymPy's ``srepr``, as ``Add(Symbol('s57', positive=True, integer=True), Integer(1))``; a
guard is Python, as ``L['x'].size()[0] == L['lengths'].size()[0]``. Both are read by `ast`, and
anything that is not named here is refused.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sympy

from ..frontend.symbols import count_symbol
from ..machine.errors import ProgramError
from .form import Size, Value

MOST_TEXT = 4096
"""Characters of a size's expression."""
MOST_SIZE = 1 << 40
"""Size of a dimension."""


def floor_div(a: Size, b: Size) -> Size:
    return sympy.floor(sympy.sympify(a) / b)


CALLS: dict[str, Callable[..., Any]] = {
    "Add": sympy.Add,
    "Mul": sympy.Mul,
    "Max": sympy.Max,
    "Min": sympy.Min,
    "max": sympy.Max,
    "min": sympy.Min,
    "FloorDiv": floor_div,
    "CleanDiv": floor_div,
    "Mod": sympy.Mod,
    "PythonMod": sympy.Mod,
    "CeilToInt": sympy.ceiling,
    "FloorToInt": sympy.floor,
    "Pow": sympy.Pow,
}
"""Functions of sizes."""
OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: floor_div,
    ast.Mod: sympy.Mod,
}
"""Operators in guards."""


def parse(text: str, where: str) -> Size:
    """The size that a ``srepr`` says.

    Raises
    ------
    ProgramError
        It has anything but the functions named here.
    """
    try:
        return _plain(_expression(_tree(text, where), where, {}))
    except RecursionError:
        raise _refused(text, where) from None


def equalities(guards: Iterable[str], inputs: Mapping[str, Value]) -> list[tuple[Size, Size]]:
    """Pairs of sizes that guards say to be equal; other guards say nothing."""
    found: list[tuple[Size, Size]] = []
    for text in guards:
        try:
            tree = _tree(text, "guards_code")
            if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
                continue
            if not isinstance(tree.ops[0], ast.Eq):
                continue
            sides = [_expression(t, text, inputs) for t in (tree.left, tree.comparators[0])]
        except (ProgramError, RecursionError):
            continue
        a, b = (_plain(s) for s in sides)
        if a != b:
            found.append((a, b))
    return found


def unify(pairs: Iterable[tuple[Size, Size]]) -> tuple[dict, list[tuple[Size, Size]]]:
    """Substitutions that make pairs of sizes equal, and pairs that none does.

    Raises
    ------
    ProgramError
        Two different integers should be equal.
    """
    found: dict[sympy.Symbol, Size] = {}
    left: list[tuple[Size, Size]] = []
    for a, b in pairs:
        difference = sympy.sympify(replace(a, found)) - replace(b, found)
        if difference == 0:
            continue
        if difference.is_number:
            raise ProgramError(f"sizes {a} and {b} should be equal", "the archive's sizes")
        solved = _solve(difference)
        if solved is None:
            left.append((a, b))
            continue
        symbol, value = solved
        found = {s: replace(v, {symbol: value}) for s, v in found.items()} | {symbol: value}
    return found, left


def replace(size: Size, found: Mapping) -> Size:
    """A size with substitutions made."""
    if isinstance(size, int):
        return size
    return _plain(size.xreplace({s: sympy.sympify(v) for s, v in found.items()}))


def symbols_of(shape: Iterable[Size]) -> set[sympy.Basic]:
    """Symbols in the sizes of a shape."""
    return {s for n in shape if not isinstance(n, int) for s in n.free_symbols}


def _solve(difference: sympy.Expr) -> tuple[sympy.Symbol, Size] | None:
    """A symbol and its value for a difference to be 0: the last by name that stands alone."""
    for s in sorted(difference.free_symbols, key=str, reverse=True):
        factor = difference.coeff(s)
        rest = sympy.expand(difference - factor * s)
        if factor in (1, -1) and s not in rest.free_symbols:
            return s, _plain(-rest if factor == 1 else rest)
    return None


def _plain(expression: Any) -> Size:
    return int(expression) if getattr(expression, "is_Integer", False) else expression


def _tree(text: str, where: str) -> ast.expr:
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise ProgramError(f"a size must have at most {MOST_TEXT} characters", where)
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused(text, where) from None


def _refused(text: str, where: str) -> ProgramError:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return ProgramError(
        f"cannot read the size {shown!r}",
        where,
        "sizes are sums, products and floor divisions of symbols and integers",
        "export the layer again",
    )


def _expression(node: ast.expr, where: str, inputs: Mapping[str, Value]) -> Any:
    """A SymPy expression of a tree; ``inputs``: whose sizes a guard may name."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            if abs(value) >= 1 << 63:
                raise _refused(ast.unparse(node), where)
            return sympy.Integer(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_expression(inner, where, inputs)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            sides = [_expression(n, where, inputs) for n in (left, right)]
            return OPERATORS[type(op)](*sides)
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
            if not re.fullmatch(r"[a-z]+[0-9]+", name):
                raise _refused(ast.unparse(node), where)
            return count_symbol(name)
        case ast.Call(func=ast.Name(id="Integer"), args=[inner], keywords=[]):
            return _expression(inner, where, {})
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in CALLS:
            parts = [_expression(a, where, inputs) for a in args]
            if name == "Pow" and not (parts[1].is_Integer and 0 <= parts[1] <= 8):
                raise _refused(ast.unparse(node), where)
            return CALLS[name](*parts)
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=base, attr="size"), args=[]),
            slice=ast.Constant(value=int(dim)),
        ):
            value = inputs.get(_input_name(base))
            if value is not None and dim < len(value.shape):
                return sympy.sympify(value.shape[dim])
    raise _refused(ast.unparse(node), where)


def _input_name(node: ast.expr) -> str:
    """Name in the signature of ``L['past'][0]``: past_0."""
    match node:
        case ast.Subscript(value=ast.Name(id="L"), slice=ast.Constant(value=str(name))):
            return name
        case ast.Subscript(value=inner, slice=ast.Constant(value=part)):
            return f"{_input_name(inner)}_{part}"
    return ""
