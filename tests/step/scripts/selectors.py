# type: ignore
"""Numbers from selectors, selectors from numbers, and a row by its number."""

from common import *
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn, map_fn
from step_py.ops import *
from step_py.utility_ops import *

x = values(24, 16)
chosen, other = np.array([2, 0, 1, 2]), np.array([2, 1, 1, 0])
index = UnaryMap(graph, SelectGen(True, np.eye(3)[chosen], 3), map_fn.SelectToScalar(), False, 1)
same = BinaryMap(graph, index, MetadataGen(other), map_fn.IsEqual(), False, 1)
tiles = RandomOffChipLoad(graph, x, index, 8, 16, 0, 4)
column = UnaryMap(graph, index, map_fn.MaskRow(Tile(Float32(), (8, 16))), False, 1)
picked = BinaryMap(graph, tiles, column, map_fn.Mul(), False, 64)
parts = FlatPartition(graph, picked, same, 0, [1, 1], False, 2)
ConsumerContext(graph, (parts, 1))
kept = Accum(
    graph,
    Reshape(graph, (parts, 0), 2, 0, False, pad_fn=init_fn.Zero((8, 16), Float32())),
    Tile(Float32(), (8, 16)),
    accum_fn.Add(),
    init_fn.Zero((8, 16), Float32()),
    1,
    False,
    64,
)
out = np.zeros((8, 16), np.float32)
stored = RandomOffChipStore(graph, out, kept, MetadataGen(np.array([0])), 8, 16, 0, 4)
ConsumerContext(graph, stored)
run()
wanted = np.zeros((8, 16))
for i in chosen[chosen == other]:
    wanted[i] += x[8 * i + i]
check(str(stored), wanted)
