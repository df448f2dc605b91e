"""The formula of a rule of a kind, as text, read from its method."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable

_OWN = {"latency": "L", "interval": "II"}


class _Plain(ast.NodeTransformer):
    """Parameters and rules of the unit itself by their names alone."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func
        if isinstance(called, ast.Attribute) and _of_self(called) and called.attr in _OWN:
            return ast.Name(_OWN[called.attr])
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(node.attr) if _of_self(node) else self.generic_visit(node)


def _of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def formula(rule: Callable[..., object]) -> str:
    """Formula that a method returns, in terms of ``t``, the unit's parameters, L and II.

    Raises
    ------
    ValueError
        The method is more than one ``return``.
    """
    (method,) = ast.parse(textwrap.dedent(inspect.getsource(rule))).body
    *text, last = method.body if isinstance(method, ast.FunctionDef) else [method]
    if (
        not isinstance(last, ast.Return)
        or last.value is None
        or any(not isinstance(x, ast.Expr) for x in text)
    ):
        raise ValueError(f"{rule.__qualname__} must be one return, for its formula is shown")
    return ast.unparse(_Plain().visit(last.value))
