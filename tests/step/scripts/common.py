# type: ignore
"""Parts that the scripts of this folder share: tensors, loads, a store, and a run."""

import numpy as np
from graph.graph import MultiDiGraph
from rewrite.broadcast import infer_broadcast
from sim import HBMConfig, SimConfig, simulate
from step_py.ops import LinearOffChipLoad, OffChipStore

graph = MultiDiGraph()


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def load(tensor, tile, shape=None, stride=None):
    """All tiles of a tensor, row by row, or those of a shape and its strides."""
    rows, cols = (n // m for n, m in zip(tensor.shape, tile, strict=True))
    return LinearOffChipLoad(tensor, stride or (cols, 1), shape or (rows, cols), *tile, 4)


def store(stream, name="out"):
    return OffChipStore(graph, stream, 4, name)


def run(depth=2, **memory):
    hbm = {
        "addr_offset": 64,
        "channel_num": 32,
        "per_channel_latency": 2,
        "per_channel_init_interval": 2,
        "per_channel_outstanding": 1,
        "per_channel_start_up_time": 14,
    }
    config = HBMConfig(**hbm | memory)
    return simulate(infer_broadcast(graph), False, config, SimConfig(depth), "graph.pb")


def check(name, expected):
    """Refuse stored values that are not the expected ones."""
    atol = 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(np.load(f"{name}.npy"), expected, rtol=1e-4, atol=atol)
