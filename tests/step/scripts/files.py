# type: ignore
"""Tensors whose sizes a file says."""

import json

from common import *
from step_py.datatype import *
from step_py.functions import map_fn
from step_py.ops import *

x = values(16, 32)
np.save("stored.npy", x.reshape(-1))
for name in ("stored.json", "shape.json"):
    with open(name, "w") as f:
        json.dump([16, 32], f)
tiles = DynLinearOffChipLoad("stored", (DynDim("rows"), 2), np.float32, 8, 16, 4)
twice = UnaryMap(graph, tiles, map_fn.MulImmediate(2.0), False, 64)
DynOffChipStore(graph, twice, "shape.json", 4, "out")
run()
check("out", 2 * x)
