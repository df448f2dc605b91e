"""The source files that shape a module: a class's own file, and all that it imports, outside of
installed packages.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["sources_of"]

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]+)|import[ \t]+([^\n#;]+))",
    re.M,
)


@functools.cache
def _own() -> dict[str, Path]:
    """The folder of this package, by its name."""
    return {"penstock": Path(__file__).resolve().parents[1]}


@functools.cache
def _installed() -> tuple[str, ...]:
    """Folders of the standard library and of installed packages, whose versions are keys of their
    own.
    """
    paths = sysconfig.get_paths()
    return tuple(
        {
            str(Path(paths[name]).resolve())
            for name in ("stdlib", "platstdlib", "purelib", "platlib")
        }
    )


def sources_of(roots: Iterable[Any]) -> list[Path]:
    """These files, or the files of these classes, functions and modules, and, again and again, of
    what those import; sorted.

    What is imported within a function counts, too. Installed packages do not, Penstock itself
    apart.
    """
    todo = {
        (one if isinstance(one, Path) else Path(inspect.getfile(one))).resolve() for one in roots
    }
    found: set[Path] = set()
    while todo:
        path = todo.pop()
        found.add(path)
        todo |= _imported(path, path.stat().st_mtime_ns) - found
    return sorted(found)


@functools.cache
def _imported(path: Path, _mtime_ns: int) -> frozenset[Path]:
    """Files that a file's import statements name."""
    names: set[str] = set()
    for source, things, plain in _IMPORT.findall(path.read_text(encoding="utf-8")):
        for word in re.sub(r"[()\\]", " ", plain or things).split(","):
            name = word.split()[0] if word.split() else ""
            if plain:
                names.add(name)
            elif name:
                names |= {source, f"{source}{'' if source.endswith('.') else '.'}{name}"}
    return frozenset(f for name in names if (f := _file(name, path)) is not None and f != path)


def _file(name: str, importer: Path) -> Path | None:
    """The file of a module as a file imports it; None for one that is installed, and for what is no
    module.
    """
    if name.startswith("."):
        rest = name.lstrip(".")
        return _module(importer.parents[len(name) - len(rest) - 1], rest)
    for package, folder in _own().items():
        if f"{name}.".startswith(f"{package}."):
            return _module(folder, name[len(package) + 1 :])
    top = name.partition(".")[0]
    if not top or top in sys.stdlib_module_names:
        return None
    if beside := _module(importer.parent, name):
        return beside
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if loaded is None or _is_installed(loaded):
        return None
    found = getattr(sys.modules.get(name), "__file__", None)
    return Path(found).resolve() if found and found.endswith(".py") else None


@functools.cache
def _is_installed(path: str) -> bool:
    return any(Path(path).resolve().is_relative_to(folder) for folder in _installed())


@functools.cache
def _module(folder: Path, name: str) -> Path | None:
    """The file of the module ``name`` in a folder, if there is one."""
    base = folder / name.replace(".", "/")
    if name and (file := base.parent / f"{base.name}.py").is_file():
        return file.resolve()
    file = base / "__init__.py"
    return file.resolve() if file.is_file() else None
