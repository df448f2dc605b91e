# type: ignore
"""Linear layers, the second with a buffer."""

from common import *
from step_py.datatype import *
from step_py.kernels.linear import Linear, LinearTileConfig
from step_py.ops import *
from step_py.utility_ops import *

x, w = values(32, 32), values(32, 64, seed=1)
y = Linear(graph, x, w, LinearTileConfig(16, 16, 32), 1024, False)
z = Linear(graph, y, values(64, 32, seed=2), LinearTileConfig(16, 32, 16), 1024, True)
store(z)
run()
r = x @ w @ values(64, 32, seed=2)
check("out", x @ w @ values(64, 32, seed=2))
