"""Numbers the paper and its artifact published, as data: what our own runs are laid beside."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["Fig8Row", "attention", "fig8", "moe_regions", "moe_tiling", "stated", "statements"]


def _rows(name: str) -> list[dict[str, str]]:
    """Rows of a table of this folder; lines that begin with # are its title."""
    text = files(__spec__.parent).joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _numbers(row: dict[str, str], *keys: str) -> dict[str, Any]:
    """A row's entries besides ``keys``, as numbers; empty cells are left out."""
    return {k: float(v) if "." in v else int(v) for k, v in row.items() if v and k not in keys}


class Fig8Row(NamedTuple):
    """A point of figure 8: SwiGLU (batch 64, dim 256, inter 512, 4-byte elements), one tiling."""

    # tile_b, tile_inter: tile sizes along the batch and the inner dimension
    tile_b: int
    tile_inter: int
    step_cycles: int  # cycles of the published simulator
    # offchip_bytes, onchip_bytes: its symbolic traffic and on-chip memory
    offchip_bytes: int
    onchip_bytes: int
    # hdl_cycles, hdl_mb: cycles and traffic (10^6 B) of the published hardware model; None where
    # they were not published
    hdl_cycles: int | None
    hdl_mb: float | None


def fig8() -> list[Fig8Row]:
    """The 15 points of figure 8, by tile_b, then tile_inter."""
    missing: dict[str, Any] = dict.fromkeys(("hdl_cycles", "hdl_mb"))
    return [Fig8Row(**missing | _numbers(row)) for row in _rows("fig8")]


def moe_tiling() -> dict[tuple[str, int, int | str], dict[str, int]]:
    """Figures 9 and 19: cycles, wall_s, offchip_bytes and onchip_bytes by model, batch, and rows of
    a tile (or ``dynamic``).
    """
    return {
        (
            r["model"],
            int(r["batch"]),
            r["tile"] if r["tile"] == "dynamic" else int(r["tile"]),
        ): _numbers(r, "model", "batch", "tile")
        for r in _rows("moe_tiling")
    }


def moe_regions() -> dict[int, dict[str, int | float]]:
    """Figure 12: cycles, wall_s, onchip_bytes, utilisation (percent) by the number of regions."""
    return {int(r["regions"]): _numbers(r, "regions") for r in _rows("moe_regions")}


def attention() -> dict[tuple[str, int], dict[str, int]]:
    """Figures 14 and 15: cycles of ``coarse``, ``interleaved`` and ``dynamic`` parallelisation, as
    far as they were published, by trace and number of requests.
    """
    return {
        (r["trace"], int(r["requests"])): _numbers(r, "trace", "requests")
        for r in _rows("attention")
    }


def stated() -> list[dict[str, Any]]:
    """Statements of the papers' texts: ``paper``, ``place``, ``figure``, ``what``, ``value``."""
    return [row | {"value": float(row["value"])} for row in _rows("statements")]


def statements(figure: str) -> dict[str, float]:
    """The statements of the paper's text about a figure, and the ``hours`` that its artifact
    takes.
    """
    return {row["what"]: row["value"] for row in stated() if row["figure"] == figure}
