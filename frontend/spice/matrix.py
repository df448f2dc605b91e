"""Circuit matrices from Matrix Market files."""

from __future__ import annotations

import gzip
import warnings
import zlib
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from ...machine.errors import ProgramError

MOST_ROWS = 1_000_000
MOST_ENTRIES = 20_000_000
"""Of a matrix that is read."""


def read_matrix(file: str | Path) -> sp.csc_array:
    """The matrix of a .mtx or .mtx.gz file, float64 CSC with sorted
    rows; explicit zeros stay entries, as SPICE writes them.

    Raises ProgramError for a file that cannot be read and for what
    :func:`check_matrix` refuses.
    """
    path = Path(file)
    if not path.is_file():
        raise ProgramError("no such file", f"matrix {file}")
    try:
        _check_size(scipy.io.mminfo(path), f"matrix {file}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            a = scipy.io.mmread(path, spmatrix=False)
    except (
        ValueError,
        OverflowError,
        OSError,
        EOFError,
        MemoryError,
        zlib.error,
        gzip.BadGzipFile,
    ) as e:
        raise ProgramError(
            f"cannot be read as Matrix Market: {str(e).strip()}",
            f"matrix {file}",
            remedy="the formats are .mtx and .mtx.gz",
        ) from None
    if np.iscomplexobj(a):
        raise ProgramError("is complex", f"matrix {file}", "values are real")
    return check_matrix(a, f"matrix {file}")


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
    """``a`` as float64 CSC, duplicates summed; ProgramError if it is
    empty, not square, or holds a NaN or infinity.
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
