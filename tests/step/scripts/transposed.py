# type: ignore
"""Loads that transpose their tiles, and one that the end of a row triggers."""

from common import *
from step_py.datatype import *
from step_py.functions import map_fn
from step_py.ops import *
from step_py.utility_ops import *

x, w = values(16, 32), values(16, 48, seed=1)
rows = Flatten(graph, load(w, (16, 24)), 1, 1)  # [1, 1, 2]
a = LinearOffChipLoadRef(graph, rows, x, (2, 1), (2, 2), 8, 16, 4, transposed=True, trigger_rank=2)
b = RandomOffChipLoad(graph, x, MetadataGen(np.arange(4)), 8, 16, 0, 4, transposed=True)
b = Reshape(graph, b, 2, 0, False)
ConsumerContext(graph, rows)
store(BinaryMap(graph, a, b, map_fn.Add(), False, 64))
run()
tiles = x.reshape(2, 8, 2, 16).transpose(0, 3, 2, 1)  # rows of tiles, each tile turned
check("out", 2 * tiles.reshape(32, 16))
