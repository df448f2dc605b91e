"""Schedule of an imported layer: how it is tiled and spread, apart from its meaning."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from math import gcd
from pathlib import Path
from typing import Any

from ..machine.errors import ProgramError, nearest
from ..system.reading import read_text

KEYS = {
    "rows": "tokens of a tile; 0: all of a sequence, or, where each has one, all of the batch",
    "kv_tile": "rows of a tile of a cache",
    "columns": "results that one tile of the weight makes; 0: all",
    "inner": "summands of a tile of the weight; 0: all",
    "tile_rows": "rows of an expert's tiles; 0: all that the run sends it (weights whole)",
    "regions": "experts take turns in so many regions; 0: each has its own",
}
"""Keys of a schedule, and their meaning."""
WHOLE = ("rows", "kv_tile")
"""Keys of the layer as a whole; the others are a module's."""
EXPERTS = ("tile_rows", "regions")
"""Keys of experts; the others of a module are those of its products."""
MOST = 4096
"""Elements of a weight that a product takes whole, unless its schedule says otherwise."""
DEFAULTS = {"rows": 0, "kv_tile": 16, "columns": 0, "inner": 0, "tile_rows": 0, "regions": 0}


class Schedule:
    """Settings of the whole layer, and of modules by their paths in the archive."""

    def __init__(self, settings: dict[str, Any], where: str):
        self.settings = settings
        self.where = where
        self._check("", {k: v for k, v in settings.items() if not isinstance(v, dict)}, WHOLE)
        known = [k for k in KEYS if k not in WHOLE]
        for module, table in settings.items():
            if isinstance(table, dict):
                self._check(f": {module}", table, known)

    def _check(self, module: str, table: dict[str, Any], known: Any) -> None:
        for key, value in table.items():
            if key not in known:
                raise ProgramError(
                    f"unknown key {key!r}", f"{self.where}{module}", remedy=nearest(key, known)
                )
            least = int(key == "kv_tile")
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ProgramError(
                    f"{key} must be an integer of at least {least}, not {value!r}",
                    f"{self.where}{module}",
                )

    def check_modules(
        self, modules: Collection[str], products: Collection[str], experts: Collection[str]
    ) -> None:
        """Raise for a table of no module, or a key for what a module does not have."""
        for module, table in self.settings.items():
            if not isinstance(table, dict):
                continue
            for key in table:
                of, have = ("experts", experts) if key in EXPERTS else ("products", products)
                if module in modules and module not in have:
                    raise ProgramError(
                        f"{key} is for {of}", f"{self.where}: {module}", remedy="leave it out"
                    )
            if module not in modules:
                raise ProgramError(
                    f"no module {module!r}", self.where, remedy=nearest(module, sorted(modules))
                )

    def whole(self, key: str) -> int:
        return self.settings.get(key, DEFAULTS[key])

    def linear(self, module: str) -> dict[str, int]:
        """Settings of a product, as the block's arguments."""
        return self._of(module, ("columns", "inner"))

    def experts(self, module: str) -> dict[str, int]:
        """Settings of experts, as the block's arguments."""
        return self._of(module, EXPERTS)

    def _of(self, module: str, keys: tuple[str, ...]) -> dict[str, int]:
        return {k: v for k, v in self.settings.get(module, {}).items() if k in keys}


def products(sizes: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Settings of products of so many results and summands: tiles fit a small scratchpad."""
    outs, summands = (gcd(*n) for n in zip(*sizes, strict=True))
    if all(out * k <= MOST for out, k in sizes):
        return {"columns": 0, "inner": 0}
    return {"columns": _divisor(outs, 32), "inner": _divisor(summands, MOST // 32)}


def _divisor(n: int, most: int) -> int:
    return next(d for d in range(min(n, most), 0, -1) if n % d == 0)


def read(path: Path) -> Schedule:
    """The schedule of a program; defaults where there is no file."""
    if not path.is_file():
        return Schedule({}, path.name)
    try:
        return Schedule(tomllib.loads(read_text(path)), path.name)
    except tomllib.TOMLDecodeError as e:
        raise ProgramError(f"is no TOML: {e}", str(path)) from None


def text(name: str, modules: dict[str, dict[str, int]]) -> str:
    """A schedule with comments; ``modules``: the settings of each."""
    lines = [f"# Schedule of {name}: read at each run."]
    lines += [f"{key} = {DEFAULTS[key]}  # {KEYS[key]}" for key in WHOLE]
    explained: set[str] = set()
    for module, settings in modules.items():
        lines += ["", f'["{module}"]']
        for key, value in settings.items():
            note = "" if key in explained else f"  # {KEYS[key]}"
            explained.add(key)
            lines.append(f"{key} = {value}{note}")
    return "\n".join(lines) + "\n"
