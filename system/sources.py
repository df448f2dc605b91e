"""Dependencies of a result: the source files behind it, and one digest of their meaning.

1. A module's sources are its own file and all that it imports, again and again, within functions
   too. What only a type checker imports does not count, nor do installed packages: their versions
   stand beside a digest. Where a package loads its modules by name, all of its folder count.
2. A Python file counts by its syntax tree. Comments, docstrings and layout are not in it, and the
   name of an imported module is replaced by what that module says: a file that is moved, or renamed
   where it is imported, leaves the digest as it was.
3. Of C++, Verilog and TOML, comments and layout do not count either, nor does the `description` of
   a TOML file; of other files all bytes do.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import sys
import sysconfig
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cache import digest

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of this package."""

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\w+|[^\w\s]', re.S)
_UNSAID = ("ctx", "type_comment")


@dataclass(frozen=True)
class _Module:
    """A parsed Python file.

    Attributes
    ----------
    words
        What it says; a path stands for what the file there says.
    imports
        The files that it imports.
    """

    words: tuple[str | Path, ...]
    imports: frozenset[Path]


def sources_of(roots: Iterable[Any], without: Collection[Path] = ()) -> list[Path]:
    """These files, or the files of these classes, functions and modules, and, again and again, of
    what those import; sorted.

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
            todo |= {one for one in _imported(path) if counts(one)} - found
    return sorted(found)


def digest_of(files: Iterable[Path], unsaid: Collection[Path] = ()) -> str:
    """One digest of what files say, whatever their names and their order. ``unsaid``: files and
    folders that say nothing where a file imports them.
    """
    silent = frozenset(path.resolve() for path in unsaid)
    return digest(*sorted(_said(path, _time(path), silent) for path in files))


def _files(root: Any) -> Iterator[Path]:
    path = (root if isinstance(root, Path) else Path(inspect.getfile(root))).resolve()
    return path.rglob("*.py") if path.is_dir() else iter((path,))


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns


def _imported(path: Path) -> frozenset[Path]:
    return _module(path, _time(path)).imports


@functools.cache
def _said(path: Path, mtime_ns: int, silent: frozenset[Path] = frozenset()) -> str:
    """Digest of what a file says."""
    if path.suffix == ".py":
        return _digest(_word(w, silent) for w in _module(path, mtime_ns).words)
    if path.suffix == ".toml":
        told = tomllib.loads(path.read_text("utf-8"))
        told.pop("description", None)
        return digest(json.dumps(told, sort_keys=True))
    if path.suffix in (".cpp", ".h", ".sv", ".v"):
        words = _TOKEN.findall(path.read_text("utf-8"))
        return _digest(w for w in words if not w.startswith(("//", "/*")))
    return digest(path.read_bytes())


def _word(word: str | Path, silent: frozenset[Path]) -> str:
    if isinstance(word, str):
        return word
    return _alone(word, _time(word)) if silent.isdisjoint((word, *word.parents)) else "silent"


@functools.cache
def _alone(path: Path, mtime_ns: int) -> str:
    """Digest of what a Python file says, whatever it imports."""
    return _digest("own" if isinstance(w, Path) else w for w in _module(path, mtime_ns).words)


def _digest(words: Iterable[str]) -> str:
    return digest("\0".join(words))


@functools.cache
def _module(path: Path, _mtime_ns: int) -> _Module:
    reader = _Reader(path)
    reader.say(ast.parse(path.read_bytes()))
    found = {word for word in reader.words if isinstance(word, Path)}
    if "iter_modules" in reader.names or (
        path.name == "__init__.py" and "import_module" in reader.names
    ):
        found.update(one.resolve() for one in path.parent.glob("*.py"))
    return _Module(tuple(reader.words), frozenset(found))


class _Reader:
    """The syntax tree of a module as words, equal in every version of Python.

    Parameters
    ----------
    path
        Its file.
    """

    def __init__(self, path: Path):
        self.path = path
        self.words: list[str | Path] = []
        self.names: set[str] = set()
        self.modules: dict[str, Path] = {}

    def say(self, node: Any) -> None:
        """Add the words of a node, of a list of nodes, or of a plain value."""
        if isinstance(node, list):
            for one in node:
                if not (_is_text(one) or _is_for_types(one)):
                    self.say(one)
        elif isinstance(node, ast.Name):
            self.names.add(node.id)
            self.words.append(self.modules.get(node.id, f"={node.id}"))
        elif isinstance(node, ast.Constant):
            self.words.append(f"{type(node.value).__name__} {node.value!r}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self._module(alias, _file(alias.name, self.path), bound=bool(alias.asname))
        elif isinstance(node, ast.ImportFrom):
            self._from(node)
        elif isinstance(node, ast.AST):
            if isinstance(node, ast.Attribute):
                self.names.add(node.attr)
            self.words.append(f"({type(node).__name__}")
            for name in node._fields:
                value = getattr(node, name, None)
                if value is not None and value != [] and name not in _UNSAID:
                    self.words.append(name)
                    self.say(value)
            self.words.append(")")
        else:
            self.words.append(repr(node))

    def _from(self, node: ast.ImportFrom) -> None:
        """A package whose modules alone are imported has no part in it."""
        source = "." * node.level + (node.module or "")
        joint = "" if source.endswith(".") else "."
        package = _file(source, self.path)
        for alias in node.names:
            if file := _file(f"{source}{joint}{alias.name}", self.path):
                self._module(alias, file, bound=True)
            else:
                name = f"import {alias.name} {alias.asname or alias.name}"
                self.words += [name, source if package in (None, self.path) else package]

    def _module(self, alias: ast.alias, file: Path | None, bound: bool) -> None:
        """A module that is imported; ``bound``: by a name of its own."""
        name = alias.asname or alias.name
        if file is None or file == self.path:
            self.words.append(f"import {alias.name} {name}")
        else:
            self.words += ["import", file]
            if bound:
                self.modules[name] = file


def _is_text(node: Any) -> bool:
    """True if a statement is a string alone: a docstring, of a module or of what stands above."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_for_types(node: Any) -> bool:
    """True if only a type checker reads a statement."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


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
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if loaded is None or _is_installed(loaded):
        return None
    found = getattr(sys.modules.get(name), "__file__", None)
    return Path(found).resolve() if found and found.endswith(".py") else None


@functools.cache
def _installed() -> tuple[Path, ...]:
    """Folders of the standard library and of installed packages."""
    paths = sysconfig.get_paths()
    return tuple(
        {Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    )


@functools.cache
def _is_installed(path: str) -> bool:
    return any(Path(path).resolve().is_relative_to(folder) for folder in _installed())


def _within(folder: Path, name: str) -> Path | None:
    """The file of the module ``name`` in a folder, if there is one."""
    base = folder / name.replace(".", "/")
    if name and (file := base.parent / f"{base.name}.py").is_file():
        return file.resolve()
    file = base / "__init__.py"
    return file.resolve() if file.is_file() else None
