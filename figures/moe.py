"""The mixtures of experts of figures 9, 10, 12, 13, 19 and 20: their sizes, and what is counted of
them.
"""

from __future__ import annotations

from ..machine.record import Record
from .points import Point

CONFIG = "paper_moe"
MODELS = {
    "mixtral": dict(dim=4096, inter=14336, experts=8, top_k=2),
    "qwen": dict(dim=2048, inter=768, experts=128, top_k=8),
}
TITLES = {"mixtral": "Mixtral-8x7B", "qwen": "Qwen3-30B-A3B"}
LOAD = 1 << 22
"""Elements whose lines take as long as the parts of an expert take to build."""
ROWS = 32
"""Rows of a tile whose products take as long as the loads of a weight."""
FP32_OUT = "offchip_fp32_out_bytes"
"""Column of the traffic as the published scripts list it: the output counted at 4 B an element,
though it is stored in 2.
"""
FP32_BYTES = 4


def on_demand(p: Point, r: Record) -> dict:
    """Traffic as it was listed, and on-chip memory without experts that got no token."""
    more = FP32_BYTES - p.config.stepsim.element_bytes
    listed = r.offchip_bytes + p.params["tokens"] * p.params["dim"] * more
    return {FP32_OUT: listed, "onchip_active_bytes": r.onchip_active_bytes}


def work(model: str, tokens: int, rows: int) -> float:
    """Work of a point with tiles of so many rows (0: dynamic): the elements of the weights that it
    loads, roughly, a load of a tile counted as many; a product of one with rows counts half.
    """
    m = MODELS[model]
    mean = tokens * m["top_k"] // m["experts"]
    loads = m["experts"] * max(1, rows and mean // rows)
    return loads * (m["dim"] * m["inter"] * (1 + (rows or mean) / ROWS) + LOAD)
