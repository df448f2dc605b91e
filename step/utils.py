"""Helpers by the public names: kernels, drawings, comparisons with expected values, experts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import networkx as nx

from .datatype import DynDim, Float32
from .functions import MODULES
from .operator import StepOps, get_stream
from .ops import BY_NAME
from .translation import array, reconstruct_numpy

RTOL, ATOL = 1e-4, 1e-6
"""Within which values count as equal."""


@dataclass
class LinearTileConfig:
    """Tiles of a product [M, K] x [K, N]."""

    m: int
    k: int
    n: int


def linear(
    step_graph: nx.MultiDiGraph,
    input: Any,
    weight: Any,
    tile_config: LinearTileConfig,
    comp_bw: int,
    write_back_mu: bool,
    par_dispatch: int = 4,
) -> StepOps:
    """The product of a tensor, or of a stream of tiles, and a weight; summed over K."""
    inner, cols = map(int, weight.shape)
    steps, parts = inner // tile_config.k, cols // tile_config.n
    rows: StepOps
    if isinstance(input, StepOps | tuple):
        outer = tuple(get_stream(input).shape[1:-1])
        if parts == 1:
            rows = BY_NAME["Reshape"](step_graph, input, 1, 1, False)
        else:
            rows = BY_NAME["Streamify"](
                step_graph, BY_NAME["Bufferize"](step_graph, input, 1), [parts], 1
            )
    else:
        *more, height, _ = map(int, input.shape)
        outer = (*more, height // tile_config.m)
        rows = BY_NAME["OffChipLoad"](
            input, (steps, 0, 1), (*outer, parts, steps), tile_config.m, tile_config.k, par_dispatch
        )
    columns = BY_NAME["OffChipLoad"](
        weight,
        (*(0 for _ in outer), 1, parts),
        (*outer, parts, steps),
        tile_config.k,
        tile_config.n,
        par_dispatch,
    )
    return BY_NAME["BinaryMapAccum"](
        step_graph,
        rows,
        columns,
        MODULES["map_accum_fn"]["Matmul"](),
        MODULES["init_fn"]["Zero"]((tile_config.m, tile_config.n), Float32()),
        1,
        write_back_mu,
        comp_bw,
    )


def shape_to_str(shape: tuple, dyndim_max_length: int = 10) -> str:
    """A shape as text; long expressions are cut."""

    def cut(text: str) -> str:
        most = dyndim_max_length
        return text if len(text) <= most else text[: most - 3] + "..."

    return str([cut(str(d)) if isinstance(d, DynDim) else d for d in shape])


def save_graph_format(
    digraph: nx.MultiDiGraph, output_filename: str, format: list[str], subgraph_nodes: Any = None
) -> None:
    """Draw a graph: OUTPUT.dot, which Graphviz turns into the formats asked for."""
    lines = [f'  {n.instance_id} [shape=box, label="{n}"];' for n in digraph.nodes]
    lines += [f"  {a.instance_id} -> {b.instance_id};" for a, b in digraph.edges()]
    text = "\n".join(["digraph {", *lines, "}", ""])
    Path(f"{output_filename}.dot").write_text(text, encoding="utf-8")


def check_gold_tensor(sim_out_path: str, gold: Any) -> bool:
    """True if a stored tensor is the expected one; prints which, and the largest difference."""
    found, expected = reconstruct_numpy(sim_out_path), array(gold)
    alike = found.shape == expected.shape
    same = alike and np.allclose(found, expected, RTOL, ATOL)
    differ = alike and not same and found.size
    apart = f", largest difference {np.abs(found - expected).max()}" if differ else ""
    shapes = f"shapes {list(found.shape)} and {list(expected.shape)}"
    print(f"{sim_out_path}: {'equal' if same else 'differs'} ({shapes}{apart})")
    return same


def check_gold_npy(sim_out_path: str, gold_path: str) -> bool:
    """The same with the expected values in a file."""
    return check_gold_tensor(sim_out_path, np.load(f"{gold_path}.npy"))


def is_valid_view(tensor: Any, new_shape: tuple) -> bool:
    """True if a tensor has as many elements as a shape."""
    if any(isinstance(d, DynDim) for d in new_shape):
        return False
    return array(tensor).size == int(np.prod(new_shape))


def _like(tensor: Any, values: np.ndarray) -> Any:
    """Values as a tensor of the library of another."""
    return tensor.new_tensor(values) if hasattr(tensor, "new_tensor") else values


def topk_to_onehot(topk_indices: Any, num_experts: int) -> Any:
    """Choices [.., k] as [.., k, experts]."""
    return _like(topk_indices, np.eye(num_experts, dtype=np.int64)[array(topk_indices)])


def topk_to_multihot(topk_indices: Any, num_experts: int) -> Any:
    """Choices [.., k] as [.., experts]."""
    hot = np.eye(num_experts, dtype=np.int64)[array(topk_indices)].sum(-2)
    return _like(topk_indices, hot)


def expert_distribution_from_topk(topk_indices: Any, num_experts: int) -> list[int]:
    """Rows of each expert."""
    return np.bincount(array(topk_indices).ravel(), minlength=num_experts).tolist()


def moe_gold_calc(
    input_tensor: Any,
    expert_indices: Any,
    expert_weights: Any,
    linear_gate_list: list[Callable],
    linear_up_list: list[Callable],
    linear_down_list: list[Callable],
) -> Any:
    """Rows by their experts: down(silu(gate(x)) * up(x)), weighted and summed."""
    y = input_tensor * 0
    layers = zip(linear_gate_list, linear_up_list, linear_down_list, strict=True)
    for i, (gate, up, down) in enumerate(layers):
        rows, places = (_like(expert_indices, a) for a in np.nonzero(array(expert_indices) == i))
        a = gate(input_tensor[rows])
        out = down(a / (1 + (-a).exp()) * up(input_tensor[rows]))
        y[rows] += out if expert_weights is None else out * expert_weights[rows, places, None]
    return y


def _names(pattern: str) -> dict[str, object]:
    return {n: v for n, v in globals().items() if re.fullmatch(pattern, n)}


UTILS: dict[str, dict[str, object]] = {
    "utils.draw_graph": _names("shape_to_str|save_graph_format"),
    "utils.gold_checking": _names("reconstruct_numpy|check_gold.*"),
    "utils.moe": _names("topk_.*|expert_.*|moe_.*"),
    "utils.shape_checking": _names("is_valid_view"),
    "step_py.kernels.linear": {"Linear": linear, "LinearTileConfig": LinearTileConfig},
}
"""Public modules of helpers and their names."""
