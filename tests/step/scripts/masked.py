# type: ignore
"""Rows gathered into tiles, padded, and taken apart again without the padding; loads that begin in
a tensor.
"""

from common import *
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn, map_fn
from step_py.ops import *
from step_py.utility_ops import *

x, out = values(12, 32), np.zeros((9, 16), np.float32)
rows = LinearOffChipLoad(x, (6, 2), (3, 3), 1, 16, 4, start_tile_idx=5)
rows = ReshapePadStream(graph, rows, 2, 0, False, init_fn.Zero((1, 16), Float32()))


def gathered(port, element, cols):
    tile = DynTile(element, (2, cols))
    empty = init_fn.Empty((0, cols), element)
    return Accum(graph, (rows, port), tile, accum_fn.RetileRow(), empty, 1, False, 64)


twice = UnaryMap(graph, gathered(0, Float32(), 16), map_fn.MulImmediate(2.0), False, 64)
kept = FlatmapFilterRowStreamify(graph, twice, gathered(1, Bool(), 1))
at = MetadataGen(np.arange(9).reshape(3, 3))
stored = RandomOffChipStore(graph, out, kept, at, 1, 16, 0, 4)
ConsumerContext(graph, stored)
run()
check(str(stored), 2 * x[2:11, 16:])
