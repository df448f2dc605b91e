"""STeP programs: types, operators, graph, symbolic analysis, tiling and lowering."""

from ..machine.errors import LoweringError, ProgramError

from .functions import add, div, exp, function, matmul, maximum, mul, row_max, row_sum, scale, silu, sub
from .graph import FUNCTIONAL, OPERATORS, Graph, Operator, Stream, TensorRef, operator
from .types import (BufferType, Dim, DimKind, ScalarType, SelectorType, StreamType, TileType, TupleType, ceil_div, dim)
from .compute_operators import Accum, FlatMap, Map, Scan, cast
from .memory_operators import LinearOffChipLoad, LinearOffChipStore, RandomOffChipLoad, RandomOffChipStore
from .buffer_operators import Bufferize, Streamify
from .routing_operators import EagerMerge, Partition, Reassemble
from .shape_operators import Broadcast, Expand, Fifo, Flatten, Promote, Reshape, Zip
from .edge_operators import Loop, Sink, Source
from .stream_functions import (address, address_range, all_read, expert_addresses, last_tile_filter, retile_col, retile_row, retile_streamify, row_append,
                               row_offset)
from .lowering import lower
from .analysis import Analysis, Metric, analyse, metric, register_rule
from .functions import register_float64
from .operator_reference import operator_reference
from .program import Program, build
from .text import print_graph, read_graph
from .draw import draw, to_dot

__all__ = [
    "Accum", "add", "address", "address_range", "all_read", "analyse", "Analysis", "Broadcast", "Bufferize", "BufferType", "build", "cast",
    "ceil_div", "dim", "Dim", "DimKind", "div", "draw", "EagerMerge", "exp", "Expand", "expert_addresses", "Fifo", "FlatMap", "Flatten", "function",
    "FUNCTIONAL", "Graph", "last_tile_filter", "LinearOffChipLoad", "LinearOffChipStore", "Loop", "lower", "LoweringError", "Map", "matmul",
    "maximum", "metric", "Metric", "mul", "Operator", "operator", "operator_reference", "OPERATORS", "Partition", "print_graph", "Program",
    "ProgramError", "Promote", "RandomOffChipLoad", "RandomOffChipStore", "read_graph", "Reassemble", "register_float64", "register_rule", "Reshape",
    "retile_col", "retile_row", "retile_streamify", "row_append", "row_max", "row_offset", "row_sum", "ScalarType", "scale", "Scan", "SelectorType",
    "silu", "Sink", "Source", "Stream", "Streamify", "StreamType", "sub", "TensorRef", "TileType", "to_dot", "TupleType", "Zip",
]


def __getattr__(name: str):
    """Function forms of the operators: ``accum`` for ``Accum`` and so on, registered ones included."""
    if name in FUNCTIONAL:
        return FUNCTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
