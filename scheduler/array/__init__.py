"""The array's compiler: packs, places, routes and balances a unit graph on an array, and checks it.

``map_program`` makes a :class:`Mapping`, the same one for the same program, array and seed.
"""

from .check import check_placement
from .mapping import Mapping, map_program

__all__ = ["Mapping", "check_placement", "map_program"]
