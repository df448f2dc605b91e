"""STeP programs: types, operators, graph, symbolic analysis, tiling and lowering."""

from penstock.machine.errors import LoweringError, ProgramError

from .functions import add, div, exp, function, matmul, maximum, mul, silu, sub
from .graph import FUNCTIONAL, OPERATORS, Graph, Operator, Stream, TensorRef, operator
from .types import (BufferType, Dim, DimKind, ScalarType, SelectorType, StreamType, TileType, TupleType, ceil_div)
from .compute_operators import Accum, Map, cast
from .memory_operators import Bufferize, LinearOffChipLoad, LinearOffChipStore, Sink, Source, Streamify
from .shape_operators import Broadcast, Expand, Flatten, Promote, Reshape, Zip
from .lowering import lower
from .analysis import Analysis, Metric, analyse, metric, register_rule
from .functions import register_float64
from .operator_reference import operator_reference
from .program import Program, build
from .text import print_graph, read_graph
from .draw import draw, to_dot

__all__ = [
    "Accum", "add", "analyse", "Analysis", "Broadcast", "Bufferize", "BufferType", "build", "cast", "ceil_div", "Dim", "DimKind", "div",
    "draw", "exp", "Expand", "Flatten", "function", "FUNCTIONAL", "Graph", "LinearOffChipLoad", "LinearOffChipStore", "lower",
    "LoweringError", "Map", "matmul", "maximum", "metric", "Metric", "mul", "operator", "Operator", "operator_reference", "OPERATORS", "print_graph", "Program",
    "ProgramError", "Promote", "read_graph", "register_float64", "register_rule", "Reshape", "ScalarType", "SelectorType", "silu", "Sink",
    "Source", "Stream", "Streamify", "StreamType", "sub", "TensorRef", "TileType", "to_dot", "TupleType", "Zip",
]


def __getattr__(name: str):
    """Function forms of the operators: ``accum`` for ``Accum`` and so on, registered ones included."""
    if name in FUNCTIONAL:
        return FUNCTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
