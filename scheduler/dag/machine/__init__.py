"""A schedule on the machine: one STeP program per subgraph, the machine
it stands for, and smaller versions of both.
"""

from .lower import Held, Lowered, lower_subgraph
from .rates import Fabric, derive
from .scale import shrink

__all__ = ["Fabric", "Held", "Lowered", "derive", "lower_subgraph", "shrink"]
