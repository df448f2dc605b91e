"""Lines and chunks that an off-chip unit moves, by the walk of docs/timing.md section 5."""

from __future__ import annotations

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


def walked(load: Any, line: int, t: int, lanes: int) -> Moved:
    """One walk of a load over its loop nest; ``line``: elements of a line. Nothing, where there are
    too many tiles to look at.
    """
    order = load.order
    if order is not None:
        places = np.array(order, np.int64).reshape(-1, 2)
        return _moved(load, places[:, 0], places[:, 1], line, t, lanes)
    if not 0 < prod(load.shape) <= MOST_PLACES:
        return NONE
    rows = np.zeros(1, np.int64)
    cols = np.zeros(1, np.int64)
    loops = zip(load.shape, load.row_step, load.col_step, strict=True)
    for trips, down, right in loops:
        step = np.arange(trips)
        rows = (rows[:, None] + down * step).ravel()
        cols = (cols[:, None] + right * step).ravel()
    return _moved(load, rows, cols, line, t, lanes)


def stored(load: Any, tiles: int, line: int, t: int, lanes: int) -> Moved:
    """Full tiles of a store, so many, in stream order."""
    if load.order is not None or tiles > MOST_PLACES:
        return NONE
    row = -(-load.tensor_cols // load.cols)
    place = np.arange(tiles)
    rows = place // row * load.rows
    cols = place % row * load.cols
    return _moved(load, rows, cols, line, t, lanes)


def least(load: Any, line: int, t: int, lanes: int) -> Moved:
    """The logical tile of the fewest lines that a number can name: of the last band, which may be
    lower; in the column in which a row of it lies in the fewest lines. The last column may be
    narrower, and yet begin near the end of a line.
    """
    row0 = np.array([(load.tensor_rows - 1) // load.rows * load.rows])
    col0 = np.arange(0, load.tensor_cols, load.cols)
    best = int(np.argmin(_wide(load, col0, line)))
    return _moved(load, row0, col0[best : best + 1], line, t, lanes)


def _wide(load: Any, col0: np.ndarray, line: int) -> np.ndarray:
    """Lines of a row of each tile that begins in these columns."""
    cols = np.clip(load.tensor_cols - col0, 0, load.cols)
    return np.where(cols > 0, -(-(col0 % line + cols) // line), 0)


def _moved(load: Any, row0: np.ndarray, col0: np.ndarray, line: int, t: int, lanes: int) -> Moved:
    rows = np.clip(load.tensor_rows - row0, 0, load.rows)
    wide = np.where(rows > 0, _wide(load, col0, line), 0)
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
