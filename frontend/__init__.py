"""STeP programs: types, operators, graph, symbolic analysis, tiling and lowering."""

from ..machine.errors import LoweringError, ProgramError
from .analysis.metrics import Analysis, Metric, analyse, metric, register_rule
from .arguments import Arguments, argument
from .functions.layout import col_max, col_sum, mask, rotate, transpose
from .functions.streams import (
    address,
    address_range,
    all_read,
    expert_addresses,
    integers,
    last_tile_filter,
    number,
    retile_col,
    retile_row,
    retile_streamify,
    row_append,
    row_offset,
)
from .functions.tiles import (
    add,
    div,
    exp,
    function,
    immediate,
    matmul,
    maximum,
    mul,
    register_float64,
    row_max,
    row_sum,
    scale,
    silu,
    sub,
)
from .graph import FUNCTIONAL, OPERATORS, Graph, Operator, Stream, TensorRef, operator
from .lowering import lower
from .operators.boundary import Loop, Sink, Source
from .operators.buffers import Bufferize, Streamify
from .operators.compute import Map, cast, rotary, where
from .operators.flat_map import FlatMap
from .operators.linear_memory import LinearOffChipLoad, LinearOffChipStore
from .operators.random_memory import RandomOffChipLoad, RandomOffChipStore
from .operators.reduction import Accum, Scan
from .operators.reshape import Reshape
from .operators.routing import EagerMerge, Partition, Reassemble, TopK
from .operators.shapes import Broadcast, Expand, Fifo, Flatten, Promote, Zip
from .program import Program, build
from .show.draw import draw, to_dot
from .show.operator_pages import operator_reference
from .show.text import print_graph, read_graph
from .types import (
    BufferType,
    Dim,
    DimKind,
    ScalarType,
    SelectorType,
    StreamType,
    TileType,
    TupleType,
    ceil_div,
    dim,
)

__all__ = [
    "FUNCTIONAL",
    "OPERATORS",
    "Accum",
    "Analysis",
    "Arguments",
    "Broadcast",
    "BufferType",
    "Bufferize",
    "Dim",
    "DimKind",
    "EagerMerge",
    "Expand",
    "Fifo",
    "FlatMap",
    "Flatten",
    "Graph",
    "LinearOffChipLoad",
    "LinearOffChipStore",
    "Loop",
    "LoweringError",
    "Map",
    "Metric",
    "Operator",
    "Partition",
    "Program",
    "ProgramError",
    "Promote",
    "RandomOffChipLoad",
    "RandomOffChipStore",
    "Reassemble",
    "Reshape",
    "ScalarType",
    "Scan",
    "SelectorType",
    "Sink",
    "Source",
    "Stream",
    "StreamType",
    "Streamify",
    "TensorRef",
    "TileType",
    "TopK",
    "TupleType",
    "Zip",
    "add",
    "address",
    "address_range",
    "all_read",
    "analyse",
    "argument",
    "build",
    "cast",
    "ceil_div",
    "col_max",
    "col_sum",
    "dim",
    "div",
    "draw",
    "exp",
    "expert_addresses",
    "function",
    "immediate",
    "integers",
    "last_tile_filter",
    "lower",
    "mask",
    "matmul",
    "maximum",
    "metric",
    "mul",
    "number",
    "operator",
    "operator_reference",
    "print_graph",
    "read_graph",
    "register_float64",
    "register_rule",
    "retile_col",
    "retile_row",
    "retile_streamify",
    "rotary",
    "rotate",
    "row_append",
    "row_max",
    "row_offset",
    "row_sum",
    "scale",
    "silu",
    "sub",
    "to_dot",
    "transpose",
    "where",
]


def __getattr__(name: str):
    """Every registered operator, as a class and as a function: ``Accum`` and ``accum``."""
    for known in (OPERATORS, FUNCTIONAL):
        if name in known:
            return known[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
