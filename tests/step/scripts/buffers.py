# type: ignore
"""A buffer streamed by a reference."""

from common import *
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn
from step_py.ops import *
from step_py.utility_ops import *

x = values(16, 32)
b = Bufferize(graph, load(x, (8, 16)), 1)
ref = RepeatStatic(graph, Flatten(graph, load(x, (8, 32)), 0, 1), 3)
b = Promote(graph, b, 0)
y = DynStreamify(graph, b, ref, 0, 1)
s = Accum(
    graph,
    Flatten(graph, y, 0, 1),
    Tile(Float32(), (8, 16)),
    accum_fn.Add(),
    init_fn.Zero((8, 16), Float32()),
    1,
    False,
    64,
)
store(s)
run()
check("out", 3 * (x[:, :16] + x[:, 16:]))
