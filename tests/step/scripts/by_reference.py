# type: ignore
"""Loads and repetition by a reference."""

from common import *
from step_py.datatype import *
from step_py.functions import map_fn
from step_py.ops import *
from step_py.utility_ops import *

x, w = values(16, 16), values(16, 32, seed=1)
a = Flatten(graph, load(x, (8, 16)), 0, 1)
ref = LinearOffChipLoadRef(graph, a, w, (1,), (2,), 16, 16, 4)
again = RepeatRef(graph, a, ref)
store(BinaryMap(graph, again, ref, map_fn.Matmul(), False, 256))
run()
check("out", np.concatenate([x @ w[:, :16], x @ w[:, 16:]], 1))
