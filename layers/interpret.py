"""Evaluation of a layer in NumPy, operation by operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from ..machine.errors import ProgramError
from .archive import Archive
from .form import Argument, Body, Layer, Operation, Ref, Size, Value
from .meaning import MEANINGS, Result, dtype_of
from .sizes import unify
from .translation import is_float


def sizes_of(layer: Layer, inputs: Mapping[str, np.ndarray]) -> dict[sympy.Symbol, int]:
    """The symbols' values, from the shapes of inputs.

    Raises
    ------
    ProgramError
        Shapes do not fit each other, or are out of a symbol's range.
    """
    pairs = [
        (size, n)
        for v in layer.inputs
        for size, n in zip(v.shape, inputs[v.name].shape, strict=True)
    ]
    found, _ = unify([*pairs, *layer.equalities])
    for symbol, n in found.items():
        if not layer.allows(str(symbol), n):
            raise ProgramError(f"size {symbol} is {n}", layer.name, layer.allowed(str(symbol)))
    return found


class Evaluation:
    """Values of a run.

    Parameters
    ----------
    values
        Arrays by name: inputs, weights.
    sizes
        Values of symbols.
    wide
        Compute with all floats in fp64, and narrow none.
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray],
        sizes: Mapping[sympy.Symbol, int],
        *,
        wide: bool = False,
    ):
        self.wide = wide
        self.sizes = dict(sizes)
        self.values = {name: self._as_computed(a) for name, a in values.items()}

    def _as_computed(self, a: np.ndarray) -> np.ndarray:
        return a.astype(np.float64) if self.wide and is_float(a.dtype.name) else a

    def size(self, s: Size) -> int:
        if isinstance(s, int):
            return s
        return int(s.xreplace(self.sizes))

    def result(self, v: Value) -> Result:
        dtype = np.dtype(float) if self.wide and is_float(v.dtype) else dtype_of(v.dtype)
        # Sizes that the values decide (rows of an expert) are not known: no operation needs them.
        known = self.sizes.keys()
        shape = tuple(
            s if isinstance(s, int) else self.size(s) if s.free_symbols <= known else -1
            for s in v.shape
        )
        return Result(shape, dtype)

    def argument(self, a: Argument) -> Any:
        match a:
            case Ref(name=name):
                return self.values[name]
            case tuple():
                return tuple(self.argument(x) for x in a)
            case sympy.Expr():
                found = sympy.sympify(a.xreplace(self.sizes))
                return int(found) if found.is_Integer else float(found)
        return a

    def run(self, operations: Iterable[Operation]) -> None:
        """Evaluate operations in order."""
        for op in operations:
            if op.op == "experts":
                done = self._experts(op)
            else:
                args = {k: self.argument(a) for k, a in op.args.items()}
                done = MEANINGS[op.op](self.result(op.out), **args)
            several = done if isinstance(done, tuple) else (done,)
            for v, a in zip(op.outputs, several, strict=True):
                self.values[v.name] = a

    def _experts(self, op: Operation) -> np.ndarray:
        """The weighted sum of what the chosen experts make of each row."""
        x, indices, weights = (self.argument(op.args[k]) for k in ("x", "indices", "weights"))
        body, count = op.args["body"], op.args["count"]
        assert isinstance(body, Body) and isinstance(count, int)
        done = np.zeros((x.shape[0], self.size(body.out.shape[-1])), np.result_type(x, np.float32))
        for e in range(count):
            rows, slots = np.nonzero(indices == e)
            inner = Evaluation({}, self.sizes, wide=self.wide)
            inner.values = {n: self.argument(_of_expert(w, e)) for n, w in body.weights.items()}
            stacks = [n for n, w in body.weights.items() if isinstance(w, Ref)]
            inner.values |= {n: inner.values[n][e] for n in stacks}
            inner.values[body.rows.name] = x[rows]
            inner.sizes[body.rows.shape[0]] = len(rows)
            inner.run(body.operations)
            np.add.at(done, rows, inner.values[body.out.name] * weights[rows, slots][:, None])
        return done.astype(self.result(op.out).dtype)


def _of_expert(w: Ref | tuple[Ref, ...], e: int) -> Ref:
    return w if isinstance(w, Ref) else w[e]


def evaluate(
    layer: Layer, inputs: Mapping[str, np.ndarray], *, wide: bool = False
) -> dict[str, np.ndarray]:
    """All values of a layer by name; ``wide``: with all floats in fp64."""
    archive = Archive(layer.archive)
    weights = {n: archive.array(w) for n, w in layer.weights.items()}
    run = Evaluation(weights | dict(inputs), sizes_of(layer, inputs), wide=wide)
    try:
        run.run(layer.control + layer.operations)
    except (IndexError, ValueError) as e:
        raise ProgramError(f"inputs do not fit the layer: {e}", layer.name) from None
    return run.values


def control_values(layer: Layer, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values of control alone, by name: what is known before the start."""
    return evaluate(replace(layer, operations=()), inputs)
