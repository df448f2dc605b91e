"""The house: who may import whom (docs/architecture.md)."""

import ast
import functools
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
SLOW = {
    *("amaranth", "amaranth_boards", "cocotb", "distributed", "highspy", "importlib.metadata"),
    *("matplotlib", "ml_dtypes", "mtkahypar", "networkx", "numba", "numpy", "pymetis", "pyosys"),
    *("rich", "scipy", "serial", "submitit", "suitesparse_amd", "sympy", "zipfile"),
}
"""Libraries that take a user 10 ms or more to load."""
MANY = 3
"""Modules of ours that take as long."""
DELAYED: dict = {("tb",): ("tb", "api"), ("model",): ("model", "simulate")}
"""Packages that load a module when a name of it is asked for."""
INNER = {"hw/arith": {"machine", "hw/arith", "hw/export/module_key", "hw/export/place", "hw/ram"}}
"""The same for a room within a room: prefixes of all that it may import."""


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


@pytest.mark.parametrize("room", INNER)
def test_inner_rooms_import_only_what_they_may(room):
    wrong = {}
    for path in (p for p in FILES if p.is_relative_to(ROOT / room)):
        extra = {"/".join(m) for m in imports_of(path, ast.walk)}
        extra = {m for m in extra if not any(f"{m}/".startswith(f"{p}/") for p in INNER[room])}
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


def test_every_import_leads_to_a_file():
    wrong = []
    for path in FILES:
        wrong += [
            f"{path.relative_to(ROOT)}: {'.'.join(m)}" for m in imports_of(path) if not is_module(m)
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


def libraries(node: ast.AST) -> set[str]:
    """Slow libraries that one statement imports."""
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names.append(node.module)
    return {slow for slow in SLOW for name in names if f"{name}.".startswith(f"{slow}.")}


@functools.cache
def graph_of_loads() -> nx.DiGraph:
    """Module -> modules and slow libraries that it loads at its top, and the packages it is in."""
    graph = nx.DiGraph()
    for path in FILES:
        name = name_of(path)
        top = list(ast.iter_child_nodes(tree_of(path)))
        graph.add_edges_from((name, m) for m in imports_of(path, ast.iter_child_nodes) if m != name)
        graph.add_edges_from((name, lib) for node in top for lib in libraries(node))
        graph.add_edges_from((name, name[:k]) for k in range(1, len(name)))
    return graph


def loaded(name: tuple[str, ...]) -> set:
    """Modules that a module loads, itself and libraries included."""
    graph = graph_of_loads()
    return {name, *(nx.descendants(graph, name) if name in graph else ())}


def gains(path: Path, node: ast.AST) -> bool:
    """True if a user who does not come to an import in a function is spared a slow library, or many
    modules.
    """
    here = loaded(name_of(path))
    spared = set(libraries(node))
    if isinstance(node, ast.ImportFrom) and node.level:
        package = package_of(path)
        base = package[: len(package) - node.level + 1]
        base += tuple(node.module.split(".")) if node.module else ()
        inner = {(*base, a.name) if is_module((*base, a.name)) else base for a in node.names}
        spared = set().union(*(loaded(DELAYED.get(m, m)) for m in inner))
    spared -= here
    return bool(spared & SLOW) or len(spared) >= MANY


def test_an_import_in_a_function_spares_a_user_time():
    wrong = []
    for path in FILES:
        top = set(ast.iter_child_nodes(tree_of(path)))
        inner = (n for n in runtime_nodes(tree_of(path)) if n not in top)
        wrong += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
            for node in inner
            if isinstance(node, ast.Import | ast.ImportFrom) and not gains(path, node)
        ]
    assert wrong == [], "\n".join(wrong)


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
    """Loading it takes longer than a short run."""
    assert "numba" not in loaded(("tb", bench))


def test_no_circle_among_modules():
    graph = graph_of_imports()
    circles = [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]
    assert circles == []


def test_the_root_imports_nothing_of_its_own():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    ours = [
        ast.unparse(n)
        for n in ast.iter_child_nodes(tree)
        if isinstance(n, ast.ImportFrom) and (n.level or "penstock" in (n.module or ""))
    ]
    assert ours == []
