# type: ignore
"""Functions of one tile."""

from common import *
from step_py.datatype import *
from step_py.functions import map_fn
from step_py.ops import *
from step_py.utility_ops import *

x = np.abs(values(16, 32)) + 1
s = load(x, (8, 16))
for f in (
    map_fn.Square(),
    map_fn.MulImmediate(0.25),
    map_fn.AddImmediate(1.0),
    map_fn.SubImmediate(0.5),
    map_fn.Rsqrt(),
    map_fn.Pow2(),
):
    s = UnaryMap(graph, s, f, False, 256)
store(s)
run()
check("out", 2 ** (1 / np.sqrt(x * x * 0.25 + 0.5)))
