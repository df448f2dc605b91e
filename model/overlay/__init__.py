"""The overlay's model: cycles, the cycle of every write, and use statistics of an image (docs/overlay.md)."""

from .simulate import Run, simulate

__all__ = ["Run", "simulate"]
