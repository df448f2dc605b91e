"""The DAG memory scheduler: group operations, tile them, order the tiles and retain tensors for
least latency.
"""

from .demand import ScheduleError
from .evaluate import Evaluation, evaluate
from .meter import SubgraphCost
from .problem import Op, OpType, Problem, Tensor
from .readings import Readings
from .solution import Schedule, Subgraph

__all__ = [
    "Evaluation",
    "Op",
    "OpType",
    "Problem",
    "Readings",
    "Schedule",
    "ScheduleError",
    "Subgraph",
    "SubgraphCost",
    "Tensor",
    "evaluate",
]
