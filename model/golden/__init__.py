"""The timing contract in plain Python: every unit evaluated every cycle, nothing shared with the
compiled engine.

Slow and meant to be read beside docs/timing.md. Values are left out: a beat is (stop, data,
numbers), where numbers are a tile's valid rows and columns or a reference's page and tiles,
flattened over a tuple's members. What a unit sees in a cycle is the state at its start: channels
and posts change in `commit`, after all units have been evaluated.
"""

from .core import END, Beat
from .dram import Memory
from .machine import Golden

__all__ = ["END", "Beat", "Golden", "Memory"]
