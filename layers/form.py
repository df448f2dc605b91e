"""Internal form of a layer: a few canonical operations on named values, in order.

What reads an archive makes it (:mod:`.reader`), a table says how each operation of PyTorch becomes
canonical ones (:mod:`.operations`), :mod:`.meaning` says what these compute, and the emitter makes
a program of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy

Size = int | sympy.Expr
"""Size of a dimension: an integer, or an expression of symbols of the layer."""


@dataclass(frozen=True)
class Ref:
    """A value as an argument."""

    name: str


Argument: TypeAlias = Any
"""None, bool, number, text, size, `Ref`, `Body`, or a tuple of these."""


@dataclass(frozen=True)
class Value:
    """A tensor.

    Attributes
    ----------
    shape
        Sizes, outermost first; () is a scalar.
    dtype
        NumPy's name: float32, bfloat16, int64, bool, ...
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str


@dataclass(frozen=True)
class Operation:
    """One canonical operation.

    Attributes
    ----------
    op
        Its name in the table of :mod:`.meaning`.
    args
        Arguments by the names that the table gives them.
    outputs
        Values that it makes: one, but for ``topk`` and ``sort``.
    module
        Path of the module that it comes from, as ``layer.self_attn.q_proj``; "" is the layer.
    line
        Line of the model's source: file from its package on, number, text.
    """

    op: str
    args: Mapping[str, Argument]
    outputs: tuple[Value, ...]
    module: str = ""
    line: str = ""

    @property
    def out(self) -> Value:
        return self.outputs[0]

    def reads(self) -> Iterator[str]:
        """Names of the values that it reads, in the order of its arguments."""
        for a in self.args.values():
            yield from names_in(a)


@dataclass(frozen=True)
class Body:
    """The computation of one expert, on the rows that are routed to it.

    Attributes
    ----------
    rows
        Its input, [rows, H]; the number of rows is a symbol of its own.
    weights
        Values by name that its operations read, and where each expert has its own: a stack
        [experts, ...], or one value an expert.
    operations
        In order; the last makes the result, [rows, H].
    """

    rows: Value
    weights: Mapping[str, Ref | tuple[Ref, ...]]
    operations: tuple[Operation, ...]

    @property
    def out(self) -> Value:
        return self.operations[-1].out


@dataclass(frozen=True)
class Weight:
    """A parameter, buffer or constant tensor of the archive.

    Attributes
    ----------
    path
        Its name in the model, as ``layer.mlp.gate_proj.weight``.
    member
        Its entry in the archive, uncompressed and little-endian.
    offset, strides
        Of its first element and between elements of a dimension, in elements.
    parameter
        Whether it is learned; buffers and constants are not.
    """

    value: Value
    path: str
    member: str
    offset: int
    strides: tuple[int, ...]
    parameter: bool = True


@dataclass(frozen=True)
class Output:
    """A result: ``out0``, ``out1``, ... in the order of the signature.

    Attributes
    ----------
    name
        Its value.
    mutates
        The input that it is the new content of, where the layer writes in place.
    """

    name: str
    mutates: str | None = None


@dataclass(frozen=True)
class Layer:
    """A layer as it is to be computed.

    Attributes
    ----------
    name
        Of the archive, without its suffix.
    archive, digest
        Path of the archive, and SHA-256 of its table of contents, in hex.
    inputs
        User inputs, by the names and in the order of the signature.
    weights
        Weights by the names of their values.
    symbols
        Least and most of each size that the run decides; None: unbounded. All sizes of values are
        expressions of these; equalities of the archive's guards are substituted.
    equalities
        Pairs of sizes that a run must find equal, where substitution was not possible.
    control
        Operations on integer inputs, sizes, buffers and constants alone: evaluated before the
        start, by :mod:`.interpret`.
    operations
        All others.
    outputs
        Results.
    """

    name: str
    archive: str
    digest: str
    inputs: tuple[Value, ...]
    weights: Mapping[str, Weight]
    symbols: Mapping[str, tuple[int, int | None]]
    equalities: tuple[tuple[Size, Size], ...]
    control: tuple[Operation, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Output, ...]

    def allows(self, symbol: str, n: int) -> bool:
        """True if a size is in the range of its symbol."""
        least, most = self.symbols.get(symbol, (0, None))
        return least <= n and (most is None or n <= most)

    def allowed(self, symbol: str) -> str:
        """Range of a symbol, for messages."""
        least, most = self.symbols.get(symbol, (0, None))
        return f"from {least} to {most or 'any number'}"

    @functools.cached_property
    def values(self) -> dict[str, Value]:
        """All values by name."""
        found = {v.name: v for v in self.inputs}
        found |= {name: w.value for name, w in self.weights.items()}
        return found | {v.name: v for op in self.control + self.operations for v in op.outputs}

    @functools.cached_property
    def makers(self) -> dict[str, Operation]:
        """The operation that makes a value, by the value's name."""
        return {v.name: op for op in self.control + self.operations for v in op.outputs}

    def maker(self, x: Argument, *through: str) -> Operation | None:
        """The operation that makes a value; operations ``through`` are passed by."""
        op = self.makers.get(x.name) if isinstance(x, Ref) else None
        while op is not None and op.op in through:
            op = self.makers.get(op.args["x"].name)
        return op


def names_in(argument: Argument) -> Iterator[str]:
    """Names of the values in an argument."""
    if isinstance(argument, Ref):
        yield argument.name
    elif isinstance(argument, tuple):
        for a in argument:
            yield from names_in(a)
    elif isinstance(argument, Body):
        for a in argument.weights.values():
            yield from names_in(a)
