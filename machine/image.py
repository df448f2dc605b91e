"""Off-chip tensors to bytes and back: row-major, rows at a pitch (docs/timing.md section 5)."""

from __future__ import annotations

import numpy as np
import ml_dtypes

from .errors import RunError
from .unitgraph import Tensor, UnitGraph

DTYPES = {
    "fp32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "int32": np.dtype(np.int32),
}

STORED = ("output", "inout")
"""Roles of tensors that a run gives."""


def pack(graph: UnitGraph, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """Memory image, uint8 [memory_bytes]; outputs and gaps are zero.

    Raises RunError when an input is missing or has another shape than the program gave it.
    """
    image = np.zeros(graph.memory_bytes, np.uint8)
    for t in graph.tensors:
        if t.role not in ("input", "inout"):
            continue
        if t.name not in tensors:
            raise RunError(
                "no values given",
                f"{t.role} tensor {t.name}",
                remedy=f"pass an array of shape [{t.rows}, {t.cols}]",
            )
        a = np.asarray(tensors[t.name])
        if a.shape != (t.rows, t.cols):
            raise RunError(
                f"has shape {list(a.shape)}, the program says [{t.rows}, {t.cols}]",
                f"{t.role} tensor {t.name}",
            )
        _view(image, t)[:] = a.astype(DTYPES[t.dtype])
    return image


def unpack(graph: UnitGraph, image: np.ndarray) -> dict[str, np.ndarray]:
    """Stored tensors of an image, by name, in their own dtype."""
    return {t.name: _view(image, t).copy() for t in graph.tensors if t.role in STORED}


def _view(image: np.ndarray, t: Tensor) -> np.ndarray:
    dtype = DTYPES[t.dtype]
    rows = image[t.base : t.base + t.rows * t.pitch].reshape(t.rows, t.pitch)
    return rows[:, : t.cols * dtype.itemsize].view(dtype)
