"""Dependencies of a result: the source files behind it, and one digest of what they say.

1. A module's sources are its own file and all that it imports, again and again, within functions
   too. What only a type checker imports does not count, nor do installed packages: their versions
   stand beside a digest. Where a package loads its modules by name, all of its folder count.
2. Comments, docstrings and layout of Python files are not in a digest; of other files all is.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import json
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from .cache import cache_dir, digest
from .output import write_text

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of this package."""
_UNSAID = ("ctx", "kind", "type_comment", "type_ignores", "type_params")


def sources_of(roots: Iterable[Any], without: Collection[Path] = ()) -> list[Path]:
    """Source files of classes, functions and modules, and of all that these import, directly or
    not; sorted.

    Parameters
    ----------
    roots
        Files, folders (all Python files in them, at any depth), or what is defined in a file.
    without
        Files and folders that are left out with all that only they import.
    """
    left_out = {path.resolve() for path in without}

    def counts(path: Path) -> bool:
        return left_out.isdisjoint((path, *path.parents))

    todo = {path for root in roots for path in _files(root) if counts(path)}
    found: set[Path] = set()
    while todo:
        path = todo.pop()
        found.add(path)
        if path.suffix == ".py":
            todo |= {one for one in _parsed(path, _time(path))[1] if counts(one)} - found
    _facts().keep()
    return sorted(found)


def digest_of(files: Iterable[Path]) -> str:
    """One digest of what files say, whatever their order."""
    return digest(*(_said(path, _time(path)) for path in sorted(files)))


def _files(root: Any) -> Iterator[Path]:
    path = (root if isinstance(root, Path) else Path(inspect.getfile(root))).resolve()
    return path.rglob("*.py") if path.is_dir() else iter((path,))


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns


def _said(path: Path, mtime_ns: int) -> str:
    return _parsed(path, mtime_ns)[0] if path.suffix == ".py" else digest(path.read_bytes())


@functools.cache
def _parsed(path: Path, _mtime_ns: int) -> tuple[str, frozenset[Path]]:
    """Digest of what a Python file says, and the files that it imports."""
    content = path.read_bytes()
    said, imports, names = _facts().of(digest(content), content)
    found = {file for level, name in imports if (file := _imported(level, name, path))}
    package = path.name == "__init__.py"
    if "iter_modules" in names or (package and "import_module" in names):
        found.update(one.resolve() for one in path.parent.glob("*.py"))
    return said, frozenset(found - {path})


Facts = tuple[str, list[tuple[str, str]], list[str]]
"""Digest of a text, its imports (package of ``from``, or nothing; name), loaders that it names."""


class _Store:
    """Facts of Python texts by their content, on disk: reading 200 files takes a second."""

    MOST = 4000
    """Texts, from which on those that a process has not met go."""

    def __init__(self) -> None:
        rules = digest(Path(__file__).read_bytes(), sys.version)
        self.path = cache_dir() / f"sources-{rules}.json"
        try:
            self.known = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none, or half of one
            self.known = {}
        self.met: dict[str, Facts] = {}
        self.stored = True

    def of(self, key: str, content: bytes) -> Facts:
        """Facts of a text."""
        if key not in self.met:
            self.stored &= key in self.known
            self.met[key] = self.known[key] if key in self.known else _read(content)
        return self.met[key]

    def keep(self) -> None:
        """Write what is new; a cache that can only be read serves as well."""
        if not self.stored:
            more = self.known if len(self.known) < self.MOST else {}
            with contextlib.suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_text(self.path, json.dumps(more | self.met))
            self.stored = True


@functools.cache
def _facts() -> _Store:
    return _Store()


def _read(content: bytes) -> Facts:
    """Facts of a Python text."""
    words: list[str] = []
    imports: list[tuple[str, str]] = []
    names: set[str] = set()

    def say(node: Any) -> None:
        if isinstance(node, list):
            words.append("[")
            for one in node:
                if not _is_silent(one):
                    say(one)
            words.append("]")
        elif isinstance(node, ast.AST):
            words.append(type(node).__name__)
            if isinstance(node, ast.Import):
                imports.extend(("", alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                imports.extend((source, alias.name) for alias in node.names)
            elif isinstance(node, ast.Name | ast.Attribute):
                names.add(node.id if isinstance(node, ast.Name) else node.attr)
            for name in node._fields:
                if name not in _UNSAID:
                    say(getattr(node, name, None))
        else:
            words.append(repr(node))

    say(ast.parse(content))
    loaders = sorted(names & {"iter_modules", "import_module"})
    return digest("\0".join(words)), imports, loaders


def _is_silent(node: Any) -> bool:
    """True for a docstring, and for what only a type checker reads."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _imported(source: str, name: str, path: Path) -> Path | None:
    """The module that a statement imports; a package of which modules alone are taken is not
    one.
    """
    if not source:
        return _file(name, path)
    joint = "" if source.endswith(".") else "."
    return _file(f"{source}{joint}{name}", path) or _file(source, path)


def _file(name: str, importer: Path) -> Path | None:
    """The file of a module as a file imports it; None for one that is installed, and for what is no
    module.
    """
    if name.startswith("."):
        rest = name.lstrip(".")
        return _within(importer.parents[len(name) - len(rest) - 1], rest)
    if f"{name}.".startswith("penstock."):
        return _within(PACKAGE, name.removeprefix("penstock").lstrip("."))
    top = name.partition(".")[0]
    if not top or top in sys.stdlib_module_names:
        return None
    if beside := _within(importer.parent, name):
        return beside
    loaded = getattr(sys.modules.get(name), "__file__", None)
    return Path(loaded).resolve() if loaded and not _is_installed(loaded) else None


@functools.cache
def _is_installed(path: str) -> bool:
    """True for a file of the standard library or of an installed package."""
    known = sysconfig.get_paths()
    folders = {Path(known[name]).resolve() for name in ("stdlib", "platstdlib", "purelib")}
    folders.add(Path(known["platlib"]).resolve())
    file = Path(path).resolve()
    return file.suffix != ".py" or any(file.is_relative_to(folder) for folder in folders)


def _within(folder: Path, name: str) -> Path | None:
    """The file of the module ``name`` in a folder, if there is one."""
    base = folder / name.replace(".", "/")
    for file in (base.parent / f"{base.name}.py", base / "__init__.py"):
        if file.is_file() and (name or file.name == "__init__.py"):
            return file.resolve()
    return None
