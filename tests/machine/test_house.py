"""The house: lines and functions of a size that can be read (docs/contributing.md)."""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_COLUMNS = 100
MOST_LINES = 80
MOST_ELABORATE = 60
MOST_PARAMETERS = 10
MEAN_LINE = 40
MOST_PARALLEL = 60
SKIPPED = {"out", "build", "dist"}
LONG_LINES: dict[str, str] = {}
"""File -> why it has lines above 100 columns."""
LONG_FUNCTIONS: dict[str, str] = {}
"""file:function -> why it has more lines, or more parameters."""


@functools.cache
def files() -> list[Path]:
    found = [*ROOT.glob("*.py"), *(p for p in ROOT.glob("[a-z]*/**/*.py"))]
    return sorted(
        p for p in found if p.relative_to(ROOT).parts[0] not in SKIPPED and "egg-info" not in str(p)
    )


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions() -> list[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    found = []
    for path in files():
        name = str(path.relative_to(ROOT))
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append((f"{name}:{node.name}", node.name, node))
    return found


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's statements, without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    a = node.args
    return len([*a.posonlyargs, *a.args, *a.kwonlyargs])


def parallel(node: ast.AST) -> bool:
    """Whether a statement assigns several values to several names, and does not swap."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    if not any(isinstance(t, ast.Tuple) for t in node.targets):
        return False
    (target, *_) = (t for t in node.targets if isinstance(t, ast.Tuple))
    left = sorted(map(ast.unparse, target.elts))
    return left != sorted(map(ast.unparse, node.value.elts))


def test_lines_have_at_most_100_columns():
    wide = {}
    for path in files():
        name = str(path.relative_to(ROOT))
        n = sum(len(line) > MOST_COLUMNS for line in path.read_text().splitlines())
        if n:
            wide[name] = n
    assert wide.keys() == LONG_LINES.keys(), wide


def test_the_mean_line_is_short():
    lines = [line for path in files() for line in path.read_text().splitlines() if line.strip()]
    assert sum(map(len, lines)) / len(lines) < MEAN_LINE


def test_parallel_assignment_is_rare():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files()
        for node in ast.walk(tree_of(path))
        if parallel(node)
    ]
    assert len(found) < MOST_PARALLEL, found


def test_functions_are_short():
    found = {
        key: n
        for key, name, node in functions()
        if (n := body_lines(node)) > (MOST_ELABORATE if name == "elaborate" else MOST_LINES)
        or parameters(node) > MOST_PARAMETERS
    }
    assert found.keys() == LONG_FUNCTIONS.keys(), found


def test_nothing_is_silenced_in_the_code():
    words = (
        "# no" + "qa",
        "# type: " + "ignore",
        "# pyright: " + "ignore",
        "# ruff: " + "no" + "qa",
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(word in line for word in words)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a, b = 1, 2", True),
        ("a, b = b, a", False),
        ("a, b = f()", False),
        ("x[0], x[1] = x[1], x[0]", False),
    ],
)
def test_a_swap_is_no_parallel_assignment(text, expected):
    assert parallel(ast.parse(text).body[0]) is expected
