"""The paper's figures, from records and from published numbers; nothing is typed by hand."""

from __future__ import annotations

from . import attention, layer, multiplexing, tiling_figures
from .base import agreement, jobs, run, write
from .fig8 import (
    FIG8_CONFIG,
    FIG8_GRID,
    HBM2_CONFIG,
    fig8,
    fig8_agreements,
    fig8_records,
    fig8_rows,
    hbm2_records,
    stored_rtl,
)
from .ledger import ledger
from .points import Runs
from .traces import Traces

FIGURES = {
    f.name: f
    for f in (*tiling_figures.FIGURES, *multiplexing.FIGURES, *attention.FIGURES, *layer.FIGURES)
}
"""Figures of the timing `stepsim`, by name; figure 8 has the machine's timing and the RTL beside it
(:mod:`.fig8`).
"""

__all__ = [
    "FIG8_CONFIG",
    "FIG8_GRID",
    "FIGURES",
    "HBM2_CONFIG",
    "Runs",
    "Traces",
    "agreement",
    "fig8",
    "fig8_agreements",
    "fig8_records",
    "fig8_rows",
    "hbm2_records",
    "jobs",
    "ledger",
    "run",
    "stored_rtl",
    "write",
]
