"""Files that a command reads: text in UTF-8, and JSON with nothing in it that would be dropped.

JSON is refused where it is damaged, where a field is given twice, where a number has more digits
than 64 bits hold, and where it is nested more deeply than anything that is stored.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from .errors import PenstockError, nearest

if TYPE_CHECKING:
    import numpy as np

MOST_BYTES = 1 << 28
"""Bytes of a file that is read as a whole."""
MOST_DEPTH = 64
"""Lists and objects within each other."""
MOST_INTEGER = (1 << 63) - 1
"""Magnitude of an integer."""
MAX_MEMORY = "PENSTOCK_MAX_MEMORY"
"""Environment variable of `most_memory` in bytes, as ``--max-memory`` sets it."""
_MOST_DIGITS = len(str(MOST_INTEGER))


def read_text(path: str | Path) -> str:
    """The text of a file.

    Raises
    ------
    PenstockError
        It is not there, cannot be read, is larger than `MOST_BYTES` or is not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise PenstockError(f"no such file: {path}") from None
    except (OSError, ValueError) as e:
        raise PenstockError(f"cannot read {path}: {getattr(e, 'strerror', None) or e}") from None
    if len(data) > MOST_BYTES:
        raise PenstockError(f"is larger than {MOST_BYTES >> 20} MiB", str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise PenstockError(f"not a UTF-8 text file (byte {e.start})", str(path)) from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """The value that a JSON file holds.

    Raises
    ------
    PenstockError
        What :func:`read_text` raises, and JSON that is refused, with its line and column where they
        are known.
    """
    where = os.fspath(path)
    return parse_json(read_text(where), where)


def parse_json(text: str, where: str) -> Any:
    """The value that a text of JSON from ``where`` holds; raises as :func:`read_json` does."""
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_int=_integer)
    except json.JSONDecodeError as e:
        at = f"{where}, line {e.lineno} column {e.colno}"
        raise PenstockError(f"not valid JSON: {e.msg}", at) from None
    except _RefusedError as e:
        raise PenstockError(str(e), where) from None
    except RecursionError:
        raise _deep(where) from None
    _check_depth(value, where)
    return value


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """True if what was read is an object of JSON, or a table of TOML."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """True if what was read is a list."""
    return isinstance(value, list)


def most_memory(path: str | Path) -> int:
    """Bytes that what a compressed file holds may take: 64 times its own, and 2 GB."""
    raised = os.environ.get(MAX_MEMORY)
    return int(raised) if raised else min(64 * os.stat(path).st_size, 2_000_000_000)


def too_large(path: str | Path) -> PenstockError:
    """The error of what takes more than `most_memory`."""
    return PenstockError(
        f"takes more than {most_memory(path):,} bytes in memory",
        str(path),
        "64 times the file and 2 GB at most",
        "--max-memory GB sets another limit, if the file is to be trusted",
    )


def read_bytes(path: str | Path) -> bytes:
    """The content of a file, decompressed where its name ends with .gz; `too_large` is raised."""
    compressed = Path(path).suffix == ".gz"
    most = most_memory(path)
    with gzip.open(path) if compressed else open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise too_large(path)
    return data


def _loaded(path: str | Path, remedy: str, member: str | None = None) -> Any:
    """Arrays of an .npy or .npz file, or a member of it; nothing pickled is opened."""
    import zipfile

    import numpy as np

    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if sum(part.file_size for part in archive.infolist()) > most_memory(path):
                    raise too_large(path)
        found = np.load(path)
        if isinstance(found, np.ndarray):
            return found
        with found:
            if member is not None and member not in found:
                held = ", ".join(found) or "none"
                raise PenstockError(f"has no array {member!r}", str(path), remedy=f"it has {held}")
            return dict(found) if member is None else found[member]
    except FileNotFoundError:
        raise PenstockError(f"no such file: {path}") from None
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        IndexError,
        SyntaxError,
        MemoryError,
        zipfile.BadZipFile,
    ) as e:
        said = "it is no array of NumPy" if "pickle" in str(e) else e  # numpy proposes to trust it
        raise PenstockError(f"cannot be read: {said}", str(path), remedy=remedy) from None


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; PenstockError for a file that is none, or is damaged."""
    remedy = "give an .npz file of arrays"
    found = _loaded(path, remedy)
    if not isinstance(found, dict):
        raise PenstockError("holds one array without a name", str(path), remedy=remedy)
    return found


def read_integers(path: str | Path, member: str | None = None) -> np.ndarray:
    """int64 of an .npy file, or of a ``member`` of an .npz file.

    Raises PenstockError for a file that is not there or is damaged, and for anything but integers
    from 0 to `MOST_INTEGER`.
    """
    import numpy as np

    kind = ".npy" if member is None else ".npz"
    found = _loaded(path, f"give an {kind} file of integers", member)
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu":
        raise PenstockError("holds no integers", str(path))
    if found.size and (found.min() < 0 or found.max() > MOST_INTEGER):
        raise PenstockError(f"integers must be from 0 to {MOST_INTEGER}", str(path))
    return found.astype(np.int64)


def check_fields(
    given: Mapping[str, object], known: Collection[str], where: str, required: Collection[str] = ()
) -> None:
    """Raise PenstockError for a field that is not known, and for one that is missing."""
    for name in given:
        if name not in known:
            raise PenstockError(f"unknown field {name!r}", where, remedy=nearest(name, known))
    for name in required:
        if name not in given:
            raise PenstockError(f"field {name!r} is missing", where)


class _RefusedError(Exception):
    """Refusal by a hook of the JSON decoder."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))
        raise _RefusedError(f"field {twice[:40]!r} is given twice")
    return out


def _integer(text: str) -> int:
    if len(text) <= _MOST_DIGITS + 1 and abs(value := int(text)) <= MOST_INTEGER:
        return value
    shown = text if len(text) <= 24 else f"{text[:20]}... ({len(text)} digits)"
    raise _RefusedError(f"integers are at most {MOST_INTEGER} in magnitude, not {shown}")


def _check_depth(value: Any, where: str) -> None:
    level = [value]
    depth = 0
    while level:
        if depth == MOST_DEPTH:
            raise _deep(where)
        depth += 1
        inner = [
            x.values() if isinstance(x, dict) else x for x in level if isinstance(x, (dict, list))
        ]
        level = [x for values in inner for x in values if isinstance(x, (dict, list))]


def _deep(where: str) -> PenstockError:
    return PenstockError(f"lists and objects are more than {MOST_DEPTH} deep", where)
