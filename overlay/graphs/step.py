"""Small STeP programs as dataflow graphs: every element of every tile becomes nodes.

The program's own evaluation (:class:`~penstock.frontend.meaning.evaluator.Evaluator`) runs over
arrays of nodes instead of numbers, so the order of all sums is that of ``docs/arithmetic.md``, and
values are those of the tiled machine bit for bit, SiLU excepted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import sympy

from ...frontend.graph import Graph
from ...frontend.meaning.evaluator import Evaluator
from ...frontend.program import Program, build
from ...machine import arith
from ...machine.errors import ProgramError
from ...machine.limits import SEEDS, within
from ..core.dataflow import DataflowGraph
from ..core.ops import Op
from .builder import Builder, Value, absolute, exp, where

NODE_LIMIT = 2_000_000
"""Scalarising stops here: a larger program is meant for the tiled machine."""

CONSTANT_USES = 64
"""Uses of a constant's node; beyond, it gets another."""


def _maximum(x, y):
    """NaN if either is; +0 above -0."""
    larger = where(x < y, y, where(x == y, where(x == 0.0, x + y, x), x))
    return where(x == x, where(y == y, larger, y + y), x + x)


def _silu(x):
    """x / (1 + e**-x): four roundings where the tiled machine's unit has one."""
    return x / (1.0 + exp(0.0 - x))


def _cast_bf16(x):
    """x rounded to eight bits of significand, nearest even: x + M - M, where M = 1.5 * 2**16 times
    the power of two in x.
    """
    large = 2.0**64 < absolute(x)
    y = where(large, x * 2.0**-64, x)  # so that nothing below overflows
    q = y * (2.0**23 + 1)
    m = absolute(q - q * (1 - 2.0**-24)) * (1.5 * 2**16)
    r = y + m - m
    r = where(large, r * 2.0**64, r)
    same = (x == 0.0) | (absolute(x) == float("inf"))
    return where(same, x * 1.0, r)


SCALAR: dict[str, Callable] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "exp": exp,
    "max": _maximum,
    "silu": _silu,
    "cast_bf16": _cast_bf16,
    "cast_fp32": lambda x: x * 1.0,
}
"""Function name -> its meaning on nodes, bit for bit but for SiLU.

A user's own function is added by an entry.
"""


def on_arrays(function: Callable, operands: int) -> Callable[..., np.ndarray]:
    """A function of nodes on arrays of them, element by element."""
    return np.frompyfunc(function, operands, 1)


