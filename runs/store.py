"""A folder of results: one record a point, under the key of its content.

1. Records are lines of one file, ``results.jsonl``. A writer holds a lock while it appends one, so
   processes, and machines with a folder in common, may share a store. Further files of lines are
   read as well, such as those of another store.
2. A file is lines of JSON: the version of the format, then records. A line has the key, a checksum
   of what follows it, the row of a table, and the details (units, channels).
3. A line counts from its end on. A last line that is cut is no record: it is not read, and the next
   writer removes it. A line that is damaged is left out.
4. A reader holds keys and places, and no record.

Lines of JSON, not SQLite: a database that is cut or copied while it grows may be lost as a whole.
These files can be copied, joined and searched.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..machine.errors import PenstockError
from ..machine.record import Record, records_of
from .outcomes import Outcome
from .task import Batch, program_name

VERSION = 1
NAME = "results.jsonl"
LOCK = ".lock"
HEAD = b'{"penstock results": %d}\n'
LINE = b'{"key": "%s", "crc": "%08x", %s\n'
PREFIX = len('{"key": "0123456789abcdef0123", "crc": "01234567", ')
KEY = slice(9, 29)
CRC = slice(40, 48)
FRESH = 2.0
"""Seconds between looks at what other writers have added."""
DETAILS = ("units", "channels", "tensors", "sink_elements")
"""Fields of a record that no table has."""
UNKEPT = ("outputs", "errors", "sinks", "streams")
"""What a record has only where it was made."""


@dataclass
class Part:
    """A file of a store.

    Attributes
    ----------
    path, bytes, inode
        The file, up to where it has been read, and its number in the file system.
    records, damaged
        Its records, and lines that are none.
    cut
        Whether a part of a line stands at its end: of a writer that is at it, or was killed.
    """

    path: Path
    bytes: int = 0
    inode: int = 0
    records: int = 0
    damaged: int = 0
    cut: bool = False


@dataclass
class Store:
    """A store.

    Attributes
    ----------
    folder
        Its folder, made with the first record.
    parts
        Its files by name.
    """

    folder: Path
    parts: dict[str, Part] = field(default_factory=dict)

    def __post_init__(self):
        self.folder = Path(self.folder)
        self._places: dict[str, tuple[str, int]] = {}
        self._looked = 0.0
        if self.folder.exists() and not self.folder.is_dir():
            raise PenstockError(f"{self.folder} is no folder", remedy="a store is a folder")
        self.refresh(now=True)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc) -> None:
        pass

    # -- reading
    # ---------------------------------------------------------------------------------

    def refresh(self, now: bool = False) -> None:
        """Read what was added since, if the last look is a while ago, or ``now``."""
        if not now and time.monotonic() - self._looked < FRESH:
            return
        self._looked = time.monotonic()
        for path in sorted(self.folder.glob("*.jsonl")):
            part = self.parts.setdefault(path.name, Part(path))
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                number = os.fstat(file.fileno()).st_ino
                if part.inode not in (0, number):  # pruned meanwhile
                    self._forget()
                    return
                part.inode = number
                self._scan(part, file)

    def _scan(self, part: Part, file: IO[bytes]) -> None:
        """Note the keys of the lines that a file has beyond what was read."""
        if part.bytes == 0 and not _headed(part, file.readline()):
            return
        file.seek(part.bytes)
        part.cut = False
        for line in file:
            if not line.endswith(b"\n"):
                part.cut = True
                return
            if _whole(line):
                self._places.setdefault(line[KEY].decode(), (part.path.name, part.bytes))
                part.records += 1
            else:
                part.damaged += 1
            part.bytes += len(line)

    def outcome(self, key: str) -> Outcome | None:
        """Outcome of a point, if it is known."""
        if key not in self._places:
            return None
        name, offset = self._places[key]
        with contextlib.suppress(FileNotFoundError), (self.folder / name).open("rb") as file:
            file.seek(offset)
            line = file.readline()
            if line[KEY] == key.encode():
                return _outcome(line, f"{self.folder / name}")
        self._forget()  # pruned meanwhile
        return self.outcome(key)

    def _forget(self) -> None:
        """Look at the folder afresh."""
        self.parts.clear()
        self._places.clear()
        self.refresh(now=True)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The row of each point, one at a time; a point that two writers have made comes once."""
        for key, line in self._lines():
            yield _row(line) | {"key": key}

    def records(self) -> Iterator[Record]:
        """All records, one at a time."""
        for _, line in self._lines():
            yield from _outcome(line, str(self.folder)).records

    def _lines(self) -> Iterator[tuple[str, bytes]]:
        """Keys and lines of the store."""
        self.refresh(now=True)
        for name, part in list(self.parts.items()):
            with part.path.open("rb") as file:
                offset = 0
                while offset < part.bytes:
                    line = file.readline()
                    key = line[KEY].decode(errors="replace")
                    if self._places.get(key) == (name, offset):
                        yield key, line
                    offset += len(line)

    # -- writing
    # ---------------------------------------------------------------------------------

    def add(self, key: str, batch: Batch, place: int, outcome: Outcome) -> None:
        """Append what became of a point.

        Raises
        ------
        PenstockError
            The folder cannot be written. The records that it has are whole.
        """
        line = _line(key, batch, place, outcome)
        with self._alone():
            self.refresh(now=True)
            part = self.parts.setdefault(NAME, Part(self.folder / NAME))
            with part.path.open("ab", buffering=0) as file:
                file.truncate(part.bytes)  # a cut end
                left = line if part.bytes else HEAD % VERSION + line
                try:
                    while left:
                        left = left[file.write(left) :]
                except OSError:
                    file.truncate(part.bytes)
                    raise
            self.refresh(now=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the store against other writers."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / LOCK).open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as e:
            raise PenstockError(
                f"the store {self.folder} cannot be written: {e.strerror or e}",
                remedy="make room and run the same command again: what was done is kept",
            ) from None

    def prune(self, keep: Callable[[dict[str, Any]], bool]) -> tuple[int, int]:
        """Join the files into one, without the records that are not to stay; how many stayed and
        went.

        Parameters
        ----------
        keep
            True if the record of a row stays.
        """
        count = [0, 0]
        with self._alone():
            self._forget()
            fresh = self.folder / f"{NAME}.new"
            with fresh.open("wb") as file:
                file.write(HEAD % VERSION)
                for _, line in self._lines():
                    stays = keep(_row(line))
                    count[not stays] += 1
                    if stays:
                        file.write(line)
            for part in self.parts.values():
                part.path.unlink()
            if count[0]:
                fresh.rename(self.folder / NAME)
            else:
                fresh.unlink()
        self._forget()
        return count[0], count[1]


def _headed(part: Part, line: bytes) -> bool:
    """True if a file has begun; raises PenstockError for one that is no part of such a store."""
    if not line.endswith(b"\n"):
        part.cut = bool(line)
        return False
    if line != HEAD % VERSION:
        found = re.fullmatch(rb'\{"penstock results": (\d+)\}\n', line)
        what = (
            f"is of version {found[1].decode()} of the store" if found else "is no part of a store"
        )
        raise PenstockError(
            what,
            str(part.path),
            f"this Penstock reads version {VERSION}",
            "use another folder, or the Penstock that wrote it",
        )
    part.bytes = len(line)
    return True


def _whole(line: bytes) -> bool:
    """True if a line is a record that was written so."""
    crc = b"%08x" % zlib.crc32(line[PREFIX:-1])
    return line.startswith(b'{"key": "') and line[CRC] == crc


def _line(key: str, batch: Batch, place: int, outcome: Outcome) -> bytes:
    """The record of a point."""
    at = batch.places.index(place)
    row = {
        "program": program_name(batch.program),
        "config": batch.config.name,
        "params": batch.points[at],
        "seed": batch.seeds[at],
        "on": batch.how.on,
        "timing": batch.how.timing,
        "sources": batch.sources,
        "made": int(time.time()),
        "failed": None if outcome.error is None else str(outcome.error),
        "records": [_without(r) for r in outcome.records],
    }
    details = [{name: getattr(r, name) for name in DETAILS} for r in outcome.records]
    body = f'"row": {json.dumps(row)}, "details": {json.dumps(details)}}}'.encode()
    return LINE % (key.encode(), zlib.crc32(body), body)


def _without(record: Record) -> dict[str, Any]:
    """A record without its details."""
    return {name: v for name, v in vars(record).items() if name not in (*DETAILS, *UNKEPT)}


def _row(line: bytes) -> dict[str, Any]:
    """The row of a line; its details are not looked at."""
    row, _ = json.JSONDecoder().raw_decode(line.decode(), PREFIX + len('"row": '))
    return row


def _outcome(line: bytes, where: str) -> Outcome:
    """Outcome in a line of the store."""
    found = json.loads(line)
    row = found["row"]
    whole = [r | d for r, d in zip(row["records"], found["details"], strict=True)]
    by_backend = {r.backend: r for r in records_of(whole, where)}
    failed = row["failed"]
    return Outcome(
        row["params"],
        by_backend.get("model"),
        by_backend.get("rtl"),
        None if failed is None else PenstockError(failed),
    )
