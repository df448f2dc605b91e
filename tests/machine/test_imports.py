"""The layers: who may import whom (docs/architecture.md)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "machine": {"machine"},
    "frontend": {"machine", "frontend"},
    "model": {"machine", "model"},
    "hw": {"machine", "hw"},
    "scheduler": {"machine", "frontend", "scheduler"},
}


def imports_of(path: Path) -> set[str]:
    """Layers of penstock that a module imports (absolute, or relative beyond its own layer)."""
    depth = len(path.relative_to(ROOT).parts) - 1
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level > depth:
                found.add((node.module or node.names[0].name).split(".")[0])
            elif node.level == 0 and node.module and node.module.split(".")[0] == "penstock":
                found |= {node.module.split(".")[1]} if "." in node.module else {a.name for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("penstock.")}
    return found


@pytest.mark.parametrize("layer", ALLOWED)
def test_layers_import_only_what_they_may(layer):
    wrong = {}
    for path in (ROOT / layer).rglob("*.py"):
        # A preset's folder is data, not a layer.
        extra = imports_of(path) - ALLOWED[layer] - {"sim_configs"}
        if extra:
            wrong[str(path.relative_to(ROOT))] = extra
    assert wrong == {}


def test_every_package_is_listed_for_the_wheel():
    import tomllib

    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed = set(tools["packages"])
    layers = {v: k for k, v in tools["package-dir"].items()}
    for layer, name in layers.items():
        for init in (ROOT / layer).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT / layer).parts
            assert ".".join((name, *parts)) in listed