class _Nodes(Evaluator):
    """The evaluator over object arrays of nodes; padding is the number 0, and what is computed from
    numbers alone stays a number.
    """

    def __init__(
        self,
        builder: Builder,
        tensors: dict[str, np.ndarray],
        t: int,
        scalar: dict[str, Callable],
        sources: dict | None,
        order: dict[str, list[int]] | None,
    ):
        super().__init__(tensors, t, self._dot, self._function, object, sources, order)
        self.builder = builder
        self.scalar = scalar
        self.rounds = False  # whether a cast is in use

    @contextmanager
    def _numbers(self):
        """Within, inputs are read as what they are given as: fp32 numbers."""
        self.dtype = np.dtype(np.float32)
        yield
        self.dtype = np.dtype(object)

    def tensor(self, ref):
        with self._numbers():
            values = super().tensor(ref)
        return self._inputs(ref.name, values)

    def source(self, node):
        with self._numbers():
            elements = super().source(node)
        return [
            (self._inputs(f"{node.name}[{k}]", v) if isinstance(v, np.ndarray) else v, s)
            for k, (v, s) in enumerate(elements)
        ]

    def _inputs(self, name: str, values: np.ndarray) -> np.ndarray:
        self._room_for(values.size)
        out = np.empty(values.shape, object)
        for (i, j), v in np.ndenumerate(values):
            out[i, j] = self.builder.input(f"{name}[{i},{j}]", float(v))
        return out

    def _function(self, name: str):
        if name not in self.scalar:
            raise ProgramError(
                f"function {name} has no meaning on nodes",
                f"graph {self.builder.title}",
                remedy=(
                    f"there are {', '.join(SCALAR)}; add an entry to "
                    "penstock.overlay.graphs.step.SCALAR"
                ),
            )
        f = self.scalar[name]

        def on_nodes(*operands):
            if not any(isinstance(x, Value) for x in operands):
                b = Builder()  # a number stays a number: what the graph would give
                b.output("y", f(*(b.constant(float(x)) for x in operands)))
                return float(b.graph().evaluate()[-1])
            self.rounds |= f is _cast_bf16
            return f(*(self.builder.lift(x) for x in operands))

        def on_tiles(*arrays: np.ndarray) -> np.ndarray:
            self._room_for(arrays[0].size)
            return on_arrays(on_nodes, len(arrays))(*arrays)

        return on_tiles

    def _room_for(self, more: int) -> None:
        if len(self.builder) + more > NODE_LIMIT:
            raise _too_large(self.builder.title)

    def _dot(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Products, summed as a balanced tree over k (arith.matmul, on nodes)."""
        self._room_for(2 * a.size * b.shape[1])
        times = on_arrays(self._times, 2)
        plus = on_arrays(self._plus, 2)
        products = times(a[:, :, None], b[None, :, :])
        while products.shape[1] > 1:
            products = plus(products[:, 0::2], products[:, 1::2])
        return products[:, 0]

    def _times(self, x, y):
        if isinstance(x, Value) or isinstance(y, Value):
            return self.builder.lift(x) * self.builder.lift(y)
        return float(arith.mul(np.array([x], np.float32), np.array([y], np.float32))[0])

    def _plus(self, x, y):
        if isinstance(x, Value) or isinstance(y, Value):
            if self._is_zero(y) and self._never_minus_zero(x):
                return x
            return self.builder.lift(x) + self.builder.lift(y)
        return float(arith.add(np.array([x], np.float32), np.array([y], np.float32))[0])

    @staticmethod
    def _is_zero(x) -> bool:
        return not isinstance(x, Value) and x == 0 and not np.signbit(x)

    def _never_minus_zero(self, x: Value) -> bool:
        """True if a node is a sum with +0, to which another +0 adds nothing."""
        op, *operands, _ = self.builder._rows[x.node]
        return op is Op.ADD and any(
            self.builder._rows[i][0] is Op.CONST and self._is_zero(self.builder._rows[i][3])
            for i in operands
        )


def _too_large(title: str) -> ProgramError:
    return ProgramError(
        f"has more than {NODE_LIMIT} nodes",
        f"graph {title}",
        remedy="choose smaller tensors, for example with t=4",
    )


def scalarise(
    graph: Graph,
    tensors: dict[str, np.ndarray],
    t: int,
    title: str = "step",
    sources: dict | None = None,
    order: dict[str, list[int]] | None = None,
) -> DataflowGraph:
    """The dataflow graph of a STeP program for the tile edge ``t``, which fixes the order of sums.

    Numbers become nodes; what chooses and addresses (selectors, scalars, sizes) is fixed by
    ``sources``, the elements of each Source by operator name. Inputs are ``tensor[row,col]``, and
    ``source[k][row,col]`` for tile k of a Source, with the given values as defaults; outputs are
    stored tensors and the tiles of each Sink, likewise. A bf16 number travels as the fp32 number of
    the same value, and what is fed to a bf16 tensor must be one. Units that are taken as they
    arrive are taken in turn, or in the ``order`` of a run (as of
    :class:`~penstock.frontend.meaning.evaluator.Evaluator`). ``meta["rounds"]``: whether values are
    rounded by operations that only fp32 makes so. ProgramError for a function without meaning on
    nodes, a Source without elements, a program without numbers to store, over NODE_LIMIT nodes.
    """
    g = Builder(title, CONSTANT_USES)
    flops = sympy.Add(*(node.flops() for node in graph.nodes))
    if flops.is_number and flops > NODE_LIMIT:
        raise _too_large(title)
    nodes = _Nodes(g, tensors, t, SCALAR, sources, order)
    stored = nodes.run(graph)
    taken = {
        f"{name}[{k}]": v
        for name, items in nodes.sinks.items()
        for k, (v, _) in enumerate(items)
        if isinstance(v, np.ndarray)
    }
    numbers = {
        f"{name}[{i},{j}]": v
        for name, array in (stored | taken).items()
        for (i, j), v in np.ndenumerate(array)
    }
    if not numbers:
        raise ProgramError(
            "stores no numbers",
            f"graph {title}",
            "outputs of the graph are stored tensors and the tiles of sinks",
        )
    for name, v in numbers.items():
        g.output(name, v)
    return replace(g.graph(), meta={"rounds": nodes.rounds})


MOST_SIZE = 256
"""Largest size of a program that is scalarised: its nodes grow with the third power."""


def step_graph(
    spec: str, name: str, params: dict, size: int | None = None, tile: int = 4, seed: int = 0
) -> DataflowGraph:
    """The graph of a program by name or file, with seeded inputs, for tiles of ``tile`` x ``tile``;
    ``size`` is every size of the program that is not given.
    """
    if tile not in (2, 4, 8, 16):
        raise ProgramError(f"tile must be 2, 4, 8 or 16, not {tile}", f"graph {spec}")
    within("seed", seed, SEEDS, f"graph {spec}")
    if size is not None:
        if not 1 <= size <= MOST_SIZE:
            raise ProgramError(f"t must be from 1 to {MOST_SIZE}, not {size}", f"graph {spec}")
        params = {k: size for k, v in build(name, params).params.items() if type(v) is int} | params
    program: Program = build(name, params)
    return scalarise(program.graph, program.inputs(seed), tile, spec, program.streams(seed))
