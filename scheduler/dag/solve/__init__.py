"""The solver: candidate subgraphs, their tilings, and the cover that chooses among them."""

from .driver import Progress, Result, solve

__all__ = ["Progress", "Result", "solve"]
