"""STeP programs: types, operators, graph, symbolic analysis, tiling and lowering."""

from ..machine.errors import LoweringError, ProgramError
from .analysis import Analysis, Metric, analyse, metric, register_rule
from .buffer_operators import Bufferize, Streamify
from .compute_operators import Accum, FlatMap, Map, Scan, cast
from .draw import draw, to_dot
from .edge_operators import Loop, Sink, Source
from .functions import (
    add,
    div,
    exp,
    function,
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
from .memory_operators import (
    LinearOffChipLoad,
    LinearOffChipStore,
    RandomOffChipLoad,
    RandomOffChipStore,
)
from .operator_reference import operator_reference
from .program import Program, build
from .routing_operators import EagerMerge, Partition, Reassemble
from .shape_operators import Broadcast, Expand, Fifo, Flatten, Promote, Reshape, Zip
from .stream_functions import (
    address,
    address_range,
    all_read,
    expert_addresses,
    last_tile_filter,
    retile_col,
    retile_row,
    retile_streamify,
    row_append,
    row_offset,
)
from .text import print_graph, read_graph
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
    "TupleType",
    "Zip",
    "add",
    "address",
    "address_range",
    "all_read",
    "analyse",
    "build",
    "cast",
    "ceil_div",
    "dim",
    "div",
    "draw",
    "exp",
    "expert_addresses",
    "function",
    "last_tile_filter",
    "lower",
    "matmul",
    "maximum",
    "metric",
    "mul",
    "operator",
    "operator_reference",
    "print_graph",
    "read_graph",
    "register_float64",
    "register_rule",
    "retile_col",
    "retile_row",
    "retile_streamify",
    "row_append",
    "row_max",
    "row_offset",
    "row_sum",
    "scale",
    "silu",
    "sub",
    "to_dot",
]


def __getattr__(name: str):
    """Function forms of the operators: ``accum`` for ``Accum`` and so on, registered ones included."""
    if name in FUNCTIONAL:
        return FUNCTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
