"""A command line, and the files that it may read, as they should be."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass, field

import numpy as np

BIG = "9" * 5000


@dataclass
class Line:
    """A command line."""

    argv: list[str]  # its words
    # files beside those of :func:`base`, or in their place; None: a folder
    files: dict[str, bytes | None] = field(default_factory=dict)
    refused: bool | None = None  # whether it has to be refused; None: it may be taken

    @property
    def seconds(self) -> float:
        """Time that it is given with ``--time``."""
        return float("--time" in self.argv)


PROGRAM = """
from penstock.frontend import *

def program(n=8):
    g = Graph("mine")
    x, y = g.input("x", (n, 8), "fp32"), g.output("y", (n, 8), "fp32")
    {body}
    return g
{more}
"""


COPY = "LinearOffChipStore(LinearOffChipLoad(x, tile=(4, 8), shape=(n // 4,), stride=(1,)), y)"


MACHINE = """
description = "a small machine"
[machine]
t = 4
rows_per_cycle = 4
port_lanes = 4
load_lines = 64
[machine.lanes]
default = 16
[machine.dram]
channels = 4
"""


PROBLEM = {
    "widths": [16, 16, 16, 16],
    "heights": [16, 16, 16, 16],
    "inputs": [[0, 1], [2]],
    "outputs": [[2], [3]],
    "base_costs": [100, 10],
    "op_types": ["MatMul", "Pointwise"],
    "fast_memory_capacity": 2000,
    "slow_memory_bandwidth": 4,
    "native_granularity": [8, 8],
}


GRAPH = (
    "graph half\nx = input 1.5\ny = input 2\nk = const 0.5\ns = add x y\nh = mul s k\noutput z = "
    "h\n"
)


MATRIX = "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 1 2\n2 2 3\n3 3 4\n1 2 1\n2 1 1\n"


RECIPE = {
    "backend": "model",
    "message": "values differ",
    "origin": "seed 0",
    "config": {
        "name": "fuzz",
        "machine": {"t": 2, "rows_per_cycle": 2, "port_lanes": 2, "load_lines": 32},
        "stepsim": {},
    },
    "recipe": {
        "seed": 3,
        "run": {"depths": None, "depth": 0, "stalls": None},
        "steps": [
            {
                "op": "Source",
                "shape": ["static"],
                "tile": [2, 2],
                "dtype": "fp32",
                "elements": [[2, 2], [2, 2]],
            },
            {"op": "Map", "ins": [[0, 0]], "fn": ["exp", {}]},
        ],
    },
}


RECORD = {
    "workload": "w",
    "config": "c",
    "params": {"n": 1},
    "backend": "model",
    "timing": "machine",
    "cycles": 30,
    "dram_bytes": 640,
    "offchip_bytes": 600,
    "offchip_bytes_per_cycle": 64.0,
    "offchip_utilisation": 0.3,
    "flops": 100,
    "allocated_flops_per_cycle": 8,
    "seed": 0,
    "units": [
        {"name": "a", "kind": "load", "node": "l", "busy": 9, "blocked": 1, "starved": 20},
        {"name": "b", "kind": "sink", "node": "s", "busy": 9, "blocked": 1, "starved": 20},
    ],
    "channels": [{"name": "a_b", "src": "a", "dst": "b", "depth": 2, "occupancy": 0.5}],
}


OVERLAY = {k: v for k, v in RECORD.items() if k not in ("units", "channels")} | {
    "overlay": {
        "bounds": {"depth": 3, "work": 2, "link": 1, "best": 3},
        "variant": "static edge",
        "nodes": 4,
        "edges": 3,
        "depth": 3,
        "nodes_per_pe": 2,
        "cut_edges": 1,
        "memory_bits": 99,
    }
}


def base() -> dict[str, bytes]:
    """The files that every line finds."""
    lengths = io.BytesIO()
    routing = io.BytesIO()
    np.save(lengths, np.arange(64, dtype=np.uint8))
    np.savez(routing, data=np.zeros((64, 8), np.int64))
    schedule = {
        "subgraphs": [[0], [1]],
        "granularities": [[8, 8, 8], [8, 8, 1]],
        "tensors_to_retain": [[], []],
        "traversal_orders": [None, None],
        "subgraph_latencies": [400.0, 128.0],
    }
    texts = {
        "mine.py": PROGRAM.format(body=COPY, more=""),
        "mine.toml": MACHINE,
        "p.json": json.dumps(PROBLEM),
        "s.json": json.dumps(schedule),
        "fail.json": json.dumps(RECIPE),
        "r.json": json.dumps([RECORD, OVERLAY]),
        "g.dfg": GRAPH,
        "m.mtx": MATRIX,
    }
    files = {name: text.encode() for name, text in texts.items()}
    return files | {
        "l.npy": lengths.getvalue(),
        "e.npz": routing.getvalue(),
        "m.mtx.gz": gzip.compress(MATRIX.encode(), mtime=0),
    }
