# type: ignore
"""Shapes, parts of tiles, streams dealt in turn and gathered."""

from common import *
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn, map_fn
from step_py.ops import *
from step_py.utility_ops import *

x = values(32, 16)
s = Flatten(graph, load(x, (8, 16)), 0, 2)
s = PromoteOuter(graph, s)
s = ReshapePadStream(graph, s, 2, 0, False, None, False)
w = Accum(
    graph,
    s,
    Tile(Float32(), (8, 32)),
    accum_fn.RetileCol(),
    init_fn.Empty((8, 0), Float32()),
    1,
    True,
    64,
)
w = RetileStreamify(graph, w, split_row=False, chunk=16)
w = RetileStreamify(graph, w, split_row=True, chunk=4)
w = Flatten(graph, w, 0, 1)
p = Parallelize(graph, w, 0, 2)
m = StaticReassemble(
    graph, [UnaryMap(graph, (p, i), map_fn.MulImmediate(2.0), False, 64) for i in range(2)], 0
)
m = Promote(graph, PromoteOuter(graph, m), 0)
store(m)
run()
check("out", 2 * x)
