"""A `.pt2` archive: a zip of one JSON of the graph, and weights as raw bytes that are mapped.

Nothing in it is executed: no pickle is opened, whatever its name (``data/sample_inputs`` is one).
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import ml_dtypes

from ..machine.errors import ProgramError
from ..system.reading import MOST_BYTES, PenstockError, parse_json
from .form import Value, Weight

SCHEMA = 8
"""Major version of the schema that is read."""
MOST_ENTRIES = 65_536
MOST_RATIO = 200
"""Bytes of a JSON for one of its compressed bytes; JSON of graphs takes 10 to 40."""
DTYPES = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.int8),
    3: np.dtype(np.int16),
    4: np.dtype(np.int32),
    5: np.dtype(np.int64),
    6: np.dtype(np.float16),
    7: np.dtype(np.float32),
    8: np.dtype(np.float64),
    12: np.dtype(np.bool_),
    13: np.dtype(ml_dtypes.bfloat16),
}
"""The schema's codes of types."""
_EXPORT_AGAIN = "export the layer again with torch.export.save"


class Archive:
    """An archive, open for reading.

    Raises
    ------
    ProgramError
        It is no zip, is cut, has entries outside of it, compressed weights, too large a JSON, or
        another schema.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            with zipfile.ZipFile(self.path) as z:
                entries = z.infolist()
        except FileNotFoundError:
            raise ProgramError(f"no such file: {path}") from None
        except IsADirectoryError:
            raise self.error("is a folder", "give the .pt2 file itself") from None
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as e:
            raise self.error(f"is no whole archive: {e}") from None
        if len(entries) > MOST_ENTRIES:
            raise self.error(f"has {len(entries)} entries, of {MOST_ENTRIES} at most")
        size = self.path.stat().st_size
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for e in entries:
            self._add(e, size)
        if sum(e.compress_size for e in entries) > size:
            raise self.error("has entries that overlap")
        self.digest = hashlib.sha256(
            b"".join(f"{e.filename} {e.CRC} {e.file_size}\n".encode() for e in entries)
        ).hexdigest()
        order = self.text("byteorder").strip()
        if order != "little":
            raise self.error(f"has weights in byte order {order!r}, not 'little'")

    def _add(self, e: zipfile.ZipInfo, size: int) -> None:
        parts = e.filename.split("/")
        if e.filename.startswith("/") or "\\" in e.filename or ".." in parts or ":" in parts[0]:
            raise self.error(f"has an entry outside of it: {e.filename[:80]!r}")
        if e.header_offset + e.compress_size > size:
            raise self.error(f"is cut: entry {e.filename[:80]!r} goes beyond its end")
        folder, below, name = e.filename.partition("/")  # the folder has the archive's name
        if not below:
            raise self.error(
                f"has an entry {folder[:80]!r} in no folder: it is not from torch.export"
            )
        if name in self._entries:
            raise self.error(f"has entry {e.filename[:80]!r} twice")
        self._entries[name] = e

    def error(self, what: str, remedy: str = _EXPORT_AGAIN) -> ProgramError:
        return ProgramError(what, self.path.name, remedy=remedy)

    def _entry(self, name: str) -> zipfile.ZipInfo:
        if name not in self._entries:
            raise self.error(f"has no entry {name!r}: it is not from torch.export")
        return self._entries[name]

    def text(self, name: str) -> str:
        """A text of the archive, at most `MOST_BYTES` and `MOST_RATIO` times what is stored."""
        e = self._entry(name)
        if e.file_size > MOST_BYTES or e.file_size > MOST_RATIO * max(e.compress_size, 64):
            raise self.error(f"entry {name!r} says it takes {e.file_size:,} bytes unpacked")
        try:
            with zipfile.ZipFile(self.path) as z, z.open(e) as file:
                data = file.read(e.file_size + 1)
            return data.decode()
        except (OSError, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
            raise self.error(f"entry {name!r} cannot be read: {error}") from None
        except (zipfile.BadZipFile, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
            raise self.error(f"entry {name!r} is damaged: {error}") from None

    def table(self, name: str) -> dict[str, Any]:
        """An object of JSON."""
        try:
            found = parse_json(self.text(name), f"{self.path.name}, {name}")
        except ProgramError:
            raise
        except PenstockError as e:
            raise ProgramError(e.what, e.where, remedy=_EXPORT_AGAIN) from None
        if not isinstance(found, dict):
            raise self.error(f"entry {name!r} holds no object")
        return found

    @cached_property
    def model(self) -> dict[str, Any]:
        """The graph's JSON, of schema `SCHEMA`."""
        names = [n for n in self._entries if n.startswith("models/") and n.endswith(".json")]
        if len(names) != 1:
            raise self.error(f"holds {len(names)} models, not 1")
        found = self.table(names[0])
        version = found.get("schema_version")
        major = version.get("major") if isinstance(version, dict) else None
        if major != SCHEMA:
            raise self.error(
                f"has schema {major}, not {SCHEMA}", "export it with a torch of 2.8 or later"
            )
        return found

    def weights(self) -> Iterator[tuple[str, Weight]]:
        """Parameters, buffers and constants by their names in the model; their bytes are checked to
        be there, and not read.
        """
        for kind, folder in (("weights", "data/weights"), ("constants", "data/constants")):
            for name in self._entries:
                if name.startswith(f"{folder}/") and name.endswith(f"_{kind}_config.json"):
                    for path, entry in self.table(name).get("config", {}).items():
                        yield path, self._weight(path, entry, folder)

    def _weight(self, path: str, entry: dict, folder: str) -> Weight:
        try:
            if entry["use_pickle"]:
                raise self.error(
                    f"weight {path!r} is stored as a pickle, which is never opened",
                    "save plain tensors",
                )
            meta = entry["tensor_meta"]
            dtype = DTYPES.get(meta["dtype"])
            shape = tuple(int(s["as_int"]) for s in meta["sizes"])
            strides = tuple(int(s["as_int"]) for s in meta["strides"])
            offset = int(meta["storage_offset"]["as_int"])
            member = f"{folder}/{entry['path_name']}"
        except (KeyError, TypeError, ValueError):
            raise self.error(f"weight {path!r} is not described as the schema says") from None
        if dtype is None:
            raise self.error(f"weight {path!r} has type {meta['dtype']}, which is not read")
        e = self._entry(member)
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else -1
        if len(shape) != len(strides) or min((*shape, *strides, offset, 0)) < 0:
            raise self.error(f"weight {path!r} has a size or stride below 0")
        if (offset + last + 1) * dtype.itemsize > e.file_size:
            raise self.error(f"weight {path!r} goes beyond its {e.file_size:,} bytes")
        if e.compress_type != zipfile.ZIP_STORED or e.compress_size != e.file_size:
            raise self.error(f"weight {path!r} is compressed, so it cannot be mapped")
        self._refuse_pickle(path, e)
        return Weight(Value(path, shape, dtype.name), path, member, offset, strides)

    def _refuse_pickle(self, path: str, e: zipfile.ZipInfo) -> None:
        """`torch.save` writes a zip or a pickle, which begin and end like no weights."""
        data = self._mapped(e)
        head, end = data[:4].tobytes(), data[-1:].tobytes()
        if head == b"PK\3\4" or (head[:1] == b"\x80" and head[1:2] in b"\2\3\4\5" and end == b"."):
            raise self.error(
                f"weight {path!r} is a pickle, which is never opened", "save plain tensors"
            )

    @cached_property
    def _file(self) -> np.ndarray:
        return np.memmap(self.path, np.uint8, "r")

    def _mapped(self, e: zipfile.ZipInfo) -> np.ndarray:
        """Bytes of a stored entry, behind its local header."""
        head = self._file[e.header_offset : e.header_offset + 30].tobytes()
        if len(head) < 30 or head[:4] != b"PK\3\4":
            raise self.error(f"entry {e.filename[:80]!r} is damaged")
        start = e.header_offset + 30 + sum(np.frombuffer(head[26:30], "<u2").tolist())
        if start + e.file_size > self._file.size:
            raise self.error(f"is cut: entry {e.filename[:80]!r} goes beyond its end")
        return self._file[start : start + e.file_size]

    def array(self, w: Weight) -> np.ndarray:
        """A weight, mapped: nothing is read before it is used."""
        dtype = np.dtype(w.value.dtype if w.value.dtype != "bfloat16" else ml_dtypes.bfloat16)
        data = self._mapped(self._entry(w.member))
        whole = data[: data.size // dtype.itemsize * dtype.itemsize].view(dtype)
        shape = tuple(int(n) for n in w.value.shape)
        strides = tuple(s * dtype.itemsize for s in w.strides)
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.lib.stride_tricks.as_strided(whole[w.offset :], shape, strides, writeable=False)
