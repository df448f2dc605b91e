"""STeP programs: types, operators, graph, symbolic analysis, tiling and lowering."""

from penstock.machine.errors import LoweringError, ProgramError

from .functions import add, div, exp, function, matmul, maximum, mul, silu, sub
from .graph import FUNCTIONAL, OPERATORS, Graph, Operator, Stream, TensorRef, operator
from .types import (BufferType, Dim, DimKind, ScalarType, SelectorType, StreamType, TileType, TupleType, ceil_div)
from .compute_operators import Accum, Map, cast
from .memory_operators import Bufferize, LinearOffChipLoad, LinearOffChipStore, Streamify
from .shape_operators import Broadcast, Expand, Flatten, Promote, Reshape, Zip
from .lowering import lower

__all__ = [
    "Accum", "Broadcast", "Bufferize", "BufferType", "Dim", "DimKind", "Expand", "Flatten", "FUNCTIONAL", "Graph", "LinearOffChipLoad",
    "LinearOffChipStore", "LoweringError", "Map", "Operator", "OPERATORS", "ProgramError", "Promote", "Reshape", "ScalarType", "SelectorType",
    "Stream", "Streamify", "StreamType", "TensorRef", "TileType", "TupleType", "Zip", "add", "cast", "ceil_div", "div", "exp", "function",
    "lower", "matmul", "maximum", "mul", "operator", "silu", "sub",
]


def __getattr__(name: str):
    """Function forms of the operators: ``accum`` for ``Accum`` and so on, registered ones included."""
    if name in FUNCTIONAL:
        return FUNCTIONAL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
