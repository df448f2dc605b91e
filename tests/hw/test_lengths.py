"""Functions of the hardware stay short, without an exception."""

import ast
from pathlib import Path

import pytest
from penstock import hw

ELABORATE = 60  # lines
FUNCTION = 80  # lines
SOURCES = sorted(Path(hw.__path__[0]).rglob("*.py"))


def lengths(source):
    """Lines of each function, by name."""
    return [
        (node.name, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_functions_are_short(path):
    long = [
        (name, lines)
        for name, lines in lengths(path.read_text())
        if lines > (ELABORATE if name == "elaborate" else FUNCTION)
    ]
    assert long == []


def test_a_long_function_is_found():
    body = "    x = 1\n" * ELABORATE
    assert lengths(f"def elaborate(self):\n{body}") == [("elaborate", ELABORATE + 1)]
