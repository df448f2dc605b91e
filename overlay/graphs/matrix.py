"""Circuit matrices from Matrix Market files."""

from __future__ import annotations

import io
import itertools
import re
import warnings
import zlib
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from ...machine.errors import ProgramError
from ...system.reading import read_bytes

MOST_ROWS = 1_000_000
MOST_ENTRIES = 20_000_000
"""Most entries of a matrix that is read."""
_HEAD = re.compile(rb"[^\n]*\n(?:[ \t\r]*(?:%[^\n]*)?\n)*+[^\n]*\n?")
"""A file up to its first entry: comments, and the line of sizes."""
_INTEGER = rb"-?\d++"
_REAL = rb"-?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?|(?i:nan|inf(?:inity)?))"
_TINY = re.compile(rb"[eE]-0*+(?:[3-9]\d\d|\d{4})\d*+")
"""Exponents of numbers that may be 0 in float64."""


def read_matrix(file: str | Path) -> sp.csc_array:
    """The matrix of a .mtx or .mtx.gz file, float64 CSC with sorted rows; explicit zeros stay
    entries, as SPICE writes them.

    Raises
    ------
    PenstockError
        The file cannot be read, takes too much memory when decompressed, has a line of which a part
        would be read, or breaks a rule of :func:`check_matrix`.
    """
    where = f"matrix {file}"
    if not Path(file).is_file():
        raise ProgramError("no such file", where)
    try:
        data = read_bytes(file)
        header = scipy.io.mminfo(io.BytesIO(data))
        _check_size(header, where)
        *_, layout, field, symmetry = header
        if field == "complex":
            raise ProgramError("is complex", where, "values are real")
        _check_lines(data, layout, field, where)
        halved = layout == "coordinate" and symmetry != "general"
        if halved:  # what is listed, without what it stands for
            _, _, rest = data.partition(b"\n")
            data = b"%%%%MatrixMarket matrix coordinate %s general\n" % field.encode() + rest
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            a = scipy.io.mmread(io.BytesIO(data), spmatrix=False)
    except (ValueError, OverflowError, OSError, EOFError, MemoryError, zlib.error) as e:
        raise ProgramError(
            f"cannot be read as Matrix Market: {str(e).strip()}",
            where,
            remedy="the formats are .mtx and .mtx.gz",
        ) from None
    return check_matrix(_mirrored(a, data, symmetry, where) if halved else a, where)


def _check_lines(data: bytes, layout: str, field: str, where: str) -> None:
    """Refuse the first line of which SciPy would read a part, or another number."""
    value = {"pattern": rb"", "integer": _INTEGER, "unsigned-integer": _INTEGER}.get(field, _REAL)
    places = 0 if layout == "array" else 2
    entry = rb"[ \t]++".join(filter(None, [*places * [rb"\d++"], value]))
    start = _start(data)
    lines = re.compile(rb"(?:[ \t]*+(?:%s[ \t]*+)?\r?(?:\n|\Z))*+" % entry).match(data, start)
    if lines and lines.end() < len(data):
        words = ["row", "column"][:places] + ([f"{field} value"] if value else [])
        raise _wrong(data, lines.end(), where, f"the entry of a line is: {', '.join(words)}")
    for tiny in _TINY.finditer(data, start):
        number = data[max(0, tiny.start() - 400) : tiny.end()].split()[-1]
        if not float(number) and re.search(rb"[1-9].*[eE]", number):
            raise _wrong(data, tiny.start(), where, "a value that is not 0 is not 0 in float64")


def _start(data: bytes) -> int:
    """Begin of the entries."""
    head = _HEAD.match(data)
    return head.end() if head else len(data)


def _wrong(data: bytes, at: int, where: str, rule: str) -> ProgramError:
    """The error of the line around a place of a file."""
    before, _, begun = data[:at].rpartition(b"\n")
    line = begun + data[at : at + 60].partition(b"\n")[0]
    number = before.count(b"\n") + 2
    return ProgramError(f"line {number} is {line.decode(errors='replace')[:60]!r}", where, rule)


def _mirrored(a: sp.coo_array, data: bytes, symmetry: str, where: str) -> sp.coo_array:
    """The matrix of which one triangle is listed."""
    rows, cols = a.coords
    skew = symmetry == "skew-symmetric"
    diagonal = np.flatnonzero((rows == cols) & skew)
    bad = diagonal if len(diagonal) else np.flatnonzero((rows < cols) & (rows > cols).any())
    if len(bad):
        entries = re.compile(rb"^[ \t]*+\d", re.MULTILINE).finditer(data, _start(data))
        at = next(itertools.islice(entries, int(bad[0]), None)).end()
        one = "is one triangle, others are below the diagonal"
        rule = "has no diagonal" if len(diagonal) else one
        raise _wrong(data, at, where, f"a {symmetry} matrix {rule}")
    off = rows != cols
    listed = a.data.astype(np.float64)
    values = np.concatenate([listed, -listed[off] if skew else listed[off]])
    places = np.concatenate([rows, cols[off]]), np.concatenate([cols, rows[off]])
    return sp.coo_array((values, places), shape=a.shape)


def _check_size(header: tuple, where: str) -> None:
    """Refuse, by its first line, a matrix that is too large to be read."""
    rows, cols, entries = header[:3]
    for what, number, most in (
        ("rows", rows, MOST_ROWS),
        ("columns", cols, MOST_ROWS),
        ("entries", entries, MOST_ENTRIES),
    ):
        if not 0 <= number <= most:
            raise ProgramError(f"has {number} {what}", where, f"at most {most}")


def check_matrix(a, where: str = "matrix") -> sp.csc_array:
    """``a`` as float64 CSC, duplicates summed; ProgramError if it is empty, not square, or holds a
    NaN or infinity.
    """
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ProgramError(
            f"is {' x '.join(str(n) for n in a.shape)}",
            where,
            "a matrix to be factorised is square",
        )
    if not a.shape[0]:
        raise ProgramError("has no rows", where)
    a = sp.csc_array(a, dtype=np.float64)
    a.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(a.data))
    if len(bad):
        row = int(a.indices[bad[0]])
        col = int(np.searchsorted(a.indptr, bad[0], "right") - 1)
        raise ProgramError(
            f"entry ({row}, {col}) is {a.data[bad[0]]}",
            where,
            "entries are finite",
            "rows and columns count from 0",
        )
    return a
