"""Cache of built files: simulators, exported Verilog, libraries, synthesis results.

1. An entry is a folder, named by a digest of all that shapes what is in it. It counts once it is
   complete: then its ``complete`` file has the size, the time and the digest of every other file.
2. Whoever uses an entry has it verified first. One that is damaged (a file gone, cut or changed) is
   removed and built anew.
3. One process builds an entry. Its lock is held by the compilers that it started, too, so that
   none of them writes into the next attempt's files.
4. When an entry is complete, those that were not used for longest are removed, down to a limit.
   What was used within the last hour stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import children
from .errors import PenstockError

STAMP = "complete"
LIMIT_GB = 10.0
"""Size that the cache is kept below, unless PENSTOCK_CACHE_GB says otherwise."""
IN_USE = 3600.0
"""Seconds since its last use in which an entry is not removed to make room."""


@dataclass(frozen=True)
class Entry:
    """A folder of the cache."""

    kind: str  # what it is: ``sim``, ``verilog``, ``modules``, .
    folder: Path  # where it is
    bytes: int  # size of its files
    used: float  # when it was last used (or begun), in seconds since the epoch
    complete: bool  # false for what an interrupted build has left


def cache_dir() -> Path:
    """The cache: PENSTOCK_CACHE, else a folder in this user's cache folder of the platform."""
    if value := os.environ.get("PENSTOCK_CACHE"):
        return Path(value).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "penstock"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def limit() -> int:
    """Bytes that the cache is kept below: PENSTOCK_CACHE_GB, in units of 10^9 bytes.

    Raises
    ------
    PenstockError
        It is no number of at least 0.
    """
    text = os.environ.get("PENSTOCK_CACHE_GB") or str(LIMIT_GB)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise PenstockError(f"PENSTOCK_CACHE_GB must be a number of at least 0, not {text!r}")
    return int(value * 1e9)


def digest(*parts: str | bytes) -> str:
    """Short name for a combination of texts."""
    h = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        h.update(len(raw).to_bytes(8, "little") + raw)
    return h.hexdigest()[:20]


@contextlib.contextmanager
def entry(
    kind: str, key: str, waiting: Callable[[], None] | None = None
) -> Iterator[tuple[Path, bool]]:
    """Cache folder for ``key``, locked against other processes, and whether it is complete.

    The caller fills an incomplete folder; it counts as complete once the block ends without an
    exception. ``waiting`` is called where another process is at it.

    Raises
    ------
    PenstockError
        The cache cannot be written.
    """
    if (folder := find(kind, key)) is not None:
        yield folder, True
        return
    folder = cache_dir() / kind / key
    with _writable():
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, waiting=waiting):
        if find(kind, key) is not None:
            yield folder, True
            return
        with _writable():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, False
        with _writable():
            _complete(folder)
    prune(limit(), keep=folder)


def find(kind: str, key: str) -> Path | None:
    """The folder of a complete entry, verified; None if there is none, or it is damaged."""
    folder = cache_dir() / kind / key
    stamp = folder / STAMP
    try:
        files = json.loads(stamp.read_text(encoding="utf-8"))["files"]
        if not all(_unchanged(folder / name, *known) for name, known in files.items()):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    with contextlib.suppress(OSError):  # a cache that can only be read serves as well
        os.utime(stamp)
    return folder


@contextlib.contextmanager
def _locked(
    folder: Path, wait: bool = True, waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the lock of an entry: against other processes and threads, and also as long as a child
    that was started meanwhile runs.

    Raises BlockingIOError where another has it and ``wait`` is false.
    """
    with _writable():
        descriptor = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise
            if waiting:
                waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with children.inheriting(descriptor):
            yield
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _complete(folder: Path) -> None:
    """Stamp an entry with what it has."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != STAMP:
            stat = path.stat()
            files[str(path.relative_to(folder))] = [stat.st_size, stat.st_mtime_ns, _content(path)]
    fresh = folder / f".{STAMP}"
    fresh.write_text(json.dumps({"files": files}))
    fresh.replace(folder / STAMP)


def _unchanged(path: Path, size: int, mtime_ns: int, content: str) -> bool:
    """True if a file is the one that was stamped.

    Its content is read only where its time differs, as after a copy.
    """
    stat = path.stat()
    return stat.st_size == size and (stat.st_mtime_ns == mtime_ns or _content(path) == content)


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _writable() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise PenstockError(
            f"the cache {cache_dir()} cannot be written: {e.strerror or e}",
            remedy="set PENSTOCK_CACHE to a folder that you may write to",
        ) from None


def entries() -> list[Entry]:
    """Everything in the cache, that which was not used for longest first."""
    found = []
    for folder in cache_dir().glob("*/*"):
        if not folder.is_dir() or folder.parent.name.startswith("."):
            continue
        stamp = folder / STAMP
        with contextlib.suppress(OSError):  # another process removes it meanwhile
            used = (stamp if stamp.exists() else folder).stat().st_mtime
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            found.append(
                Entry(
                    folder.parent.name,
                    folder,
                    size,
                    used,
                    stamp.exists() or folder.parent.name == "modules",
                )
            )
    return sorted(found, key=lambda e: e.used)


def prune(most: int, *, keep: Path | None = None, idle: float = IN_USE) -> list[Entry]:
    """Remove entries until at most ``most`` bytes are left; returns those removed.

    Parameters
    ----------
    most
        Bytes.
    keep
        A folder that stays.
    idle
        Seconds since the last use within which an entry stays.
    """
    there = entries()
    size = sum(e.bytes for e in there)
    gone = []
    for one in there:
        if size <= most:
            break
        if one.folder != keep and time.time() - one.used >= idle and _remove(one):
            size -= one.bytes
            gone.append(one)
    return gone


def clear() -> list[Entry]:
    """Remove everything but what is being built at the moment; returns what was removed."""
    return [one for one in entries() if _remove(one)]


def _remove(one: Entry) -> bool:
    """Remove an entry, unless it is being built."""
    try:
        with _locked(one.folder, wait=False):
            (one.folder / STAMP).unlink(missing_ok=True)  # first: an entry is whole, or it is none
            shutil.rmtree(one.folder, ignore_errors=True)
    except (OSError, PenstockError):
        return False
    return not one.folder.exists()
