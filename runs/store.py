"""A folder of results: one record a point, under the key of its content.

1. Records are lines of one file, ``results.jsonl``. A writer holds a lock while it appends one, so
   processes, and machines with a folder in common, may share a store.
2. The file is lines of JSON: the version of the format, then records. A line has the key, a
   checksum of what follows it, the row of a table, and the details (units, channels). Files of
   several stores are joined by `cat`.
3. A line counts from its end on. A last line that is cut is no record: it is not read, and the next
   writer removes it. A line that is damaged is left out.
4. A reader holds keys and places, and no record.

Lines of JSON, not SQLite: a database that is cut or copied while it grows may be lost as a whole.
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
from pathlib import Path
from typing import IO, Any

from ..machine.errors import PenstockError
from ..machine.record import Record, records_of
from .outcomes import Outcome
from .task import Batch, program_name

VERSION = 1
NAME = "results.jsonl"
LOCK = ".lock"
HEAD = b'{"penstock results": %d}\n' % VERSION
LINE = b'{"key": "%s", "crc": "%08x", %s\n'
PREFIX = len('{"key": "0123456789abcdef0123", "crc": "01234567", ')
KEY = slice(9, 29)
CRC = slice(40, 48)
FRESH = 2.0
"""Seconds between looks at what other writers have added."""
DETAILS = ("units", "channels", "tensors", "sink_elements")
"""Fields of a record that no table has."""
UNKEPT = ("outputs", "errors", "sinks", "streams")
"""Fields of a record that a store leaves out."""


class Store:
    """A store.

    Attributes
    ----------
    folder, path
        Its folder, made with the first record, and its file.
    bytes
        The file's, up to where it has been read.
    damaged
        Lines that are no records.
    cut
        Whether a part of a line stands at its end: of a writer that is at it, or was killed.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.path = self.folder / NAME
        if self.folder.exists() and not self.folder.is_dir():
            raise PenstockError(f"{self.folder} is no folder", remedy="a store is a folder")
        self._inode = 0
        self._forget()

    def __len__(self) -> int:
        return len(self._places)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc) -> None:
        pass

    # -- reading
    # ---------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Read the file from its begin."""
        self._places: dict[str, int] = {}
        self.bytes = self.damaged = 0
        self.cut = False
        self.refresh(now=True)

    def refresh(self, now: bool = False) -> None:
        """Read lines that were added since the last look, if that is a while ago, or ``now``."""
        if not now and time.monotonic() - self._looked < FRESH:
            return
        self._looked = time.monotonic()
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            number = os.fstat(file.fileno()).st_ino
            if self._inode not in (0, number):  # pruned meanwhile
                self._inode = number
                self._forget()
                return
            self._inode = number
            self._scan(file)

    def _scan(self, file: IO[bytes]) -> None:
        """Note the keys of the lines behind those that were read."""
        file.seek(self.bytes)
        self.cut = False
        for line in file:
            if not line.endswith(b"\n"):
                self.cut = True
                return
            if not self.bytes:
                _check_head(line, self.path)
            if _whole(line):
                self._places.setdefault(line[KEY].decode(), self.bytes)
            elif line != HEAD:
                self.damaged += 1
            self.bytes += len(line)

    def outcome(self, key: str) -> Outcome | None:
        """Outcome of a point, if it is known."""
        if key not in self._places:
            return None
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._places[key])
            line = file.readline()
            if line[KEY] == key.encode():
                return _outcome(line, str(self.path))
        self._forget()  # pruned meanwhile
        return self.outcome(key)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The row of each point, one at a time; a point that two writers have made comes once."""
        for key, line in self._lines():
            yield _row(line) | {"key": key}

    def records(self) -> Iterator[Record]:
        """All records, one at a time."""
        for _, line in self._lines():
            yield from _outcome(line, str(self.path)).records

    def _lines(self) -> Iterator[tuple[str, bytes]]:
        """Keys and lines of the store."""
        self.refresh(now=True)
        if not self._places:
            return
        with self.path.open("rb") as file:
            for key, offset in self._places.items():
                file.seek(offset)
                yield key, file.readline()

    # -- writing
    # ---------------------------------------------------------------------------------

    def add(self, key: str, batch: Batch, place: int, outcome: Outcome) -> None:
        """Append the outcome of a point.

        Raises
        ------
        PenstockError
            The folder cannot be written. The records that it has are whole.
        """
        line = _line(key, batch, place, outcome)
        with self._alone():
            with self.path.open("ab", buffering=0) as file:
                there = os.fstat(file.fileno())
                if (there.st_ino, there.st_size) != (self._inode, self.bytes):
                    self.refresh(now=True)
                file.truncate(self.bytes)  # a cut end
                left = line if self.bytes else HEAD + line
                try:
                    while left:
                        left = left[file.write(left) :]
                except OSError:
                    file.truncate(self.bytes)
                    raise
            self.bytes = self.bytes or len(HEAD)
            self.cut = False
            self._places.setdefault(key, self.bytes)
            self.bytes += len(line)

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
        """Write the file anew with the records of the rows that ``keep`` holds for; how many stayed
        and went.
        """
        count = [0, 0]
        with self._alone():
            self._forget()
            fresh = self.folder / f"{NAME}.new"
            with fresh.open("wb") as file:
                file.write(HEAD)
                for _, line in self._lines():
                    stays = keep(_row(line))
                    count[not stays] += 1
                    if stays:
                        file.write(line)
            fresh.rename(self.path)
        self._forget()
        return count[0], count[1]


def _check_head(line: bytes, path: Path) -> None:
    """Raise PenstockError for a file that is no store of this version."""
    if line != HEAD:
        found = re.fullmatch(rb'\{"penstock results": (\d+)\}\n', line)
        raise PenstockError(
            f"is of version {found[1].decode()} of the store" if found else "is no store",
            str(path),
            f"this Penstock reads version {VERSION}",
            "use another folder, or the Penstock that wrote it",
        )


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
