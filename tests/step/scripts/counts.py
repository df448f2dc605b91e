# type: ignore
"""Counts and addresses that streams carry."""

from common import *
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn, map_fn
from step_py.ops import *
from step_py.utility_ops import *

x, out = values(32, 16), np.zeros((32, 16), np.float32)
n = MetadataGen(np.array([2, 1, 3]))
count = FlatmapCounter(graph, n)
ld = RandomOffChipLoad(graph, x, count, 4, 16, 0, 4)
two = UnaryMap(graph, n, map_fn.ToConstInt(5), False, 0)
plus = UnaryMap(graph, n, map_fn.AddImmediate(1), False, 0)
PrinterContext(graph, two)
s = Accum(
    graph,
    ld,
    Tile(Float32(), (4, 16)),
    accum_fn.Add(),
    init_fn.Zero((4, 16), Float32()),
    1,
    False,
    64,
)
stored = RandomOffChipStore(graph, out, s, plus, 4, 16, 0, 4)
ConsumerContext(graph, stored)
run()
total = x.reshape(8, 4, 16).cumsum(0)
wanted = np.zeros((8, 4, 16))
for count in (2, 1, 3):
    wanted[count + 1] = total[count - 1]
check(str(stored), wanted.reshape(32, 16))
