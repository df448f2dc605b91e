"""A region and its replacement, evaluated on drawn values: what is not equal is refused.

Features of large layers are scaled down for it, so that no weight is read and the check is quick.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import sympy

from .form import Layer, Operation, Size, Value
from .interpret import Evaluation
from .simplify import read_by
from .sizes import symbols_of
from .translation import is_float, refusal

LEAST_FEATURES = 8
"""Features are scaled so that the least of them are about as many."""
FEW = 1 << 18
"""Weights of a region that are evaluated as they are."""
TOLERANCE = 1e-9
DRAWS = 2


def computation(layer: Layer, names: Iterable[str], given: Iterable[str]) -> tuple[Operation, ...]:
    """Operations that make values from those given, weights and inputs; in order."""
    known = set(given)
    makers = [
        op
        for op in layer.control + layer.operations
        if not any(v.name in known for v in op.outputs)
    ]
    return read_by(makers, names)


def agrees(
    layer: Layer,
    end: Operation,
    replacement: list[Operation],
    given: tuple[str, str, str],
    experts: int,
) -> bool:
    """True if the region that ends in ``end`` is one of rows, choices and weights alone.

    Raises
    ------
    ProgramError
        Its replacement computes something else.
    """
    region = computation(layer, [end.out.name], given)
    read = {n for op in region for n in op.reads()}
    if any(is_float(v.dtype) and v.name in read for v in layer.inputs if v.name not in given):
        return False
    scale = _scale(layer, region, experts)
    region, other = (list(map(scale.operation, ops)) for ops in (region, replacement))
    rng = np.random.default_rng(0)
    for draw in range(DRAWS):
        sizes = sizes_for(layer, 3 + draw)
        values = _drawn(layer, read, given, sizes, scale, experts, rng, draw)
        run = Evaluation(values, sizes, wide=True)
        found = []
        for ops in (region, other):
            try:
                run.run(ops)
            except (ValueError, IndexError, KeyError, TypeError) as e:
                raise _unlike(end, f"cannot be checked: {type(e).__name__} {e}") from None
            found.append(run.values[end.out.name])
        a, b = found
        if a.shape != b.shape or not np.allclose(a, b, TOLERANCE, TOLERANCE * np.abs(a).max()):
            raise _unlike(end, "is not the weighted sum of the chosen experts of each row")
    return True


def _unlike(end: Operation, what: str):
    return refusal(
        f"what value {end.out.name!r} is made of looks like a mixture of experts, and {what}",
        end.line,
        "write the experts as transformers does (grouped_mm, batched_mm), or as a loop",
    )


def sizes_for(layer: Layer, first: int) -> dict[sympy.Basic, int]:
    """Different sizes from ``first`` on, in their ranges; without those that values decide."""
    found = {}
    given = {s for v in layer.inputs for s in symbols_of(v.shape)}
    for i, symbol in enumerate(sorted(given, key=str)):
        least, most = layer.symbols.get(str(symbol), (0, None))
        n = max(least, first + 3 * i)
        found[symbol] = min(n, most or n)
    return found


@dataclass(frozen=True)
class _Scale:
    """Features of a region, and the number by which they are divided."""

    features: frozenset[int]
    by: int

    def size(self, n: Size) -> Size:
        return n // self.by if n in self.features else n

    def value(self, v: Value) -> Value:
        return replace(v, shape=tuple(map(self.size, v.shape)))

    def operation(self, op: Operation) -> Operation:
        args = dict(op.args)
        if op.op in ("slice", "slice_update") and op.out.shape[args["dim"]] in self.features:
            # The end of a slice with a step lies between two multiples.
            args |= {k: -(-args[k] // self.by) for k in ("start", "end")}
        if op.op == "experts":
            body = args["body"]
            inner = tuple(map(self.operation, body.operations))
            args["body"] = replace(body, rows=self.value(body.rows), operations=inner)
        return replace(op, args=args, outputs=tuple(map(self.value, op.outputs)))


def _scale(layer: Layer, region: Iterable[Operation], experts: int) -> _Scale:
    """The scale of a region: 1 where its weights are few."""
    read = {n for op in region for n in op.reads()} & set(layer.weights)
    shapes = [tuple(map(int, layer.weights[n].value.shape)) for n in read]
    if sum(map(math.prod, shapes)) <= FEW:
        return _Scale(frozenset(), 1)
    features = frozenset(n for s in shapes for n in s if n != experts and n > LEAST_FEATURES)
    common = math.gcd(*features)
    return _Scale(features, max(common // LEAST_FEATURES, 1) if common % LEAST_FEATURES == 0 else 1)


def _drawn(
    layer: Layer,
    read: set[str],
    given: tuple[str, str, str],
    sizes: Mapping[sympy.Symbol, int],
    scale: _Scale,
    experts: int,
    rng: np.random.Generator,
    draw: int,
) -> dict[str, np.ndarray]:
    """Rows, choices, weights and inputs; no row chooses an expert twice, and one has no rows."""
    run = Evaluation({}, sizes)
    found: dict[str, np.ndarray] = {}
    for name in sorted(read | set(given)):
        v = layer.values[name]
        if name not in given and name not in layer.weights and v not in layer.inputs:
            continue
        shape = run.result(scale.value(v)).shape
        if name == given[1]:
            found[name] = choices(shape, experts, rng, draw)
        elif is_float(v.dtype):
            found[name] = rng.standard_normal(shape) / 4
        else:
            found[name] = rng.integers(0, 2, shape).astype(v.dtype)
    return found


def choices(
    shape: tuple[int, ...], experts: int, rng: np.random.Generator, draw: int
) -> np.ndarray:
    """Experts that rows choose, each at most once, without the expert ``draw``."""
    k = shape[-1]
    open_to = [e for e in range(experts) if e != draw % experts or k == experts]
    order = rng.permuted(np.tile(open_to, (math.prod(shape[:-1]), 1)), axis=1)
    return order[:, :k].reshape(shape)
