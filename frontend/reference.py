"""What a program computes, in NumPy: every operator's meaning on whole streams, in the order the machine works in.

A stream is a list of ``(value, stop)``; a tile's value is its valid part, so the last tile of a tensor may be smaller than
its type. How elements are computed is a parameter: with the machine's arithmetic (``penstock.reference``) the stored tensors are
the model's and the RTL's bit for bit; with float64 they are what errors are measured against.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from penstock.machine.errors import ProgramError, RunError
from penstock.machine.image import DTYPES

from .functions import FLOAT64
from .graph import Graph, Stream, TensorRef
from .types import ceil_div


class Evaluator:
    """Evaluates a program.

    Parameters
    ----------
    tensors
        Input tensors by name, [rows, cols].
    t
        Edge of a physical tile: a product is summed over t columns of A at a time, in this order.
    dot
        ``dot(a, b)``: product of a [M, t] and b [t, N].
    functions
        ``functions(name)`` gives an element-wise function: arrays of one shape in, one out.
    dtype
        NumPy type of all values.
    sources
        Elements of each Source, by operator name.
    """

    def __init__(self, tensors: dict[str, np.ndarray], t: int, dot: Callable, functions: Callable[[str], Callable], dtype, sources: dict | None = None):
        self.tensors, self.t, self.dot, self.functions, self.dtype = tensors, t, dot, functions, np.dtype(dtype)
        self.sources, self.sinks, self.outputs = sources or {}, {}, {}
        self.symbols: dict[str, Fraction] = {}

    def run(self, graph: Graph) -> dict[str, np.ndarray]:
        """Evaluate all operators in order; the stored tensors by name, of the evaluator's own dtype.

        Raises RunError where a stream has not the shape that its type, or an assertion, says. Afterwards ``symbols`` holds the
        measured sizes by name: of a ragged dimension the mean, which makes every total exact.
        """
        streams = {}
        for node in graph.nodes:
            results = node.evaluate(self, *(streams[s.node.name, s.port] for s in node.inputs))
            for i, r in enumerate(results):
                streams[node.name, i] = r
                self.check_shape(node[i], [stop for _, stop in r])
        return self.outputs

    def check_shape(self, stream: Stream, stops: list[int]) -> None:
        """Compare the sizes that a stream's stops tell with its type, and learn the symbols in it."""
        where = f"stream {stream.name} {stream.type}" + (f" at {stream.node.line}" if stream.node.line else "")
        asserted = stream.port in stream.node.asserted
        rule = "asserted by the program" if asserted else "the shape rule of the operator"
        sizes: list[list[int]] = [[] for _ in stream.shape]
        open_ = [0] * len(stream.shape)
        for stop in stops:
            if stop > stream.rank:
                raise RunError(f"has a stop of level {stop}, its rank is {stream.rank}", where, rule)
            open_[0] += 1
            for level in range(stop):
                sizes[level].append(open_[level])
                open_[level] = 0
                open_[level + 1] += 1
        if any(open_[:-1]):
            raise RunError("ends within a dimension", where, rule)
        sizes[-1].append(open_[-1])
        for level, (d, seen) in enumerate(zip(reversed(stream.shape), sizes)):
            if not seen:
                continue
            if d.size.is_Symbol and str(d.size) not in self.symbols:
                self.symbols[str(d.size)] = Fraction(sum(seen), len(seen)) if d.kind.ragged else Fraction(seen[0])
            want = d.size.subs({s: self.symbols[str(s)] for s in d.size.free_symbols if str(s) in self.symbols})
            if not d.kind.ragged and want.is_number:
                wrong = [n for n in seen if n != want]
                if wrong:
                    raise RunError(f"dimension {level} is {wrong[0]} in the run, not {want}", where, rule,
                                   "correct the assertion" if asserted else None)

    def tensor(self, ref: TensorRef) -> np.ndarray:
        if ref.name not in self.tensors:
            raise ProgramError("no values given", f"input tensor {ref.name}", remedy=f"pass an array of shape [{ref.rows}, {ref.cols}]")
        a = np.asarray(self.tensors[ref.name])
        if a.shape != (ref.rows, ref.cols):
            raise ProgramError(f"has shape {list(a.shape)}, the program says [{ref.rows}, {ref.cols}]", f"input tensor {ref.name}")
        return a.astype(DTYPES[ref.dtype]).astype(self.dtype)

    def source(self, node) -> list:
        if node.name not in self.sources:
            raise ProgramError("no elements given", node.label, remedy="pass its elements as a list of (tile, stop)")
        return [(np.asarray(v, self.dtype), s) for v, s in self.sources[node.name]]

    def elementwise(self, name: str, *operands: np.ndarray) -> np.ndarray:
        """A function on the valid part of the first operand; the second reads as zero outside its own."""
        first, *rest = operands
        return self.functions(name)(first, *(_fit(x, first.shape) for x in rest)).astype(self.dtype)

    def matmul(self, acc: np.ndarray | None, a: np.ndarray, b: np.ndarray, a_type, transposed: bool) -> np.ndarray:
        """acc + a b, t columns of A at a time; the first product of all is taken as it is."""
        if transposed:
            b = b.T
        k = ceil_div(a_type.cols.value, self.t) * self.t
        a, b = _fit(a, (a.shape[0], k)), _fit(b, (k, b.shape[1]))
        for i in range(0, k, self.t):
            product = self.dot(a[:, i : i + self.t], b[i : i + self.t])
            acc = product if acc is None else self.functions("add")(acc, _fit(product, acc.shape))
        return acc


def _fit(a: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """``a`` cut or padded with zeros to ``shape``."""
    if a.shape == shape:
        return a
    out = np.zeros(shape, a.dtype)
    rows, cols = min(a.shape[0], shape[0]), min(a.shape[1], shape[1])
    out[:rows, :cols] = a[:rows, :cols]
    return out


def _float64(name: str) -> Callable:
    if name not in FLOAT64:
        raise ProgramError(f"function {name!r} has no float64 meaning", remedy=f"call penstock.frontend.functions.register_float64({name!r}, ...)")
    return FLOAT64[name]


def evaluate64(graph: Graph, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The stored tensors in float64: no rounding but that of the inputs to their own type."""
    return Evaluator(tensors, 1 << 20, np.matmul, _float64, np.float64).run(graph)
