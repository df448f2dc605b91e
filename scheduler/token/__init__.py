"""The overlay's mapper: partition, placement, static schedules and their lower bounds
(docs/overlay.md).
"""

from .bounds import Bounds
from .check import check
from .floors import Floor, floor
from .mapping import MEAN, METHODS, Mapped, map_graph, methods_of, source_bits
from .partition import OBJECTIVES, place
from .schedule import Schedule
from .search import Effort

__all__ = [
    "MEAN",
    "METHODS",
    "OBJECTIVES",
    "Bounds",
    "Effort",
    "Floor",
    "Mapped",
    "Schedule",
    "check",
    "floor",
    "map_graph",
    "methods_of",
    "place",
    "source_bits",
]
