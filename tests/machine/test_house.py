"""The house: functions of a size that can be read
(docs/contributing.md); lines, parameters and branches are the linter's.
"""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 80
MOST_ELABORATE = 60
MEAN_LINE = 40
MOST_PARALLEL = 60
MOST_NESTED = 42
SKIPPED = {"out", "build", "dist"}
LONG_FUNCTIONS: set[str] = set()
"""file:function that is still to be cut."""
SILENCED: set[str] = set()
"""Files that still silence the linter or the type checker by a comment."""


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
                found += [(f"{name}:{node.name}", node.name, node)]
    return found


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's statements, without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def parallel(node: ast.AST) -> bool:
    """Whether a statement assigns several values to several names, and
    does not swap.
    """
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    if not any(isinstance(t, ast.Tuple) for t in node.targets):
        return False
    (target, *_) = (t for t in node.targets if isinstance(t, ast.Tuple))
    left = sorted(map(ast.unparse, target.elts))
    return left != sorted(map(ast.unparse, node.value.elts))


def places(meant):
    """Where the product has what is meant, file and line."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files()
        for node in ast.walk(tree_of(path))
        if meant(node)
    ]


def test_the_mean_line_is_short():
    lines = [line for path in files() for line in path.read_text().splitlines() if line.strip()]
    assert sum(map(len, lines)) / len(lines) < MEAN_LINE


def test_parallel_assignment_is_rare():
    found = places(parallel)
    assert len(found) < MOST_PARALLEL, found


def nested(node: ast.AST) -> bool:
    """Whether a conditional expression has another in one of its
    parts.
    """
    parts = (node.body, node.test, node.orelse) if isinstance(node, ast.IfExp) else ()
    return any(isinstance(part, ast.IfExp) for part in parts)


def test_a_conditional_expression_rarely_has_another():
    found = places(nested)
    assert len(found) < MOST_NESTED, found


def test_functions_are_short():
    found = {
        key: n
        for key, name, node in functions()
        if (n := body_lines(node)) > (MOST_ELABORATE if name == "elaborate" else MOST_LINES)
    }
    assert found.keys() == LONG_FUNCTIONS, found


def test_nothing_is_silenced_in_the_code():
    words = (
        "# no" + "qa",
        "# type: " + "ignore",
        "# pyright: " + "ignore",
        "# ruff: " + "no" + "qa",
    )
    found = {
        str(path.relative_to(ROOT))
        for path in files()
        if any(word in path.read_text() for word in words)
    }
    assert found == SILENCED


def climbs_out(path: Path, text: str) -> bool:
    """Whether a file names a folder above the repository, from its own
    place.
    """
    most = len(path.parts) - 1
    climbs = re.findall(r"\b__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]", text)
    return any(int(n) > most for n in climbs) or "ROOT.parent" in text


def test_nothing_is_looked_for_beside_the_repository():
    """Inputs that do not ship are where PENSTOCK_DATA says
    (docs/contributing.md).
    """
    mine = Path(__file__)
    found = [p for p in files() if p != mine and climbs_out(p.relative_to(ROOT), p.read_text())]
    assert found == []
    assert climbs_out(Path("tests/a/b.py"), 'Path(__file__).parents[3] / "data"')
    assert not climbs_out(Path("tests/a/b.py"), "Path(__file__).parents[2]")


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x if a else y if b else z", True), ("x if a else y", False), ("x if a else f(y)", False)],
)
def test_a_nested_conditional_expression_is_found(text, expected):
    assert nested(ast.parse(text, mode="eval").body) is expected
