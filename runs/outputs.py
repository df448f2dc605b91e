"""Output tensors of a run: a file of them, and how far they may be from
the float64 reference.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ..machine.errors import PenstockError, RunError
from ..machine.record import Record
from ..system.output import writing

__all__ = ["check_tolerance", "save", "within_tolerance"]

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""Date of a file's members: the same arrays make the same file."""


def save(outputs: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Write tensors as a NumPy archive (.npz), each under its name;
    arguments and errors of the path as of ``output.writing``.
    """
    with (
        writing(path, "wb") as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, array in outputs.items():
            member = zipfile.ZipInfo(f"{name}.npy", _FIRST_DAY)
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def check_tolerance(tolerance: float | None, values: bool, timing: str) -> None:
    """Refuse, before a run, a tolerance that is none, and one of values
    that are not computed.
    """
    if tolerance is None:
        return
    if not isinstance(tolerance, (int, float)) or not (0 <= tolerance < math.inf):
        raise PenstockError(f"tolerance must be a number of at least 0, not {tolerance}")
    require_values("tolerance compares", values, timing)


def require_values(what: str, values: bool, timing: str) -> None:
    """Refuse, before a run, what takes its values where none are
    computed.
    """
    if not values:
        raise PenstockError(
            f"{what} values, and none are computed", remedy="leave out --no-values (values=False)"
        )
    if timing == "stepsim":
        raise PenstockError(
            f"{what} values, and the timing `stepsim` has none", remedy="use --timing machine"
        )


def within_tolerance(records: Iterable[Record], tolerance: float | None) -> None:
    """Raise RunError, with the tensor that is worst, where a run's
    outputs are further from the float64 reference than ``tolerance``.
    """
    for r in records:
        if tolerance is None or not r.errors:
            continue
        name, error = max(r.errors.items(), key=lambda at: at[1])
        if not error <= tolerance:
            raise RunError(
                f"tensor {name} is {error:.3g} of its largest number away from the float64 "
                f"reference; the tolerance is {tolerance:g}",
                f"{r.workload} on {r.config}, {r.backend.replace('rtl', 'RTL')}",
                remedy="see whether reference() or the program is wrong, or allow more",
            )
