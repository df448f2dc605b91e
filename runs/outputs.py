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
    """Write tensors as a NumPy archive (.npz), each under its name; arguments and errors of the
    path as of ``output.writing``.
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


def sink_arrays(name: str, items: list[tuple]) -> dict[str, np.ndarray]:
    """Elements of a sink as arrays: NAME, for tiles padded with 0 and with NAME.sizes; NAME.stops
    and NAME.data of every beat, which has no element where an empty dimension ends.
    """
    found = _arrays(name, [v for v, _ in items if v is not None])
    stops = np.array([s for _, s in items], np.uint8)
    data = np.array([v is not None for v, _ in items], np.bool_)
    return found | {f"{name}.stops": stops, f"{name}.data": data}


def _arrays(name: str, values: list) -> dict[str, np.ndarray]:
    """Elements of one kind, tuples by their members."""
    first = values[0] if values else 0
    if isinstance(first, tuple):
        members = [_arrays(f"{name}.{i}", list(m)) for i, m in enumerate(zip(*values, strict=True))]
        return {key: a for member in members for key, a in member.items()}
    if isinstance(first, frozenset):
        targets = 1 + max((i for v in values for i in v), default=-1)
        return {name: np.array([[i in v for i in range(targets)] for v in values], np.bool_)}
    if not isinstance(first, np.ndarray):
        return {name: np.array(values, np.int64)}
    sizes = np.array([v.shape for v in values], np.int64)
    tiles = np.zeros((len(values), *sizes.max(0)), np.float32)
    for i, v in enumerate(values):
        tiles[i, : v.shape[0], : v.shape[1]] = v
    return {name: tiles, f"{name}.sizes": sizes}


def require_values(what: str, values: bool, timing: str) -> None:
    """Refuse, before a run, options that need values where none are computed."""
    if not values:
        raise PenstockError(
            f"{what} values, and none are computed", remedy="leave out --no-values (values=False)"
        )
    if timing == "stepsim":
        raise PenstockError(
            f"{what} values, and the timing `stepsim` has none", remedy="use --timing machine"
        )
