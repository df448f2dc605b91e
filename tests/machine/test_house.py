"""The house: functions of a size that can be read (docs/contributing.md); lines, parameters and
branches are the linter's.
"""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES = 80
MOST_ELABORATE = 60
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
    """Whether a file names a folder above the repository, from its own place."""
    most = len(path.parts) - 1
    climbs = re.findall(r"\b__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]", text)
    return any(int(n) > most for n in climbs) or "ROOT.parent" in text


def test_nothing_is_looked_for_beside_the_repository():
    """Inputs that do not ship are where PENSTOCK_DATA says (docs/contributing.md).

    Children are given the folder from which this package is imported.
    """
    named = {Path(__file__), ROOT / "system" / "children.py"}
    others = [p for p in files() if p not in named]
    assert [p for p in others if climbs_out(p.relative_to(ROOT), p.read_text())] == []
    assert climbs_out(Path("tests/a/b.py"), 'Path(__file__).parents[3] / "data"')
    assert not climbs_out(Path("tests/a/b.py"), "Path(__file__).parents[2]")
