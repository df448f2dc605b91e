"""Line of a user's program that calls the front end, and the variable that takes the result."""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TypeVar

FunctionT = TypeVar("FunctionT", bound=FunctionType)
FRONT_END = tuple(str(Path(__file__).parents[1] / room) for room in ("frontend", "step", "layers"))

_MAKERS: set[CodeType] = set()
"""Code of functions of the front end that make an operator for their caller, as `__init__` does."""
Place = tuple[int | None, ...]
"""First and last line, first and last column."""
_GIVEN: list[tuple[str, str]] = []
"""Line and variable of operators that are made for a line which ran before."""


@contextlib.contextmanager
def made_for(line: str, variable: str) -> Iterator[None]:
    """Give operators that are made here a line of the user's that ran before."""
    _GIVEN.append((line, variable))
    try:
        yield
    finally:
        _GIVEN.pop()


def for_caller(function: FunctionT) -> FunctionT:
    """Mark a function that makes an operator for its caller."""
    _MAKERS.add(function.__code__)
    return function


def user_line() -> str:
    """File and line of the nearest caller outside the front end."""
    if _GIVEN:
        return _GIVEN[-1][0]
    frame: FrameType | None = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(FRONT_END):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def user_variable() -> str | None:
    """Variable of the user's program to which the calling expression is assigned: None where there
    is none, no source, or where a file of this package is the caller.
    """
    if _GIVEN:
        return _GIVEN[-1][1]
    frame: FrameType | None = sys._getframe(1)
    while frame and (
        frame.f_code in _MAKERS
        or (frame.f_code.co_name == "__init__" and frame.f_code.co_filename.startswith(FRONT_END))
    ):
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__", "").startswith("penstock."):
        return None
    code = frame.f_code
    linecache.lazycache(code.co_filename, frame.f_globals)
    return _variables(code, code.co_filename).get(frame.f_lasti // 2)


@functools.lru_cache(maxsize=64)
def _variables(code: CodeType, file: str) -> dict[int, str]:
    """The variables that take results of a function's calls, by the calls' instructions."""
    linecache.checkcache(file)
    names = _targets("".join(linecache.getlines(file)))
    return {i: names[place] for i, place in enumerate(code.co_positions()) if place in names}


@functools.lru_cache(maxsize=16)
def _targets(source: str) -> dict[Place, str]:
    """The variable of each call that is assigned to one, by the call's place."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # not the text that runs
        return {}
    return {
        (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset): name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value
        for call, name in _assigned(
            node.targets[-1] if isinstance(node, ast.Assign) else node.target, node.value
        )
        if name.isascii() and name.strip("_")
    }


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.Call, str]]:
    """Calls whose results a target takes, whole or in part, with the target's name."""
    if (
        isinstance(target, (ast.Tuple, ast.List))
        and isinstance(value, (ast.Tuple, ast.List))
        and len(target.elts) == len(value.elts)
    ):
        for one, part in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one, part)
        return
    match value:
        case ast.Call(func=func):
            yield value, _name(target)
            if isinstance(func, ast.Attribute):
                yield from _assigned(target, func.value)
        case ast.Attribute(value=inner) | ast.Subscript(value=inner):
            yield from _assigned(target, inner)
        case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
            yield from _assigned(target, inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _assigned(target, part)
        case ast.IfExp(body=one, orelse=other):
            yield from _assigned(target, one)
            yield from _assigned(target, other)


def _name(target: ast.expr) -> str:
    """A target's name; those of several are joined."""
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=inner) | ast.Starred(value=inner):
            return _name(inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return "_".join(name for part in parts if (name := _name(part)).strip("_"))
    return ""
