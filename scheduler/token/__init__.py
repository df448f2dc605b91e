"""The overlay's mapper: partition, placement, static schedules and their lower bounds
(docs/overlay.md).
"""

from .bounds import Bounds
from .check import check
from .mapping import Mapped, map_graph, source_bits
from .partition import OBJECTIVES, place
from .schedule import Schedule

__all__ = [
    "OBJECTIVES",
    "Bounds",
    "Mapped",
    "Schedule",
    "check",
    "map_graph",
    "place",
    "source_bits",
]
