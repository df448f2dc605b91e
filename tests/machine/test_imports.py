"""The house: who may import whom (docs/architecture.md)."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
CORE = "overlay/core"
BASE = {"system", "machine", CORE}
OVERLAY = {CORE, "overlay/graphs", "overlay/model"}
SIDES = BASE | OVERLAY | {"frontend", "model", "hw", "scheduler"}
BENCHES = SIDES | {"workloads"}
RUNS = BENCHES | {"tb", "testing", "overlay/tb", "runs"}
STUDIES = RUNS | {"board", "overlay/runs"}
ALLOWED = {
    "system": set(),
    "machine": {"system", "sim_configs"},  # presets: data
    CORE: {"system", "machine"},
    "frontend": BASE,
    "overlay/graphs": BASE | {"frontend"},
    "overlay/model": BASE | {"model", "overlay/graphs"},
    "model": BASE,
    "hw": BASE,
    "scheduler": BASE | {"frontend", "overlay/graphs", "overlay/model"},
    "workloads": SIDES,
    "tb": SIDES | {"testing"},
    "overlay/tb": SIDES | {"tb"},
    "testing": SIDES,
    "runs": BENCHES | {"tb", "testing"},
    "figures": BENCHES | {"tb", "testing", "runs"},
    "fuzz": BENCHES | {"tb", "testing", "runs"},
    "board": BENCHES | {"tb", "runs"},
    "overlay": {"overlay/runs"},  # the public names
    "overlay/runs": RUNS | {"board"},
    "overlay/studies": STUDIES,
    "overlay/commands": STUDIES | {"overlay/studies", "cli"},
    "step": BASE | {"frontend", "model", "runs"},
    "layers": BASE | {"frontend", "model", "runs"},
    "cli": STUDIES
    | {"step", "layers", "figures", "fuzz", "overlay/studies", "overlay/commands", "samples"},
    "samples": BASE,
    "sim_configs": set(),
}
"""Room -> rooms that it may import besides itself."""


def is_module_file(path: Path) -> bool:
    """True if every folder down to it is a package; other files are data (samples/files), or tests
    (tb).
    """
    if path.name.startswith("test_") or path.name == "conftest.py":
        return False
    folders = [f for f in path.parents if ROOT in f.parents]
    return path.suffix == ".py" and all((f / "__init__.py").is_file() for f in folders)


FILES = sorted({p for room in ALLOWED for p in (ROOT / room).rglob("*.py") if is_module_file(p)})


def room_of(module: tuple[str, ...]) -> str:
    """The room of a module's path; rooms in the overlay's have rules of their own."""
    inner = "/".join(module[:2])
    return inner if inner in ALLOWED else module[0]


def package_of(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT).parts[:-1]


def is_module(parts: tuple[str, ...]) -> bool:
    base = ROOT.joinpath(*parts)
    return (base / "__init__.py").is_file() or (bool(parts) and base.with_suffix(".py").is_file())


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def runtime_nodes(tree: ast.AST):
    """All nodes but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        yield from runtime_nodes(node)


def imports_of(path: Path, nodes=runtime_nodes) -> set[tuple[str, ...]]:
    """Modules of this package that a module imports in these nodes, as paths from the root."""
    package = package_of(path)
    found = set()
    for node in nodes(tree_of(path)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package[: len(package) - node.level + 1]
        base += tuple(node.module.split(".")) if node.module else ()
        for name in node.names:
            found.add((*base, name.name) if is_module((*base, name.name)) else base)
    return found


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_what_they_may(room):
    """Types that only a checker reads count, too."""
    wrong = {}
    for path in (p for p in FILES if room_of(name_of(p)) == room):
        extra = {room_of(m) for m in imports_of(path, ast.walk) if m} - ALLOWED[room] - {room}
        if extra:
            wrong[str(path.relative_to(ROOT))] = extra
    assert wrong == {}


def test_every_room_has_a_rule():
    rooms = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    rooms |= {f"overlay/{p.parent.name}" for p in (ROOT / "overlay").glob("*/__init__.py")}
    assert rooms == set(ALLOWED)


def test_imports_between_rooms_are_relative():
    """An absolute import of the package would be found in an installation only, or another."""
    wrong = []
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            wrong += [
                f"{path.relative_to(ROOT)}:{node.lineno}"
                for n in names
                if n.split(".")[0] == "penstock"
            ]
    assert wrong == [], "\n".join(wrong)


def graph_of_imports() -> nx.DiGraph:
    """Module -> modules that it imports, in functions, too; not those for the type checker."""
    graph = nx.DiGraph()
    for path in FILES:
        name = name_of(path)
        graph.add_edges_from((".".join(name), ".".join(m)) for m in imports_of(path) if m != name)
    return graph


def name_of(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def test_private_names_of_libraries_are_imported_in_one_module_each():
    found = {}
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                if any(n.startswith("_") and not n.endswith("_") for n in names):
                    found.setdefault(names[0], set()).add(str(path.relative_to(ROOT)))
    assert found == {"amaranth": {"hw/export/internals.py"}}


@pytest.mark.parametrize("bench", ["fabric_test", "parts_test"])
def test_a_simulator_does_not_load_numba(bench):
    """Loading it takes longer than a short run. A bench ends where it looks for its job."""
    code = f"import contextlib, sys\nwith contextlib.suppress(KeyError): import penstock.tb.{bench}"
    code += "\nsys.exit('numba' in sys.modules or 'numpy' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_no_circle_among_modules():
    graph = graph_of_imports()
    circles = [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]
    assert circles == []
