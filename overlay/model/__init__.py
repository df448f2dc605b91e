"""The overlay's model: cycles, the cycle of every write, use statistics, and all values of an image
(docs/overlay.md).
"""

from .simulate import Run, simulate
from .values import values

__all__ = ["Run", "simulate", "values"]
