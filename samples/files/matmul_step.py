"""A product of matrices in the Python of the STeP authors: y = a b, in tiles."""
# pyright: reportMissingImports=false

import numpy as np
from networkx import MultiDiGraph
from rewrite.broadcast import infer_broadcast
from sim import HBMConfig, SimConfig, simulate
from step_py.datatype import Float32
from step_py.functions import init_fn, map_accum_fn
from step_py.ops import BinaryMapAccum, OffChipLoad, OffChipStore
from utils.gold_checking import check_gold_tensor

M, K, N, TILE = 32, 48, 64, 16
rng = np.random.default_rng(1)
a = rng.standard_normal((M, K)).astype(np.float32)
b = rng.standard_normal((K, N)).astype(np.float32)

graph = MultiDiGraph()
rows, cols, steps = M // TILE, N // TILE, K // TILE
tiles = dict(out_shape_tiled=(rows, cols, steps), tile_row=TILE, tile_col=TILE, par_dispatch=4)
a_tiles = OffChipLoad(underlying=a, stride=(steps, 0, 1), **tiles)
b_tiles = OffChipLoad(underlying=b, stride=(0, 1, cols), **tiles)
product = BinaryMapAccum(
    graph=graph,
    in1=a_tiles,
    in2=b_tiles,
    fn=map_accum_fn.Matmul(),
    init_fn=init_fn.Zero(shape=(TILE, TILE), dtype=Float32()),
    rank=1,
    write_back_mu=True,
    compute_bw=1024,
)
OffChipStore(graph=graph, input=product, par_dispatch=4, store_file_name="y")
graph = infer_broadcast(graph)

print("off-chip bytes:", sum(node.off_chip_traffic() for node in graph.nodes))
memory = HBMConfig(64, 32, 2, 2, 1, 14)
cycles, _, _ = simulate(graph, False, memory, SimConfig(channel_depth=2), "graph.pb")
check_gold_tensor("y", a @ b)
