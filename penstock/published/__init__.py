"""Numbers the paper and its artifact published, as data: what our own runs are laid beside."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Fig8Row", "fig8"]


class Fig8Row(NamedTuple):
    """One point of figure 8: SwiGLU (batch 64, dim 256, inter 512, 4-byte elements) at one tiling.

    Attributes
    ----------
    tile_b, tile_inter
        Tile sizes along the batch and the inner dimension.
    step_cycles
        Cycles of the published simulator.
    offchip_bytes, onchip_bytes
        Its symbolic traffic and on-chip memory.
    hdl_cycles, hdl_mb
        Cycles and traffic (10^6 B) of the published hardware model; None where they were not published.
    """

    tile_b: int
    tile_inter: int
    step_cycles: int
    offchip_bytes: int
    onchip_bytes: int
    hdl_cycles: int | None
    hdl_mb: float | None


def fig8() -> list[Fig8Row]:
    """The 15 points of figure 8, by tile_b, then tile_inter."""
    text = files(__package__).joinpath("fig8.csv").read_text()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    kinds = {"hdl_mb": float}
    return [Fig8Row(**{k: kinds.get(k, int)(v) if v else None for k, v in row.items()}) for row in rows]
