"""Lines and chunks that an off-chip unit moves, by the walk of docs/timing.md section 5."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

MOST_PLACES = 1 << 14
"""Tiles of a walk that is looked at one by one."""


class Moved(NamedTuple):
    """Totals of a walk: lines, chunks of them, chunks of its first block; and the lines and chunks
    of its last logical tile.
    """

    lines: int
    chunks: int
    first: int
    last: tuple[int, int]


NONE = Moved(0, 0, 0, (0, 0))


def walked(params: Mapping[str, Any], line: int, t: int, lanes: int) -> Moved:
    """One walk of a load over its loop nest; ``line``: elements of a line. Nothing, where there are
    too many tiles to look at.
    """
    order = params.get("order")
    if order is not None:
        places = np.array(order, np.int64).reshape(-1, 2)
        return _moved(params, places[:, 0], places[:, 1], line, t, lanes)
    if not 0 < prod(params["shape"]) <= MOST_PLACES:
        return NONE
    rows = np.zeros(1, np.int64)
    cols = np.zeros(1, np.int64)
    loops = zip(params["shape"], params["row_step"], params["col_step"], strict=True)
    for trips, down, right in loops:
        step = np.arange(trips)
        rows = (rows[:, None] + down * step).ravel()
        cols = (cols[:, None] + right * step).ravel()
    return _moved(params, rows, cols, line, t, lanes)


def stored(params: Mapping[str, Any], tiles: int, line: int, t: int, lanes: int) -> Moved:
    """Full tiles of a store, so many, in stream order."""
    if params.get("order") is not None or tiles > MOST_PLACES:
        return NONE
    row = -(-params["tensor_cols"] // params["cols"])
    place = np.arange(tiles)
    rows = place // row * params["rows"]
    cols = place % row * params["cols"]
    return _moved(params, rows, cols, line, t, lanes)


def least(params: Mapping[str, Any], line: int, t: int, lanes: int) -> Moved:
    """The logical tile of the fewest lines that a number can name: of the last band, which may be
    lower; in the column in which a row of it lies in the fewest lines. The last column may be
    narrower, and yet begin near the end of a line.
    """
    row0 = np.array([(params["tensor_rows"] - 1) // params["rows"] * params["rows"]])
    col0 = np.arange(0, params["tensor_cols"], params["cols"])
    best = int(np.argmin(_wide(params, col0, line)))
    return _moved(params, row0, col0[best : best + 1], line, t, lanes)


def _wide(params: Mapping[str, Any], col0: np.ndarray, line: int) -> np.ndarray:
    """Lines of a row of each tile that begins in these columns."""
    cols = np.clip(params["tensor_cols"] - col0, 0, params["cols"])
    return np.where(cols > 0, -(-(col0 % line + cols) // line), 0)


def _moved(
    params: Mapping[str, Any], row0: np.ndarray, col0: np.ndarray, line: int, t: int, lanes: int
) -> Moved:
    rows = np.clip(params["tensor_rows"] - row0, 0, params["rows"])
    wide = np.where(rows > 0, _wide(params, col0, line), 0)
    full = rows // t
    chunks = full * -(-t // lanes) + -(-(rows % t) // lanes)
    total = int((wide * chunks).sum())
    if not total:
        return NONE
    return Moved(
        int((wide * rows).sum()),
        total,
        int(-(-min(rows[0], t) // lanes)) if wide[0] else 0,
        (int(wide[-1] * rows[-1]), int(wide[-1] * chunks[-1])),
    )
