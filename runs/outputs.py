"""Output tensors of a run as a file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..machine.errors import PenstockError
from ..system.output import writing

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
